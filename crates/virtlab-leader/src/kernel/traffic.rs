//! Filters as netlink requests. Layouts: linux/pkt_cls.h; every request's bytes are those that tc sends for the same
//! (tested).

use crate::kernel::encode::{link_header, traffic_header};
use crate::kernel::netlink::Request;
use serde::Deserialize;
use std::net::IpAddr;

const TC_U32_TERMINAL: u8 = 1;
/// The EtherType of a tagged frame.
pub const VLAN: u16 = 0x8100;

/// How a filter looks at a frame.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Matcher {
    /// Words at offsets from the network header, all of which must agree under their masks: offset, mask, value.
    U32 { keys: Vec<[u32; 3]> },
    /// Header fields by name; `network` is the EtherType behind the tag where there is one.
    Flower {
        vlan_priority: Option<u8>,
        network: Option<u16>,
        dscp: Option<u8>,
        protocol: Option<u8>,
        source: Option<String>,
        destination: Option<String>,
    },
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
                .map(|text| text.as_deref().map(crate::kernel::encode::parse_network).transpose());
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

    /// What follows the message's header, as hexadecimal text.
    fn body(request: Request) -> String {
        request.body().iter().map(|byte| format!("{byte:02x}")).collect()
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
