//! Queue disciplines' options, classes and filters as netlink requests. Layouts: linux/pkt_sched.h, linux/pkt_cls.h; every
//! request's bytes are those that tc sends for the same (tested).
//!
//! Times go over the wire in microseconds where the kernel counts so (CoDel, service curves), rates in bytes per second.

use crate::leader::encode::{link_header, traffic_header};
use crate::leader::netlink::Request;
use crate::leader::operation::{Discipline, Matcher};
use std::net::IpAddr;

const TC_U32_TERMINAL: u8 = 1;
/// The EtherType of a tagged frame.
pub const VLAN: u16 = 0x8100;

/// The options of a discipline that has some, nested or not as its kind has it.
pub fn options(request: Request, discipline: &Discipline) -> Request {
    match *discipline {
        Discipline::Codel { limit_packets, target_ns, interval_ns, ecn } => {
            request.nested(libc::TCA_OPTIONS, |options| {
                let options = some(options, 2, limit_packets);
                let options = some(options, 3, interval_ns.map(micros));
                some(some(options, 1, target_ns.map(micros)), 4, ecn.map(u32::from))
            })
        }
        Discipline::FqCodel {
            limit_packets,
            target_ns,
            interval_ns,
            ecn,
            flows,
            quantum_bytes,
            memory_limit_bytes,
            drop_batch,
        } => request.nested(libc::TCA_OPTIONS, |options| {
            let options = some(some(some(options, 2, limit_packets), 5, flows), 6, quantum_bytes);
            let options = some(some(options, 3, interval_ns.map(micros)), 1, target_ns.map(micros));
            some(some(some(options, 4, ecn.map(u32::from)), 9, memory_limit_bytes), 8, drop_batch)
        }),
        Discipline::Sfq { limit_packets, quantum_bytes, perturb_ns, flows, depth, divisor } => {
            // struct tc_sfq_qopt_v1: 0 leaves the kernel's own; the rest is RED, which is off.
            let seconds = perturb_ns.map(|period| (period / 1_000_000_000) as u32);
            let head = [quantum_bytes, seconds, limit_packets, divisor, flows, depth];
            let mut bytes: Vec<u8> = head.iter().flat_map(|word| word.unwrap_or(0).to_ne_bytes()).collect();
            bytes.resize(72, 0);
            request.attribute(libc::TCA_OPTIONS, &bytes)
        }
        Discipline::Hfsc { default_class } => {
            request.attribute(libc::TCA_OPTIONS, &default_class.unwrap_or(0).to_ne_bytes())
        }
        Discipline::Prio { bands, band } => {
            // struct tc_prio_qopt: bands, and one band for each of sixteen priorities.
            let mut bytes = u32::from(bands.unwrap_or(3)).to_ne_bytes().to_vec();
            match band {
                Some(band) => bytes.extend([band; 16]),
                None => bytes.extend([1, 2, 2, 2, 1, 2, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1]),
            }
            request.attribute(libc::TCA_OPTIONS, &bytes)
        }
        _ => request,
    }
}

fn some(request: Request, kind: u16, value: Option<u32>) -> Request {
    match value {
        Some(value) => request.u32(kind, value),
        None => request,
    }
}

fn micros(ns: u64) -> u32 {
    u32::try_from(ns / 1000).unwrap_or(u32::MAX)
}

fn new_class(index: i32, handle: u32, parent: u32, kind: &str) -> Request {
    Request::new(libc::RTM_NEWTCLASS, (libc::NLM_F_CREATE | libc::NLM_F_REPLACE) as u16)
        .put(&traffic_header(index, handle, parent))
        .text(libc::TCA_KIND, kind)
}

/// A two-piece service curve: bit/s, ns, bit/s.
pub type Curve = [u64; 3];

/// A class of HFSC with its real-time, link-share and upper-limit curves.
pub fn hfsc_class(index: i32, handle: u32, parent: u32, curves: [Option<Curve>; 3]) -> Request {
    new_class(index, handle, parent, "hfsc").nested(libc::TCA_OPTIONS, |mut options| {
        for (kind, curve) in (1..).zip(curves) {
            if let Some([m1, d, m2]) = curve {
                let bytes = |rate: u64| u32::try_from(rate / 8).unwrap_or(u32::MAX);
                let words = [bytes(m1), micros(d), bytes(m2)];
                let packed: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
                options = options.attribute(kind, &packed);
            }
        }
        options
    })
}

