//! Disciplines by name, with parameters as a Plan has them: tc's names with a unit suffix.

use crate::{
    Codel, CodelOptions, ControlLaw, Curve, Fifo, FqCodel, FqCodelOptions, Hfsc, HfscClass, Htb, HtbClass,
    Netem, NetemOptions, Qdisc, Sfq, SfqOptions, Tbf, TbfOptions, pfifo_fast,
};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;
use virtlab_wire::Nanos;

/// A parameter's value.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Parameter {
    /// Yes or no.
    Flag(bool),
    /// A whole number in the unit of the parameter's name.
    Whole(u64),
    /// A share.
    Ratio(f64),
}

/// A discipline that cannot be built: which key, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{key}: {what}")]
pub struct BuildError {
    /// `kind`, `limit_packets`, `limit_bytes`, or a parameter's name.
    pub key: String,
    /// What is wrong.
    pub what: String,
}

impl BuildError {
    pub(crate) fn new(key: &str, what: impl Into<String>) -> Self {
        Self { key: key.to_owned(), what: what.into() }
    }

    /// The same mistake, of one class.
    pub(crate) fn of_class(self, name: &str) -> Self {
        Self { key: format!("classes.{name}.{}", self.key), what: self.what }
    }
}

/// Parameters being read; what was not asked for in the end is unknown.
pub(crate) struct Reader<'a> {
    given: &'a BTreeMap<String, Parameter>,
    read: RefCell<BTreeSet<&'static str>>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(given: &'a BTreeMap<String, Parameter>) -> Self {
        Self { given, read: RefCell::default() }
    }

    /// Refuses what was given and never asked for.
    pub(crate) fn nothing_left(&self, kind: &str) -> Result<(), BuildError> {
        match self.given.keys().find(|key| !self.read.borrow().contains(key.as_str())) {
            Some(unknown) => Err(BuildError::new(unknown, format!("{kind} has no such parameter"))),
            None => Ok(()),
        }
    }

    pub(crate) fn whole(&self, key: &'static str) -> Result<Option<u64>, BuildError> {
        self.read.borrow_mut().insert(key);
        match self.given.get(key) {
            None => Ok(None),
            Some(Parameter::Whole(value)) => Ok(Some(*value)),
            Some(Parameter::Flag(_)) => Err(BuildError::new(key, "is a number, not yes or no")),
            Some(Parameter::Ratio(_)) => Err(BuildError::new(key, "is a whole number")),
        }
    }

    pub(crate) fn positive(&self, key: &'static str) -> Result<Option<u64>, BuildError> {
        match self.whole(key)? {
            Some(0) => Err(BuildError::new(key, "must be above zero")),
            value => Ok(value),
        }
    }

    pub(crate) fn bytes(&self, key: &'static str) -> Result<Option<u32>, BuildError> {
        self.positive(key)?
            .map(|value| u32::try_from(value).map_err(|_| BuildError::new(key, "is beyond 4 GiB")))
            .transpose()
    }

    fn flag(&self, key: &'static str) -> Result<Option<bool>, BuildError> {
        self.read.borrow_mut().insert(key);
        match self.given.get(key) {
            None => Ok(None),
            Some(Parameter::Flag(value)) => Ok(Some(*value)),
            Some(_) => Err(BuildError::new(key, "is yes or no, not a number")),
        }
    }

    fn ratio(&self, key: &'static str) -> Result<Option<f64>, BuildError> {
        self.read.borrow_mut().insert(key);
        let share = match self.given.get(key) {
            None => return Ok(None),
            Some(Parameter::Ratio(share)) => *share,
            Some(Parameter::Whole(whole @ (0 | 1))) => *whole as f64,
            Some(_) => return Err(BuildError::new(key, "is a share, 0 to 1")),
        };
        if (0.0..=1.0).contains(&share) {
            Ok(Some(share))
        } else {
            Err(BuildError::new(key, "is a share, 0 to 1"))
        }
    }

    pub(crate) fn required(&self, key: &'static str) -> Result<u64, BuildError> {
        self.positive(key)?.ok_or_else(|| BuildError::new(key, "is missing"))
    }

    fn codel(&self, default: CodelOptions, limit_packets: Option<u64>) -> Result<CodelOptions, BuildError> {
        Ok(CodelOptions {
            target: self.positive("target_ns")?.map_or(default.target, Nanos),
            interval: self.positive("interval_ns")?.map_or(default.interval, Nanos),
            limit_packets: limit_packets.unwrap_or(default.limit_packets),
            mtu_bytes: default.mtu_bytes,
            law: if self.flag("ideal")?.unwrap_or(false) { ControlLaw::Ideal } else { ControlLaw::Linux },
            ecn: self.flag("ecn")?.unwrap_or(default.ecn),
        })
    }
}

