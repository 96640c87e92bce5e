//! Which class a frame belongs to: rules over its headers, the first that holds decides, else the default.
//!
//! A rule names a class and conditions that must all hold: DSCP (RFC 2474), 802.1p priority, IP protocol, addresses,
//! ports, or a share of all flows by their hash. A header that a frame does not have satisfies no condition; fragments
//! have no ports, so that all parts of a packet go the same way. The soft switch and the simulator ask the same rules.

use crate::{BuildError, pfifo_fast};
use core::net::IpAddr;
use serde::{Deserialize, Serialize};

/// What rules can look at; absent where a frame has no such header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Headers {
    /// 802.1p priority of the outer VLAN tag.
    pub pcp: Option<u8>,
    /// TOS or traffic class, all eight bits.
    pub tos: Option<u8>,
    /// IP protocol or next header.
    pub protocol: Option<u8>,
    /// Whence.
    pub source: Option<IpAddr>,
    /// Whither.
    pub destination: Option<IpAddr>,
    /// The source port of TCP, UDP and SCTP; fragments have none.
    pub source_port: Option<u16>,
    /// As above.
    pub destination_port: Option<u16>,
}

/// A rule as a Plan has it; conditions that are absent hold for every frame.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Class of the frames that satisfy it.
    pub class: String,
    /// One of these code points.
    #[serde(default)]
    pub dscp: Vec<u8>,
    /// One of these 802.1p priorities.
    #[serde(default)]
    pub pcp: Vec<u8>,
    /// IP protocol number.
    #[serde(default)]
    pub protocol: Option<u8>,
    /// Source network, `10.0.0.0/24`.
    #[serde(default)]
    pub source: Option<String>,
    /// Destination network.
    #[serde(default)]
    pub destination: Option<String>,
    /// Source ports, first and last.
    #[serde(default)]
    pub source_port: Option<[u16; 2]>,
    /// Destination ports.
    #[serde(default)]
    pub destination_port: Option<[u16; 2]>,
    /// Flows whose hash leaves the first number when divided by the second.
    #[serde(default)]
    pub flow: Option<[u64; 2]>,
}

#[derive(Clone, Copy, Debug)]
struct Network {
    address: IpAddr,
    prefix_bits: u32,
}