/// A class of DRR.
pub fn drr_class(index: i32, handle: u32, parent: u32, quantum_bytes: u32) -> Request {
    new_class(index, handle, parent, "drr").nested(libc::TCA_OPTIONS, |options| options.u32(1, quantum_bytes))
}

fn filter_header(index: i32, parent: u32, preference: u16, protocol: u16) -> [u8; 20] {
    let mut header = traffic_header(index, 0, parent);
    let info = u32::from(preference) << 16 | u32::from(protocol.to_be());
    header[16..20].copy_from_slice(&info.to_ne_bytes());
    header
}

/// A filter of the discipline `parent`: frames of `protocol` (an EtherType, 3 for all) that it matches go to `class`.
pub fn filter(
    index: i32,
    parent: u32,
    preference: u16,
    protocol: u16,
    class: u32,
    matcher: &Matcher,
) -> anyhow::Result<Request> {
    let request = Request::new(libc::RTM_NEWTFILTER, (libc::NLM_F_CREATE | libc::NLM_F_EXCL) as u16)
        .put(&filter_header(index, parent, preference, protocol));
    Ok(match matcher {
        Matcher::U32 { keys } => {
            // struct tc_u32_sel (16 bytes), then struct tc_u32_key each: mask, value, offset, and no offset mask.
            let mut selector = vec![0; 16];
            selector[0] = TC_U32_TERMINAL;
            selector[2] = u8::try_from(keys.len())?;
            for &[offset, mask, value] in keys {
                selector.extend(mask.to_be_bytes());
                selector.extend((value & mask).to_be_bytes());
                selector.extend(offset.to_ne_bytes());
                selector.extend([0; 4]);
            }
            request
                .text(libc::TCA_KIND, "u32")
                .nested(libc::TCA_OPTIONS, |options| options.u32(1, class).attribute(5, &selector))
        }
        Matcher::Flower { vlan_priority, network, dscp, protocol: transport, source, destination } => {
            let networks = [source, destination]
                .map(|text| text.as_deref().map(crate::leader::encode::parse_network).transpose());
            let [source, destination] = networks;
            let (source, destination) = (source?, destination?);
            request.text(libc::TCA_KIND, "flower").nested(libc::TCA_OPTIONS, |mut options| {
                if let Some(priority) = vlan_priority {
                    options = options.attribute(24, &[*priority]);
                }
                if let Some(network) = network {
                    let kind = if protocol == VLAN { 25 } else { 8 };
                    options = options.attribute(kind, &network.to_be_bytes());
                }
                if let Some(transport) = transport {
                    options = options.attribute(9, &[*transport]);
                }
                for (network, [four, six]) in [(source, [10, 14]), (destination, [12, 16])] {
                    if let Some((address, prefix)) = network {
                        let (octets, mask) = masked(address, prefix);
                        let kind = if address.is_ipv4() { four } else { six };
                        options = options.attribute(kind, &octets).attribute(kind + 1, &mask);
                    }
                }
                if let Some(dscp) = dscp {
                    options = options.attribute(73, &[dscp << 2]).attribute(74, &[0xfc]);
                }
                options = options.u32(1, class).u32(22, 0);
                if protocol == VLAN { options.attribute(8, &VLAN.to_be_bytes()) } else { options }
            })
        }
    })
}

