//! Filters of queue disciplines, read back. Layouts: linux/pkt_cls.h.

use crate::leader::encode::{print_handle, traffic_header};
use crate::leader::netlink::{Socket, attributes, number32, text};
use serde_json::{Value, json};

/// Filters of the discipline `parent` at an interface: preference, protocol, target class; of u32 the keys as asked.
///
/// # Errors
/// When the kernel refuses the dump.
pub fn read(socket: &mut Socket, index: i32, parent: u32) -> anyhow::Result<Vec<Value>> {
    let dump = socket.dump(libc::RTM_GETTFILTER, &traffic_header(index, 0, parent))?;
    Ok(dump.iter().filter_map(|(_, body)| filter(body)).collect())
}

/// `None` for what is no filter itself: the kernel lists hash tables of u32 too.
fn filter(body: &[u8]) -> Option<Value> {
    let info = body.get(16..20).map_or(0, number32);
    let (mut kind, mut options): (String, &[u8]) = (String::new(), &[]);
    for (attribute, value) in attributes(body.get(20..)?) {
        match attribute {
            libc::TCA_KIND => kind = text(value),
            libc::TCA_OPTIONS => options = value,
            _ => {}
        }
    }
    let (mut target, mut keys) = (None, Vec::new());
    for (attribute, value) in attributes(options) {
        match (attribute, kind.as_str()) {
            (1, _) => target = Some(print_handle(number32(value))),
            (5, "u32") => {
                let big = |bytes: &[u8]| u32::from_be(number32(bytes));
                keys.extend(
                    value
                        .get(16..)?
                        .chunks_exact(16)
                        .map(|key| [number32(&key[8..]), big(key), big(&key[4..])]),
                );
            }
            _ => {}
        }
    }
    Some(json!({
        "kind": kind, "preference": info >> 16, "protocol": u16::from_be(info as u16), "target": target?, "keys": keys,
    }))
}
