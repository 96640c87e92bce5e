//! Filters of queue disciplines, read back under the names in their requests. Layouts: linux/pkt_cls.h.

use crate::kernel::encode::{print_address, print_handle, traffic_header};
use crate::kernel::netlink::{Socket, attributes, half, number32, text};
use crate::kernel::traffic::{VLAN, prefix_mask};
use serde_json::{Value, json};

const DSCP_MASK: u8 = 0xfc;

/// Filters of the discipline `parent` at an interface: parent, preference, protocol, target class; of u32 the keys, of
/// flower the fields.
///
/// # Errors
/// When the kernel refuses the dump.
pub fn read(socket: &mut Socket, index: i32, parent: u32) -> anyhow::Result<Vec<Value>> {
    let dump = socket.dump(libc::RTM_GETTFILTER, &traffic_header(index, 0, parent))?;
    Ok(dump.iter().filter_map(|(_, body)| filter(body)).collect())
}

/// `None` for what is no filter itself: the kernel lists hash tables of u32 too.
fn filter(body: &[u8]) -> Option<Value> {
    let parent = body.get(12..16).map_or(0, number32);
    let info = body.get(16..20).map_or(0, number32);
    let protocol = u16::from_be(info as u16);
    let (mut kind, mut options): (String, &[u8]) = (String::new(), &[]);
    for (attribute, value) in attributes(body.get(20..)?) {
        match attribute {
            libc::TCA_KIND => kind = text(value),
            libc::TCA_OPTIONS => options = value,
            _ => {}
        }
    }
    let (_, target) = attributes(options).find(|(attribute, _)| *attribute == 1)?;
    let mut found = json!({
        "kind": kind, "parent": print_handle(parent), "preference": info >> 16, "protocol": protocol,
        "target": print_handle(number32(target)),
    });
    match kind.as_str() {
        "u32" => found["keys"] = json!(keys(options)),
        "flower" => found["fields"] = fields(options, protocol),
        _ => {}
    }
    Some(found)
}

/// Offset, mask and value of each word that a u32 filter looks at.
fn keys(options: &[u8]) -> Vec<[u32; 3]> {
    let big = |bytes: &[u8]| u32::from_be(number32(bytes));
    let key = |key: &[u8]| [number32(&key[8..]), big(key), big(&key[4..])];
    let selector = attributes(options).find(|(attribute, _)| *attribute == 5);
    let words = selector.and_then(|(_, value)| value.get(16..)).unwrap_or(&[]);
    words.chunks_exact(16).map(key).collect()
}

/// What a flower filter looks at; null is what it does not look at, or not under the mask that a request has.
fn fields(options: &[u8], protocol: u16) -> Value {
    let at =
        |wanted: u16| attributes(options).find(|(attribute, _)| *attribute == wanted).map(|(_, value)| value);
    let octet = |wanted: u16| at(wanted).and_then(|value| value.first().copied());
    let network = |four: u16, six: u16| {
        [four, six].into_iter().find_map(|kind| Some(print_network(at(kind)?, at(kind + 1)?)))
    };
    let behind = at(if protocol == VLAN { 25 } else { 8 }).map(|value| u16::from_be(half(value, 0)));
    let dscp = octet(73).filter(|_| octet(74) == Some(DSCP_MASK)).map(|octet| octet >> 2);
    json!({
        "vlan_priority": octet(24), "network": behind, "dscp": dscp, "protocol": octet(9),
        "source": network(10, 14), "destination": network(12, 16),
    })
}

/// With the length of its prefix, or with its mask if that is not a prefix.
fn print_network(address: &[u8], mask: &[u8]) -> String {
    let ones = mask.iter().map(|octet| octet.count_ones()).sum::<u32>();
    let plain = prefix_mask(mask.len(), ones as u8) == mask;
    let length = if plain { ones.to_string() } else { print_address(mask) };
    format!("{}/{length}", print_address(address))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernel::traffic;
    use crate::kernel::traffic::Matcher;

    /// The filter that was requested, as it is read back.
    fn read_back(protocol: u16, matcher: &Value) -> Value {
        let matcher: Matcher = serde_json::from_value(matcher.clone()).unwrap();
        let asked = traffic::filter(1, 0xa_0000, 3, protocol, 0xa_0002, &matcher).unwrap();
        filter(&asked.body()).unwrap()
    }

    #[test]
    fn a_filter_is_told_with_its_place_and_the_words_it_looks_at() {
        let keys = json!([[0, 0x00fc_0000, 0x00b8_0000], [12, 0xffff_0000_u32, 0x0a00_0000]]);
        let found = read_back(0x0800, &json!({"kind": "u32", "keys": keys}));
        let wanted = json!({
            "kind": "u32", "parent": "a:", "preference": 3, "protocol": 0x0800, "target": "a:2", "keys": keys,
        });
        assert_eq!(found, wanted);
    }

    #[test]
    fn every_field_of_flower_is_told_as_it_was_asked_for() {
        let each = [
            ("vlan_priority", json!(5)),
            ("network", json!(0x0800)),
            ("dscp", json!(46)),
            ("protocol", json!(17)),
            ("source", json!("10.1.0.0/16")),
            ("source", json!("fd00::/8")),
            ("destination", json!("10.0.0.128/25")),
            ("destination", json!("fd00::1/128")),
        ];
        for protocol in [VLAN, 0x0800] {
            for (name, value) in &each {
                let mut asked = json!({"kind": "flower"});
                asked[name] = value.clone();
                let found = read_back(protocol, &asked);
                let fields = found["fields"].as_object().unwrap();
                assert_eq!(fields.len(), 6);
                for (other, value_read) in fields {
                    assert_eq!(
                        *value_read,
                        if other == name { value.clone() } else { Value::Null },
                        "{other}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_mask_that_nobody_asked_for_is_not_taken_for_the_one_that_was() {
        assert_eq!(print_network(&[10, 0, 0, 1], &[255, 0, 0, 255]), "10.0.0.1/255.0.0.255");
        let tos = |mask: u8| [5, 0, 73, 0, 0xb8, 0, 0, 0, 5, 0, 74, 0, mask, 0, 0, 0];
        assert_eq!(fields(&tos(0xfc), VLAN)["dscp"], 46);
        assert_eq!(fields(&tos(0xff), VLAN)["dscp"], Value::Null);
    }

    #[test]
    fn a_hash_table_of_u32_is_no_filter() {
        let mut body = vec![0; 20];
        body.extend(*b"\x08\0\x01\0u32\0");
        assert_eq!(filter(&body), None);
    }
}