impl Network {
    fn parse(key: &str, text: &str) -> Result<Self, BuildError> {
        let wrong = || BuildError::new(key, format!("'{text}' is not a network; write e.g. 10.0.0.0/24"));
        let (address, prefix) = text.split_once('/').map_or((text, None), |(a, p)| (a, Some(p)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let prefix_bits = prefix.map_or(Ok(most), |text| text.parse().map_err(|_| wrong()))?;
        if prefix_bits > most { Err(wrong()) } else { Ok(Self { address, prefix_bits }) }
    }

    fn holds(&self, other: IpAddr) -> bool {
        let differs = match (self.address, other) {
            (IpAddr::V4(a), IpAddr::V4(b)) => u128::from(u32::from(a) ^ u32::from(b)) << 96,
            (IpAddr::V6(a), IpAddr::V6(b)) => u128::from(a) ^ u128::from(b),
            _ => return false,
        };
        differs.checked_shr(128 - self.prefix_bits).unwrap_or(0) == 0
    }
}

#[derive(Debug)]
struct Compiled {
    class: u32,
    rule: Rule,
    source: Option<Network>,
    destination: Option<Network>,
}

impl Compiled {
    fn holds(&self, headers: &Headers, flow: u64) -> bool {
        let one_of = |list: &[u8], value: Option<u8>| {
            list.is_empty() || value.is_some_and(|value| list.contains(&value))
        };
        let within = |network: &Option<Network>, value: Option<IpAddr>| {
            network.is_none_or(|network| value.is_some_and(|value| network.holds(value)))
        };
        let between = |range: Option<[u16; 2]>, value: Option<u16>| {
            range.is_none_or(|[low, high]| value.is_some_and(|value| (low..=high).contains(&value)))
        };
        one_of(&self.rule.dscp, headers.tos.map(|tos| tos >> 2))
            && one_of(&self.rule.pcp, headers.pcp)
            && self.rule.protocol.is_none_or(|wanted| headers.protocol == Some(wanted))
            && within(&self.source, headers.source)
            && within(&self.destination, headers.destination)
            && between(self.rule.source_port, headers.source_port)
            && between(self.rule.destination_port, headers.destination_port)
            && self.rule.flow.is_none_or(|[left, by]| flow % by == left)
    }
}

/// Rules in order, and the class of frames that satisfy none.
#[derive(Debug)]
pub struct Classifier {
    rules: Vec<Compiled>,
    default: u32,
    /// Whether the classes are `pfifo_fast`'s bands, which go by the type of service and not by rules.
    bands: bool,
    /// Whether a rule looks at the flow's hash.
    pub wants_flow: bool,
}

impl Classifier {
    /// From rules; `names` are the leaves with the number that `Packet::class` has for each.
    ///
    /// # Errors
    /// A rule or default of an unknown class, an impossible condition.
    pub fn new(rules: &[Rule], default: Option<&str>, names: &[(&str, u32)]) -> Result<Self, BuildError> {
        let find = |key: &str, name: &str| {
            names
                .iter()
                .find(|(known, _)| *known == name)
                .map(|(_, class)| *class)
                .ok_or_else(|| BuildError::new(key, format!("'{name}' is not a class without children")))
        };
        let default = find("default", default.ok_or_else(|| BuildError::new("default", "is missing"))?)?;
        let mut compiled = Vec::new();
        for (at, rule) in rules.iter().enumerate() {
            let key = format!("match.{at}");
            if rule.dscp.iter().any(|dscp| *dscp > 63) || rule.pcp.iter().any(|pcp| *pcp > 7) {
                return Err(BuildError::new(&key, "a DSCP is 0 to 63, an 802.1p priority 0 to 7"));
            }
            if rule.flow.is_some_and(|[left, by]| left >= by) {
                return Err(BuildError::new(&key, "a share of flows is below their number"));
            }
            let network = |text: &Option<String>| text.as_deref().map(|text| Network::parse(&key, text));
            compiled.push(Compiled {
                class: find(&key, &rule.class)?,
                source: network(&rule.source).transpose()?,
                destination: network(&rule.destination).transpose()?,
                rule: rule.clone(),
            });
        }
        let wants_flow = rules.iter().any(|rule| rule.flow.is_some());
        Ok(Self { rules: compiled, default, bands: false, wants_flow })
    }

    /// `pfifo_fast`'s: the class is the band.
    #[must_use]
    pub fn bands() -> Self {
        Self { rules: Vec::new(), default: 0, bands: true, wants_flow: false }
    }

    /// The class of a frame.
    #[must_use]
    pub fn class_of(&self, headers: &Headers, flow: u64) -> u32 {
        if self.bands {
            return pfifo_fast::band_of(headers) as u32;
        }
        let found = self.rules.iter().find(|rule| rule.holds(headers, flow));
        found.map_or(self.default, |rule| rule.class)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn classifier(rules: &[Rule]) -> Result<Classifier, BuildError> {
        Classifier::new(rules, Some("rest"), &[("rest", 0), ("voice", 1), ("bulk", 2)])
    }

    fn rule(class: &str) -> Rule {
        Rule { class: class.to_owned(), ..Rule::default() }
    }

    #[test]
    fn the_first_rule_that_holds_decides() {
        let rules = [
            Rule { dscp: vec![46], ..rule("voice") },
            Rule { protocol: Some(17), destination_port: Some([5000, 5010]), ..rule("bulk") },
        ];
        let made = classifier(&rules).unwrap();
        let udp =
            Headers { tos: Some(0), protocol: Some(17), destination_port: Some(5010), ..Headers::default() };
        assert_eq!(made.class_of(&udp, 0), 2);
        assert_eq!(made.class_of(&Headers { tos: Some(46 << 2 | 2), ..udp }, 0), 1, "ECN bits do not count");
        assert_eq!(made.class_of(&Headers { destination_port: Some(5011), ..udp }, 0), 0);
        assert_eq!(made.class_of(&Headers { destination_port: None, ..udp }, 0), 0, "a fragment has no port");
    }

    #[test]
    fn networks_and_shares_of_flows() {
        let rules = [
            Rule { source: Some("10.0.1.0/24".into()), ..rule("voice") },
            Rule { source: Some("fd00::/16".into()), ..rule("voice") },
            Rule { flow: Some([1, 2]), ..rule("bulk") },
        ];
        let made = classifier(&rules).unwrap();
        let from = |text: &str| Headers { source: Some(text.parse().unwrap()), ..Headers::default() };
        assert_eq!(made.class_of(&from("10.0.1.77"), 0), 1);
        assert_eq!(made.class_of(&from("10.0.2.77"), 4), 0);
        assert_eq!(made.class_of(&from("10.0.2.77"), 5), 2);
        assert_eq!(made.class_of(&from("fd00:7::1"), 0), 1);
        assert!(made.wants_flow);
    }

    #[test]
    fn a_rule_that_can_never_hold_is_refused() {
        assert!(classifier(&[rule("missing")]).is_err());
        assert!(classifier(&[Rule { dscp: vec![64], ..rule("voice") }]).is_err());
        assert!(classifier(&[Rule { source: Some("10.0.0.0/33".into()), ..rule("voice") }]).is_err());
        assert!(classifier(&[Rule { flow: Some([2, 2]), ..rule("voice") }]).is_err());
        assert!(Classifier::new(&[], None, &[("rest", 0)]).is_err());
    }
}