fn masked(address: IpAddr, prefix: u8) -> (Vec<u8>, Vec<u8>) {
    let octets = match address {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    let mask = prefix_mask(octets.len(), prefix);
    (octets, mask)
}

/// The mask of a prefix, of so many octets.
pub fn prefix_mask(octets: usize, prefix: u8) -> Vec<u8> {
    let ones = |octet: usize| usize::from(prefix).saturating_sub(8 * octet).min(8);
    (0..octets).map(|octet| !(0xff_u16 >> ones(octet)) as u8).collect()
}

/// Removes the filters of one preference.
pub fn delete_filter(index: i32, parent: u32, preference: u16, protocol: u16) -> Request {
    Request::new(libc::RTM_DELTFILTER, 0).put(&filter_header(index, parent, preference, protocol))
}

/// Sets what the kernel's own FIFOs take for their limit.
pub fn queue_length(index: i32, packets: u32) -> Request {
    Request::new(libc::RTM_NEWLINK, 0).put(&link_header(index, 0, 0)).u32(libc::IFLA_TXQLEN, packets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::leader::encode;

    /// What follows the message's header, as hexadecimal text.
    fn body(request: Request) -> String {
        request.body().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn qdisc(discipline: &Discipline) -> String {
        // After tcmsg (20 bytes): from the options on.
        let all = body(encode::qdisc(1, 0x5_0000, u32::MAX, discipline));
        let kind = 4 + discipline.kind().len() + 1;
        all[2 * (20 + kind.next_multiple_of(4))..].to_owned()
    }

    #[test]
    fn disciplines_are_encoded_as_tc_encodes_them() {
        let codel = Discipline::Codel {
            limit_packets: Some(1000),
            target_ns: Some(5_000_000),
            interval_ns: Some(100_000_000),
            ecn: Some(true),
        };
        assert_eq!(qdisc(&codel), "2400020008000200e803000008000300a086010008000100881300000800040001000000");
        let fair = Discipline::FqCodel {
            limit_packets: Some(1000),
            target_ns: Some(5_000_000),
            interval_ns: Some(100_000_000),
            ecn: Some(false),
            flows: Some(64),
            quantum_bytes: Some(300),
            memory_limit_bytes: Some(1 << 20),
            drop_batch: Some(8),
        };
        assert_eq!(
            qdisc(&fair),
            "4400020008000200e80300000800050040000000080006002c01000008000300a086010008000100881300000800040000000000\
             08000900000010000800080008000000"
        );
        let sfq = Discipline::Sfq {
            limit_packets: Some(100),
            quantum_bytes: Some(3000),
            perturb_ns: Some(10_000_000_000),
            flows: Some(100),
            depth: Some(64),
            divisor: Some(512),
        };
        let wanted = "4c000200b80b00000a00000064000000000200006400000040000000".to_owned() + &"00".repeat(48);
        assert_eq!(qdisc(&sfq), wanted);
        assert_eq!(
            qdisc(&Discipline::Hfsc { default_class: Some(2) }),
            "06000200\
            02000000"
                .to_owned()
                .as_str()
        );
        let prio = Discipline::Prio { bands: Some(4), band: Some(3) };
        // tc adds an empty attribute that the kernel does not need.
        assert_eq!(
            qdisc(&prio),
            "18000200040000000303030303030303\
            0303030303030303"
        );
    }

    #[test]
    fn classes_are_encoded_as_tc_encodes_them() {
        let curves = [Some([20_000_000, 10_000_000, 10_000_000]), Some([0, 0, 5_000_000]), None];
        assert_eq!(
            body(hfsc_class(1, 0x5_0001, 0x5_0000, curves))[2 * 32..],
            *"2400020010000100a025260010270000d01213001000020000000000000000006889 0900".replace(' ', "")
        );
        assert_eq!(body(drr_class(1, 0x5_0001, 0x5_0000, 2000))[2 * 28..], *"0c00020008000100d0070000");
    }

    #[test]
    fn filters_are_encoded_as_tc_encodes_them() {
        let flower = Matcher::Flower {
            vlan_priority: Some(5),
            network: Some(0x0800),
            dscp: Some(46),
            protocol: Some(17),
            source: None,
            destination: Some("10.0.0.0/24".into()),
        };
        let made = body(filter(1, 0x5_0000, 3, VLAN, 0x5_0001, &flower).unwrap());
        assert_eq!(made[32..40], *"81000300", "preference and protocol");
        // tc counts the padding behind the last attribute too: 0x54.
        assert_eq!(
            made[2 * 32..],
            *"52000200050018000500000006001900080000000500090011000000\
              08000c000a00000008000d00ffffff0005004900b800000005004a00fc00000008000100010005000800160000000000\
              0600080081000000"
        );
        let keys = vec![[0, 0x00fc_0000, 0x00b8_0000]];
        let made = body(filter(1, 0xa_0000, 1, 0x0800, 0xa_0001, &Matcher::U32 { keys }).unwrap());
        assert_eq!(made[32..40], *"08000100");
        assert_eq!(
            made[2 * 28..],
            *"300002000800010001000a0024000500010001000000000000000000000000 0000fc000000b80000000000000000000 0"
                .replace(' ', "")
        );
    }
}
