//! Frames that both languages read and write: `tests/golden/wire/frames.json`.

use serde_json::Value;
use virtlab_wire::frame::{Decoder, Frame, Kind};

fn bytes(hex: &str) -> Vec<u8> {
    (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect()
}

#[test]
fn golden_frames_are_written_and_read_byte_for_byte() {
    let text = include_str!("../../../tests/golden/wire/frames.json");
    let frames: Vec<Value> = serde_json::from_str(text).unwrap();
    assert!(frames.len() >= 6);
    for golden in frames {
        let body = match &golden["text"] {
            Value::String(text) => text.clone().into_bytes(),
            _ => bytes(golden["body_hex"].as_str().unwrap()),
        };
        let kind = [Kind::Control, Kind::Block, Kind::Data][golden["kind"].as_u64().unwrap() as usize];
        let frame = Frame { channel: golden["channel"].as_u64().unwrap() as u16, kind, body };
        let mut written = Vec::new();
        frame.encode(&mut written).unwrap();
        let expected = bytes(golden["frame_hex"].as_str().unwrap());
        assert_eq!(written, expected, "{}", golden["name"]);
        let mut decoder = Decoder::new();
        decoder.feed(&expected);
        assert_eq!(decoder.next_frame(), Some(frame));
    }
}
