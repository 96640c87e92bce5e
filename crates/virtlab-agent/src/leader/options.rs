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
            let (mut rate, mut ceil, mut bursts) = (0, 0, None);
            for (attribute, value) in attributes(options) {
                match attribute {
                    1 => {
                        rate = value.get(8..).map_or(0, number32).into();
                        ceil = value.get(20..).map_or(0, number32).into();
                        bursts = value.get(24..).map(number32).zip(value.get(28..).map(number32));
                        map.insert("overhead_bytes".into(), json!(half(value, 2)));
                        map.insert("minimum_bytes".into(), json!(half(value, 6)));
                        map.insert("quantum_bytes".into(), json!(value.get(32..).map_or(0, number32)));
                        map.insert("prio".into(), json!(value.get(40..).map_or(0, number32)));
                    }
                    2 => drop(map.insert("default_class".into(), json!(value.get(8..).map_or(0, number32)))),
                    5 => drop(map.insert("direct_limit_packets".into(), json!(number32(value)))),
                    // Rates beyond 32 bits of bytes per second.
                    6 => rate = number64(value),
                    7 => ceil = number64(value),
                    _ => {}
                }
            }
            if let Some((burst, cburst)) = bursts {
                map.insert("rate_bit_per_s".into(), json!(rate * 8));
                map.insert("ceil_bit_per_s".into(), json!(ceil * 8));
                map.insert("burst_bytes".into(), json!(burst_bytes(burst, rate)));
                map.insert("cburst_bytes".into(), json!(burst_bytes(cburst, ceil)));
            }
        }
        "tbf" => {
            let (mut rate, mut buffer) = (0, 0);
            for (attribute, value) in attributes(options) {
                match attribute {
                    1 => {
                        rate = value.get(8..).map_or(0, number32).into();
                        buffer = value.get(28..).map_or(0, number32);
                        map.insert("overhead_bytes".into(), json!(half(value, 2)));
                        map.insert("minimum_bytes".into(), json!(half(value, 6)));
                        map.insert("limit_bytes".into(), json!(value.get(24..).map_or(0, number32)));
                    }
                    4 => rate = number64(value),
                    _ => {}
                }
            }
            map.insert("rate_bit_per_s".into(), json!(rate * 8));
            map.insert("burst_bytes".into(), json!(burst_bytes(buffer, rate)));
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
        "prio" => {
            map.insert("bands".into(), json!(number32(options)));
            // struct tc_prio_qopt: where all sixteen priorities have one band, it is that of what no filter takes.
            if let Some(&[band, ref rest @ ..]) = options.get(4..20)
                && rest.iter().all(|other| *other == band)
            {
                map.insert("band".into(), json!(band));
            }
        }
        // struct tc_hfsc_qopt of the discipline; its classes have attributes.
        "hfsc" if options.len() == 2 => drop(map.insert("default_class".into(), json!(half(options, 0)))),
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
fn burst_bytes(ticks: u32, bytes_per_s: u64) -> u64 {
    (u128::from(ticks) * 64 * u128::from(bytes_per_s)).div_ceil(1_000_000_000) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leader::encode::{self, Shape};
    use crate::leader::netlink::Request;
    use crate::leader::operation::Discipline;

    /// What the kernel would be told, read as if it told it.
    fn told(kind: &str, request: Request, header: usize) -> Map<String, Value> {
        let body = request.body();
        let options = attributes(&body[header..]).find(|(attribute, _)| *attribute == libc::TCA_OPTIONS);
        decode(kind, options.expect("it has options").1)
    }

    fn qdisc(discipline: &Discipline) -> Map<String, Value> {
        told(discipline.kind(), encode::qdisc(1, 0x1_0000, u32::MAX, discipline), 20)
    }

    fn class(rate_bit_per_s: u64, burst_bytes: u32) -> Map<String, Value> {
        let shape = Shape {
            rate_bit_per_s,
            ceil_bit_per_s: 2 * rate_bit_per_s,
            burst_bytes,
            cburst_bytes: burst_bytes,
            prio: 3,
            quantum_bytes: 1514,
            overhead_bytes: 24,
            minimum_bytes: 84,
        };
        told("htb", encode::class(1, 0x1_0001, 0x1_0000, shape), 20)
    }

    #[test]
    fn a_burst_comes_back_in_whole_ticks_of_its_rate_and_however_fast_it_is() {
        let found = class(100_000_000, 15_380);
        assert_eq!((&found["burst_bytes"], &found["prio"]), (&json!(15_380), &json!(3)));
        // 80 Gbit/s are more bytes per second than 32 bits count: a tick holds 640 of them.
        let found = class(80_000_000_000, 64_000);
        assert_eq!(found["rate_bit_per_s"], json!(80_000_000_000_u64));
        assert_eq!((&found["burst_bytes"], &found["cburst_bytes"]), (&json!(64_000), &json!(64_000)));
    }

    #[test]
    fn where_frames_go_that_no_filter_takes_is_told() {
        let htb = qdisc(&Discipline::Htb { default_class: 5, direct_limit_packets: 77 });
        assert_eq!((&htb["default_class"], &htb["direct_limit_packets"]), (&json!(5), &json!(77)));
        let prio = qdisc(&Discipline::Prio { bands: Some(4), band: Some(3) });
        assert_eq!((&prio["bands"], &prio["band"]), (&json!(4), &json!(3)));
        let own = qdisc(&Discipline::Prio { bands: None, band: None });
        assert_eq!((&own["bands"], own.get("band")), (&json!(3), None));
        // The kernel answers with the two bytes that are the number.
        assert_eq!(decode("hfsc", &7u16.to_ne_bytes())["default_class"], json!(7));
    }
}
