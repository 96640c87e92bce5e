//! What must hold for any bytes that reach an agent: called by the fuzz targets, and on the kept corpus by the tests.
//!
//! An agent does what it is asked, so who asks is trusted; but what was damaged on its way, or comes from another
//! version, is refused and not stumbled over.

use crate::{probe, switch};
use virtlab_leader as leader;
use virtlab_system::transport::understood;
use virtlab_wire::frame::{Decoder, Kind, encode};

/// Any bytes, alone and as frames, are a request of each role or are refused in words.
pub fn requests(bytes: &[u8]) {
    read(bytes);
    let mut decoder = Decoder::new();
    decoder.feed(bytes);
    while let Some(frame) = decoder.next_frame() {
        if frame.kind == Kind::Control {
            read(&frame.body);
        }
    }
}

/// Any octets from a peer of a store, which is another guest, are messages, or end the line that they came on. How
/// many messages were heard.
pub fn messages(bytes: &[u8]) -> usize {
    probe::messages(bytes)
}

fn read(body: &[u8]) {
    let told = [
        understood::<probe::control::Request>(body).map(|_| ()),
        understood::<switch::request::Request>(body).map(|(_, request)| {
            if let switch::request::Request::Configure(configure) = request {
                let _ = configure.layout().check();
            }
        }),
    ];
    for (id, why) in told.into_iter().filter_map(Result::err).chain(leader::refused(body)) {
        let mut out = Vec::new();
        let refusal = serde_json::json!({"re": id, "error": {"what": why}}).to_string();
        encode(0, Kind::Control, refusal.as_bytes(), &mut out).expect("a refusal fits a frame");
    }
}
