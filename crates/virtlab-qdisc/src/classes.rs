//! Disciplines with classes from a Plan: a tree by name, each class with parameters by their tc names.
//!
//! The number of a class, [`crate::Packet::class`], is its place in the order of names. HTB and HFSC have trees; strict
//! priority (`prio`) and deficit round robin (`drr`) have one level.

use crate::build::{BuildError, Reader};
use crate::{Curve, Drr, DrrClass, Fifo, Hfsc, HfscClass, Htb, HtbClass, Parameter, Prio, Qdisc};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One class.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClassLayout {
    /// The class above it; absent: none.
    #[serde(default)]
    pub parent: Option<String>,
    /// Packets that may wait in it; absent: 1000.
    #[serde(default)]
    pub limit_packets: Option<u64>,
    /// Its own parameters.
    #[serde(default)]
    pub parameters: BTreeMap<String, Parameter>,
}

/// The kinds that can have classes.
pub const CLASSFUL: [&str; 4] = ["prio", "drr", "htb", "hfsc"];

/// Priorities that a class of HTB can have (Linux: `TC_HTB_NUMPRIO`), from 0 on.
const HTB_PRIORITIES: u8 = 8;

type Classes = BTreeMap<String, ClassLayout>;

/// Classes without children, with their numbers.
#[must_use]
pub fn leaves(classes: &Classes) -> Vec<(&str, u32)> {
    let above: Vec<&str> = classes.values().filter_map(|class| class.parent.as_deref()).collect();
    let numbered = classes.keys().zip(0..).map(|(name, number)| (name.as_str(), number));
    numbered.filter(|(name, _)| !above.contains(name)).collect()
}

/// Names with parents before their children.
fn downwards(classes: &Classes) -> Result<Vec<&str>, BuildError> {
    let mut ordered: Vec<&str> = Vec::new();
    while ordered.len() < classes.len() {
        let before = ordered.len();
        for (name, class) in classes {
            let ready = class.parent.as_deref().is_none_or(|parent| ordered.contains(&parent));
            if ready && !ordered.contains(&name.as_str()) {
                ordered.push(name);
            }
        }
        if ordered.len() == before {
            let stuck = classes.keys().find(|name| !ordered.contains(&name.as_str()));
            let name = stuck.map_or("", String::as_str);
            return Err(BuildError::new(&format!("classes.{name}.parent"), "leads to no top of the tree"));
        }
    }
    Ok(ordered)
}

fn curve(reader: &Reader<'_>, keys: [&'static str; 3]) -> Result<Option<Curve>, BuildError> {
    let [m1, d, m2] = keys;
    let (first, length, second) = (reader.whole(m1)?, reader.whole(d)?, reader.whole(m2)?);
    Ok(match (first, second) {
        (None, None) => None,
        (first, second) => {
            let m2_bit_per_s = second.unwrap_or(0);
            Some(Curve {
                m1_bit_per_s: first.unwrap_or(m2_bit_per_s),
                d_ns: length.unwrap_or(0),
                m2_bit_per_s,
            })
        }
    })
}

/// The priority of a class of HTB; absent: 0, the best.
fn htb_prio(reader: &Reader<'_>) -> Result<u8, BuildError> {
    let prio = reader.whole("prio")?.unwrap_or(0);
    u8::try_from(prio).ok().filter(|prio| *prio < HTB_PRIORITIES).ok_or_else(|| {
        BuildError::new("prio", format!("{prio} is none of the priorities 0 to {}", HTB_PRIORITIES - 1))
    })
}