/// The disciplines that [`build`] knows by name, but for `netem`: what is to be far away is the kernel's in a testbed, and only the
/// simulator plays it here.
pub const KINDS: [&str; 10] =
    ["fifo", "pfifo", "bfifo", "pfifo_fast", "sfq", "codel", "fq_codel", "tbf", "htb", "hfsc"];

/// Where an interface says nothing else: `txqueuelen` of an Ethernet port, from which the kernel's FIFOs take their limit.
const QUEUE_PACKETS: u64 = 1000;
/// What `bfifo` takes for a packet of it: MTU and Ethernet header.
const FULL_FRAME_BYTES: u64 = 1514;

/// The discipline of this name. Limits that are not given are tc's defaults, but those of `fifo` do not bind.
///
/// # Errors
/// [`BuildError`] naming the key that is unknown, missing or impossible.
pub fn build(
    kind: &str,
    limit_packets: Option<u64>,
    limit_bytes: Option<u64>,
    parameters: &BTreeMap<String, Parameter>,
) -> Result<Box<dyn Qdisc>, BuildError> {
    let reader = Reader::new(parameters);
    for (key, limit) in [("limit_packets", limit_packets), ("limit_bytes", limit_bytes)] {
        if limit == Some(0) {
            return Err(BuildError::new(key, "a queue that holds nothing passes nothing"));
        }
    }
    match (kind, limit_packets, limit_bytes) {
        ("fifo", _, _) | ("tbf" | "bfifo", None, _) => {}
        ("tbf" | "bfifo", Some(_), _) => {
            return Err(BuildError::new("limit_packets", format!("{kind} is limited in bytes")));
        }
        (_, _, Some(_)) => {
            return Err(BuildError::new("limit_bytes", format!("{kind} is limited in packets")));
        }
        _ => {}
    }
    let built: Box<dyn Qdisc> = match kind {
        "fifo" => Box::new(Fifo::new(limit_packets, limit_bytes)),
        "pfifo" => Box::new(Fifo::new(limit_packets.or(Some(QUEUE_PACKETS)), None)),
        "bfifo" => Box::new(Fifo::new(None, limit_bytes.or(Some(QUEUE_PACKETS * FULL_FRAME_BYTES)))),
        "pfifo_fast" => Box::new(pfifo_fast(limit_packets.unwrap_or(QUEUE_PACKETS))),
        "sfq" => {
            let default = SfqOptions::default();
            Box::new(Sfq::new(SfqOptions {
                limit_packets: limit_packets.unwrap_or(default.limit_packets),
                depth_packets: reader.positive("depth")?.unwrap_or(default.depth_packets),
                flows: reader.bytes("flows")?.unwrap_or(default.flows),
                divisor: reader.bytes("divisor")?.unwrap_or(default.divisor),
                quantum_bytes: reader.bytes("quantum_bytes")?.unwrap_or(default.quantum_bytes),
                perturb: reader.whole("perturb_ns")?.filter(|period| *period > 0).map(Nanos),
                seed: default.seed,
            }))
        }
        "codel" => Box::new(Codel::new(reader.codel(CodelOptions::default(), limit_packets)?)),
        "fq_codel" => {
            let default = FqCodelOptions::default();
            Box::new(FqCodel::new(FqCodelOptions {
                codel: reader.codel(default.codel, limit_packets)?,
                flows: reader.bytes("flows")?.unwrap_or(default.flows),
                quantum_bytes: reader.bytes("quantum_bytes")?.unwrap_or(default.quantum_bytes),
                memory_limit_bytes: reader
                    .positive("memory_limit_bytes")?
                    .unwrap_or(default.memory_limit_bytes),
                drop_batch: reader.bytes("drop_batch")?.unwrap_or(default.drop_batch),
            }))
        }
        "tbf" => {
            let rate_bit_per_s = reader.required("rate_bit_per_s")?;
            let burst_bytes =
                reader.bytes("burst_bytes")?.ok_or_else(|| BuildError::new("burst_bytes", "is missing"))?;
            Box::new(Tbf::new(TbfOptions {
                rate_bit_per_s,
                burst_bytes,
                // tc asks for a limit; 50 ms is what its manual page shows.
                limit_bytes: limit_bytes.unwrap_or(TbfOptions::limit_of_latency(
                    rate_bit_per_s,
                    burst_bytes,
                    Nanos(50_000_000),
                )),
                peak: None,
                overhead_bytes: 0,
                minimum_bytes: 0,
            }))
        }
        "htb" => {
            let default = HtbClass::of_rate(0, None, reader.required("rate_bit_per_s")?);
            let burst_bytes = reader.bytes("burst_bytes")?.unwrap_or(default.burst_bytes);
            let class = HtbClass {
                ceil_bit_per_s: reader.positive("ceil_bit_per_s")?.unwrap_or(default.rate_bit_per_s),
                burst_bytes,
                cburst_bytes: reader.bytes("cburst_bytes")?.unwrap_or(burst_bytes),
                quantum_bytes: reader.bytes("quantum_bytes")?.unwrap_or(default.quantum_bytes),
                limit_packets: limit_packets.unwrap_or(default.limit_packets),
                ..default
            };
            Box::new(
                Htb::new(&[class], Some(0))
                    .map_err(|error| BuildError::new("ceil_bit_per_s", error.to_string()))?,
            )
        }
        "hfsc" => {
            let m2_bit_per_s = reader.required("m2_bit_per_s")?;
            let curve = Curve {
                m1_bit_per_s: reader.whole("m1_bit_per_s")?.unwrap_or(m2_bit_per_s),
                d_ns: reader.whole("d_ns")?.unwrap_or(0),
                m2_bit_per_s,
            };
            let limit_packets = limit_packets.unwrap_or(1000);
            let class =
                HfscClass { id: 0, parent: None, rt: Some(curve), ls: Some(curve), ul: None, limit_packets };
            Box::new(
                Hfsc::new(&[class], Some(0))
                    .map_err(|error| BuildError::new("m2_bit_per_s", error.to_string()))?,
            )
        }
        "netem" => {
            let default = NetemOptions::default();
            Box::new(Netem::new(NetemOptions {
                delay: reader.whole("delay_ns")?.map_or(default.delay, Nanos),
                loss_ratio: reader.ratio("loss_ratio")?.unwrap_or(default.loss_ratio),
                limit_packets: limit_packets.unwrap_or(default.limit_packets),
                seed: reader.whole("seed")?.unwrap_or(default.seed),
            }))
        }
        other => return Err(BuildError::new("kind", format!("there is no discipline '{other}'"))),
    };
    reader.nothing_left(kind)?;
    Ok(built)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parameters(given: &[(&str, u64)]) -> BTreeMap<String, Parameter> {
        given.iter().map(|(key, value)| ((*key).to_owned(), Parameter::Whole(*value))).collect()
    }

    #[test]
    fn every_discipline_is_built_by_its_name() {
        for (kind, given) in [
            ("fifo", parameters(&[])),
            ("pfifo", parameters(&[])),
            ("bfifo", parameters(&[])),
            ("pfifo_fast", parameters(&[])),
            ("sfq", parameters(&[("perturb_ns", 10_000_000_000)])),
            ("codel", parameters(&[("target_ns", 1_000_000)])),
            ("fq_codel", parameters(&[("flows", 64)])),
            ("tbf", parameters(&[("rate_bit_per_s", 1_000_000), ("burst_bytes", 3000)])),
            ("htb", parameters(&[("rate_bit_per_s", 1_000_000), ("cburst_bytes", 9000)])),
            ("hfsc", parameters(&[("m2_bit_per_s", 1_000_000)])),
            ("netem", parameters(&[("delay_ns", 1_000_000), ("loss_ratio", 0), ("seed", 3)])),
        ] {
            assert!(build(kind, None, None, &given).is_ok(), "{kind}");
        }
    }

    #[test]
    fn every_kind_named_is_known() {
        for kind in KINDS {
            let built = build(kind, None, None, &BTreeMap::new());
            assert!(built.err().is_none_or(|error| error.key != "kind"), "{kind}");
        }
    }

    #[test]
    fn a_mistake_names_its_key() {
        let error = |kind: &str, packets, bytes, given: &[(&str, u64)]| {
            build(kind, packets, bytes, &parameters(given)).err().expect("it is a mistake").to_string()
        };
        assert_eq!(error("red", None, None, &[]), "kind: there is no discipline 'red'");
        assert_eq!(error("netem", None, None, &[("loss_ratio", 2)]), "loss_ratio: is a share, 0 to 1");
        assert_eq!(error("fifo", None, None, &[("target_ns", 1)]), "target_ns: fifo has no such parameter");
        assert_eq!(error("tbf", None, None, &[("burst_bytes", 9)]), "rate_bit_per_s: is missing");
        assert_eq!(error("codel", None, Some(9), &[]), "limit_bytes: codel is limited in packets");
        assert_eq!(error("pfifo", None, Some(9), &[]), "limit_bytes: pfifo is limited in packets");
        assert_eq!(error("bfifo", Some(9), None, &[]), "limit_packets: bfifo is limited in bytes");
        assert_eq!(
            error("sfq", Some(0), None, &[]),
            "limit_packets: a queue that holds nothing passes nothing"
        );
        assert_eq!(error("codel", None, None, &[("ecn", 1)]), "ecn: is yes or no, not a number");
    }
}
