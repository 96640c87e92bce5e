//! A queue discipline's or class's options as the kernel tells them, under the Plan's names: tc's with a unit suffix.

use crate::leader::netlink::{attributes, number32, number64};
use serde_json::{Map, Value, json};

/// The options of a discipline or class of this kind.
pub fn decode(kind: &str, options: &[u8]) -> Map<String, Value> {
    let mut map = Map::new();
    match kind {
        "pfifo" => drop(map.insert("limit_packets".into(), json!(number32(options)))),
        "bfifo" => drop(map.insert("limit_bytes".into(), json!(number32(options)))),
        "htb" => {
            for (attribute, value) in attributes(options) {
                match attribute {
                    1 => {
                        let rate = value.get(8..).map_or(0, number32);
                        let ceil = value.get(20..).map_or(0, number32);
                        let buffer = value.get(24..).map_or(0, number32);
                        put_rate(&mut map, rate);
                        map.insert("overhead_bytes".into(), json!(half(value, 2)));
                        map.insert("minimum_bytes".into(), json!(half(value, 6)));
                        map.insert("ceil_bit_per_s".into(), json!(u64::from(ceil) * 8));
                        map.insert("burst_bytes".into(), json!(burst_bytes(buffer, rate)));
                        let cbuffer = value.get(28..).map_or(0, number32);
                        map.insert("cburst_bytes".into(), json!(burst_bytes(cbuffer, ceil)));
                        map.insert("quantum_bytes".into(), json!(value.get(32..).map_or(0, number32)));
                        map.insert("prio".into(), json!(value.get(40..).map_or(0, number32)));
                    }
                    2 => drop(map.insert("default_class".into(), json!(value.get(8..).map_or(0, number32)))),
                    6 => drop(map.insert("rate_bit_per_s".into(), json!(number64(value) * 8))),
                    7 => drop(map.insert("ceil_bit_per_s".into(), json!(number64(value) * 8))),
                    _ => {}
                }
            }
        }
        "tbf" => {
            for (attribute, value) in attributes(options) {
                match attribute {
                    1 => {
                        let rate = value.get(8..).map_or(0, number32);
                        put_rate(&mut map, rate);
                        map.insert("overhead_bytes".into(), json!(half(value, 2)));
                        map.insert("minimum_bytes".into(), json!(half(value, 6)));
                        map.insert("limit_bytes".into(), json!(value.get(24..).map_or(0, number32)));
                        let buffer = value.get(28..).map_or(0, number32);
                        map.insert("burst_bytes".into(), json!(burst_bytes(buffer, rate)));
                    }
                    4 => drop(map.insert("rate_bit_per_s".into(), json!(number64(value) * 8))),
                    _ => {}
                }
            }
        }
        "netem" => {
            map.insert("limit_packets".into(), json!(options.get(4..).map_or(0, number32)));
            map.insert("delay_ns".into(), json!(u64::from(number32(options)) * 64));
            let loss = options.get(8..).map_or(0, number32);
            if loss > 0 {
                map.insert("loss_ratio".into(), json!(f64::from(loss) / f64::from(u32::MAX)));
            }
            for (attribute, value) in attributes(options.get(24..).unwrap_or(&[])) {
                match attribute {
                    6 => {
                        put_rate(&mut map, number32(value));
                        let overhead = value.get(4..).map_or(0, number32) as i32;
                        map.insert("overhead_bytes".into(), json!(overhead));
                    }
                    8 => drop(map.insert("rate_bit_per_s".into(), json!(number64(value) * 8))),
                    10 => drop(map.insert("delay_ns".into(), json!(number64(value)))),
                    _ => {}
                }
            }
        }
        "codel" => words(
            &mut map,
            options,
            &[(1, "target_ns", MICRO), (2, "limit_packets", 1), (3, "interval_ns", MICRO), (4, "ecn", 1)],
        ),
        "fq_codel" => words(
            &mut map,
            options,
            &[
                (1, "target_ns", MICRO),
                (2, "limit_packets", 1),
                (3, "interval_ns", MICRO),
                (4, "ecn", 1),
                (5, "flows", 1),
                (6, "quantum_bytes", 1),
                (8, "drop_batch", 1),
                (9, "memory_limit_bytes", 1),
            ],
        ),
        "drr" => words(&mut map, options, &[(1, "quantum_bytes", 1)]),
        "sfq" => {
            let names = [
                ("quantum_bytes", 1),
                ("perturb_ns", 1_000_000_000),
                ("limit_packets", 1),
                ("divisor", 1),
                ("flows", 1),
                ("depth", 1),
            ];
            for (at, (name, unit)) in names.into_iter().enumerate() {
                let word = options.get(at * 4..).map_or(0, number32);
                map.insert(name.into(), json!(u64::from(word) * unit));
            }
        }
        "prio" => drop(map.insert("bands".into(), json!(number32(options)))),
        "hfsc" => {
            for (attribute, value) in attributes(options) {
                let name = match attribute {
                    1 => "real_time",
                    2 => "link_share",
                    3 => "upper_limit",
                    _ => continue,
                };
                let word = |at: usize| u64::from(value.get(at * 4..).map_or(0, number32));
                map.insert(name.into(), json!([word(0) * 8, word(1) * MICRO, word(2) * 8]));
            }
        }
        _ => {}
    }
    map
}

const MICRO: u64 = 1000;

/// Attributes of one 32-bit word each, in units of so many.
fn words(map: &mut Map<String, Value>, options: &[u8], names: &[(u16, &str, u64)]) {
    for (attribute, value) in attributes(options) {
        if let Some((_, name, unit)) = names.iter().find(|(known, _, _)| *known == attribute) {
            map.insert((*name).to_owned(), json!(u64::from(number32(value)) * unit));
        }
    }
}

fn put_rate(map: &mut Map<String, Value>, bytes_per_s: u32) {
    map.insert("rate_bit_per_s".into(), json!(u64::from(bytes_per_s) * 8));
}

/// Two bytes as a number.
pub fn half(value: &[u8], at: usize) -> u16 {
    value.get(at..at + 2).map_or(0, |bytes| u16::from_ne_bytes([bytes[0], bytes[1]]))
}

/// Bytes of a burst from its time in scheduler ticks of 64 ns.
fn burst_bytes(ticks: u32, bytes_per_s: u32) -> u64 {
    (u128::from(ticks) * 64 * u128::from(bytes_per_s)).div_ceil(1_000_000_000) as u64
}