/// The discipline of this name with these classes.
///
/// # Errors
/// [`BuildError`] naming the class and key that is unknown, missing or impossible.
pub fn build_classes(kind: &str, classes: &Classes) -> Result<Box<dyn Qdisc>, BuildError> {
    let ordered = downwards(classes)?;
    let at_of = |name: &str| ordered.iter().position(|known| *known == name);
    let number = |name: &str| classes.keys().position(|known| known == name).unwrap_or(0) as u32;
    let (mut htb, mut hfsc) = (Vec::new(), Vec::new());
    let mut drr = vec![DrrClass { quantum_bytes: 1514, limit_packets: 1000 }; classes.len()];
    let mut bands: Vec<(u64, u32)> = Vec::new();
    for name in &ordered {
        let class = &classes[*name];
        let wrong = |error: BuildError| error.of_class(name);
        let reader = Reader::new(&class.parameters);
        let parent = class.parent.as_deref().and_then(at_of);
        let limit_packets = class.limit_packets.unwrap_or(1000);
        let id = number(name);
        match kind {
            "htb" => {
                let default =
                    HtbClass::of_rate(id, parent, reader.required("rate_bit_per_s").map_err(wrong)?);
                let burst_bytes = reader.bytes("burst_bytes").map_err(wrong)?.unwrap_or(default.burst_bytes);
                htb.push(HtbClass {
                    ceil_bit_per_s: reader
                        .positive("ceil_bit_per_s")
                        .map_err(wrong)?
                        .unwrap_or(default.rate_bit_per_s),
                    burst_bytes,
                    cburst_bytes: reader.bytes("cburst_bytes").map_err(wrong)?.unwrap_or(burst_bytes),
                    quantum_bytes: reader
                        .bytes("quantum_bytes")
                        .map_err(wrong)?
                        .unwrap_or(default.quantum_bytes),
                    prio: htb_prio(&reader).map_err(wrong)?,
                    limit_packets,
                    ..default
                });
            }
            "hfsc" => {
                let of = |keys| curve(&reader, keys).map_err(wrong);
                hfsc.push(HfscClass {
                    id,
                    parent,
                    rt: of(["rt_m1_bit_per_s", "rt_d_ns", "rt_m2_bit_per_s"])?,
                    ls: of(["ls_m1_bit_per_s", "ls_d_ns", "ls_m2_bit_per_s"])?,
                    ul: of(["ul_m1_bit_per_s", "ul_d_ns", "ul_m2_bit_per_s"])?,
                    limit_packets,
                });
            }
            _ if class.parent.is_some() => {
                return Err(wrong(BuildError::new("parent", format!("{kind} has one level of classes"))));
            }
            "drr" => {
                let quantum_bytes = reader.bytes("quantum_bytes").map_err(wrong)?.unwrap_or(1514);
                drr[id as usize] = DrrClass { quantum_bytes, limit_packets };
            }
            "prio" => bands.push((reader.whole("prio").map_err(wrong)?.unwrap_or(0), id)),
            other => return Err(BuildError::new("classes", format!("{other} has no classes"))),
        }
        reader.nothing_left(kind).map_err(wrong)?;
    }
    Ok(match kind {
        "htb" => {
            Box::new(Htb::new(&htb, None).map_err(|error| BuildError::new("classes", error.to_string()))?)
        }
        "hfsc" => {
            Box::new(Hfsc::new(&hfsc, None).map_err(|error| BuildError::new("classes", error.to_string()))?)
        }
        "drr" => Box::new(Drr::new(&drr)),
        _ => {
            bands.sort_unstable();
            let mut map = vec![0; bands.len()];
            let mut queues: Vec<Box<dyn Qdisc + Send>> = Vec::new();
            for (band, (_, id)) in bands.iter().enumerate() {
                map[*id as usize] = band;
                let (_, class) = classes.iter().nth(*id as usize).expect("a number is a place in the map");
                queues.push(Box::new(Fifo::new(Some(class.limit_packets.unwrap_or(1000)), None)));
            }
            Box::new(Prio::new(queues, map))
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ecn, Packet};
    use virtlab_wire::Nanos;

    fn class(parent: Option<&str>, given: &[(&str, u64)]) -> ClassLayout {
        let parameters =
            given.iter().map(|(key, value)| ((*key).to_owned(), Parameter::Whole(*value))).collect();
        ClassLayout { parent: parent.map(str::to_owned), limit_packets: None, parameters }
    }

    fn named(given: Vec<(&str, ClassLayout)>) -> Classes {
        given.into_iter().map(|(name, class)| (name.to_owned(), class)).collect()
    }

    fn order(qdisc: &mut dyn Qdisc, classes: &[u32]) -> Vec<u64> {
        let mut drops = Vec::new();
        for (id, class) in classes.iter().enumerate() {
            let packet = Packet { id: id as u64, bytes: 1000, flow: 0, class: *class, ecn: Ecn::NotCapable };
            qdisc.enqueue(packet, Nanos(0), &mut drops);
        }
        std::iter::from_fn(|| qdisc.dequeue(Nanos(0), &mut drops)).map(|packet| packet.id).collect()
    }

    #[test]
    fn strict_priority_goes_by_prio_and_not_by_name() {
        let classes = named(vec![("bulk", class(None, &[("prio", 1)])), ("voice", class(None, &[]))]);
        let mut made = build_classes("prio", &classes).unwrap();
        assert_eq!(order(made.as_mut(), &[0, 0, 1]), [2, 0, 1]);
    }

    #[test]
    fn round_robin_shares_by_quantum() {
        let (big, small) = (("quantum_bytes", 2000), ("quantum_bytes", 1000));
        let classes = named(vec![("a", class(None, &[big])), ("b", class(None, &[small]))]);
        let mut made = build_classes("drr", &classes).unwrap();
        assert_eq!(order(made.as_mut(), &[0, 0, 0, 0, 1, 1]), [0, 1, 4, 2, 3, 5]);
    }

    #[test]
    fn a_tree_may_be_written_in_any_order_of_names() {
        let rate = ("rate_bit_per_s", 1_000_000);
        let classes =
            named(vec![("a-leaf", class(Some("z-root"), &[rate])), ("z-root", class(None, &[rate]))]);
        assert_eq!(leaves(&classes), [("a-leaf", 0)]);
        assert!(build_classes("htb", &classes).is_ok());
        let share = ("ls_m2_bit_per_s", 1_000_000);
        let classes = named(vec![("a", class(Some("b"), &[share])), ("b", class(None, &[share]))]);
        assert!(build_classes("hfsc", &classes).is_ok());
    }

    #[test]
    fn a_mistake_names_its_class_and_key() {
        let error = |kind: &str, given| build_classes(kind, &named(given)).err().unwrap().to_string();
        assert_eq!(error("htb", vec![("a", class(None, &[]))]), "classes.a.rate_bit_per_s: is missing");
        assert_eq!(
            error("drr", vec![("a", class(Some("b"), &[])), ("b", class(None, &[]))]),
            "classes.a.parent: drr has one level of classes"
        );
        assert_eq!(
            error("htb", vec![("a", class(Some("a"), &[("rate_bit_per_s", 1)]))]),
            "classes.a.parent: leads to no top of the tree"
        );
        assert_eq!(
            error("prio", vec![("a", class(None, &[("rate_bit_per_s", 1)]))]),
            "classes.a.rate_bit_per_s: prio has no such parameter"
        );
        let of_prio = |prio| class(None, &[("rate_bit_per_s", 1_000_000), ("prio", prio)]);
        assert!(build_classes("htb", &named(vec![("a", of_prio(7)), ("b", of_prio(0))])).is_ok());
        for prio in [8, 256, u64::MAX] {
            assert_eq!(
                error("htb", vec![("a", of_prio(prio))]),
                format!("classes.a.prio: {prio} is none of the priorities 0 to 7")
            );
        }
    }
}
