//! What must hold for any bytes: called by the fuzz targets, and on the kept corpus by the tests.

use crate::frame::{Decoder, Kind};
use crate::line::Line;
use crate::{block, frame};

/// A stream of any bytes, cut anywhere, ends with every byte accounted for: in a frame, passed over, or pending.
pub fn frames(bytes: &[u8]) {
    let cut = bytes.first().map_or(1, |first| usize::from(*first) + 1);
    let mut decoder = Decoder::new();
    let mut in_frames = 0;
    for piece in bytes.chunks(cut) {
        decoder.feed(piece);
        while let Some(frame) = decoder.next_frame() {
            let mut again = Vec::new();
            frame.encode(&mut again).expect("a decoded frame can be encoded");
            in_frames += again.len();
        }
    }
    assert!(decoder.pending_bytes() < frame::HEADER_BYTES + frame::MAXIMUM_BODY_BYTES);
    assert_eq!(in_frames + decoder.stray_bytes() as usize + decoder.pending_bytes(), bytes.len());
}

/// Any bytes are a block whose columns lie inside them, in order, or are refused.
pub fn blocks(bytes: &[u8]) {
    if let Ok((header, ranges)) = block::decode(bytes) {
        assert_eq!(header.columns.len(), ranges.len());
        let mut past = 0;
        for (range, column) in ranges.iter().zip(&header.columns) {
            assert!(range.start >= past && range.end <= bytes.len());
            assert_eq!(range.len(), header.n * column.dtype.bytes());
            past = range.end;
        }
    }
}

/// Any bytes from a client are frames, notes, or refused; nothing that was given to be sent is forgotten by them.
pub fn lines(bytes: &[u8]) {
    let cut = bytes.first().map_or(1, |first| usize::from(*first) + 1);
    let mut line = Line::new(Some(1));
    line.connect();
    for piece in bytes.chunks(cut) {
        line.send(1, Kind::Data, b"kept").expect("short enough");
        line.feed(piece);
        loop {
            match line.next_frame() {
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(_) => line.connect(),
            }
        }
        assert!(line.take_out().len() <= (bytes.len() + 1) * 1024);
    }
}
