//! What a bridge does at one of its ports: isolation, learning, flooding. Set, undone and read back.
//!
//! An isolated port exchanges frames with ports that are not isolated, and with no isolated one; the kernel checks
//! it for every frame, known or flooded. Layout: `IFLA_PROTINFO` of linux/if_link.h, family `AF_BRIDGE`.

use crate::kernel::encode::link_header;
use crate::kernel::netlink::{Request, attributes};
use serde::Deserialize;
use serde_json::{Map, Value, json};

const NESTED: u16 = 0x8000;
const LEARNING: u16 = 8;
const UNICAST_FLOOD: u16 = 9;
const MULTICAST_FLOOD: u16 = 27;
const BROADCAST_FLOOD: u16 = 30;
const ISOLATED: u16 = 33;

/// What is to be changed; absent: it stays.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// No frame to or from another isolated port.
    pub isolated: Option<bool>,
    /// Whether source addresses are learned here.
    pub learning: Option<bool>,
    /// Whether frames to unknown addresses, to groups and to all leave here.
    pub flooding: Option<bool>,
}

impl Rules {
    /// What takes these rules back: a new port's own.
    #[must_use]
    pub fn undone(self) -> Self {
        Self {
            isolated: self.isolated.map(|_| false),
            learning: self.learning.map(|_| true),
            flooding: self.flooding.map(|_| true),
        }
    }
}

/// Sets the rules of a port.
pub fn change(index: i32, rules: Rules) -> Request {
    let mut header = link_header(index, 0, 0);
    header[0] = libc::AF_BRIDGE as u8;
    let said = [
        (LEARNING, rules.learning),
        (UNICAST_FLOOD, rules.flooding),
        (MULTICAST_FLOOD, rules.flooding),
        (BROADCAST_FLOOD, rules.flooding),
        (ISOLATED, rules.isolated),
    ];
    Request::new(libc::RTM_SETLINK, 0).put(&header).nested(libc::IFLA_PROTINFO | NESTED, |mut inside| {
        for (kind, value) in said {
            if let Some(on) = value {
                inside = inside.attribute(kind, &[u8::from(on)]);
            }
        }
        inside
    })
}

/// The rules of a port, out of `IFLA_LINKINFO` of its link message; `None` when it is no bridge port.
pub fn read(link_info: &[u8]) -> Option<Value> {
    let part = |wanted| attributes(link_info).find(|(kind, _)| *kind == wanted).map(|(_, value)| value);
    let kind = part(libc::IFLA_INFO_SLAVE_KIND)?;
    if !kind.starts_with(b"bridge") {
        return None;
    }
    let mut found = Map::new();
    for (kind, value) in attributes(part(libc::IFLA_INFO_SLAVE_DATA)?) {
        let name = match kind {
            LEARNING => "learning",
            UNICAST_FLOOD => "unicast_flood",
            MULTICAST_FLOOD => "multicast_flood",
            BROADCAST_FLOOD => "broadcast_flood",
            ISOLATED => "isolated",
            _ => continue,
        };
        found.insert(name.to_owned(), json!(value.first() == Some(&1)));
    }
    Some(Value::Object(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taking_back_says_only_what_was_said() {
        let rules = Rules { isolated: Some(true), ..Rules::default() };
        assert_eq!(rules.undone(), Rules { isolated: Some(false), ..Rules::default() });
    }

    #[test]
    fn a_port_is_read_out_of_its_link_info() {
        let mut data = Vec::new();
        for (kind, value) in [(LEARNING, 0u8), (ISOLATED, 1)] {
            data.extend(5u16.to_ne_bytes());
            data.extend(kind.to_ne_bytes());
            data.extend([value, 0, 0, 0]);
        }
        let mut info = Vec::new();
        info.extend(11u16.to_ne_bytes());
        info.extend(libc::IFLA_INFO_SLAVE_KIND.to_ne_bytes());
        info.extend(b"bridge\0\0");
        info.extend((data.len() as u16 + 4).to_ne_bytes());
        info.extend(libc::IFLA_INFO_SLAVE_DATA.to_ne_bytes());
        info.extend(&data);
        assert_eq!(read(&info), Some(json!({"learning": false, "isolated": true})));
        assert_eq!(read(&[]), None);
    }
}
