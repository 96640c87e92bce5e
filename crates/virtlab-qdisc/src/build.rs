//! Disciplines by name, with parameters as a Plan has them: tc's names with a unit suffix.
//!
//! Each discipline declares itself in its own file; [`TABLE`] is the one place that lists them.

use crate::classes::Tree;
use crate::kernel::Cell;
use crate::{
    Classifier, Qdisc, codel, drr, fifo, fq_codel, hfsc, htb, netem, pfifo_fast, pie, prio, sfq, tbf,
};
use serde::{Deserialize, Serialize};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use thiserror::Error;

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

/// Limits and parameters being read; a parameter that was never read is unknown.
pub(crate) struct Reader<'a> {
    pub limit_packets: Option<u64>,
    pub limit_bytes: Option<u64>,
    given: &'a BTreeMap<String, Parameter>,
    read: RefCell<BTreeSet<&'static str>>,
}

impl<'a> Reader<'a> {
    pub(crate) fn new(given: &'a BTreeMap<String, Parameter>) -> Self {
        Self { limit_packets: None, limit_bytes: None, given, read: RefCell::default() }
    }

    /// Refuses what was given and never read.
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

    pub(crate) fn flag(&self, key: &'static str) -> Result<Option<bool>, BuildError> {
        self.read.borrow_mut().insert(key);
        match self.given.get(key) {
            None => Ok(None),
            Some(Parameter::Flag(value)) => Ok(Some(*value)),
            Some(_) => Err(BuildError::new(key, "is yes or no, not a number")),
        }
    }

    pub(crate) fn ratio(&self, key: &'static str) -> Result<Option<f64>, BuildError> {
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
}

type Made = Result<Box<dyn Qdisc>, BuildError>;

/// In what a discipline's limit is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Limited {
    Packets,
    Bytes,
    Both,
}

/// Names of classes, and what sorts frames into them.
pub type Bands = (&'static [&'static str], fn() -> Classifier);

/// What a discipline is: its name, how it is made from a Plan's values, and how Linux takes its options.
pub struct Declaration {
    /// As a Plan and as tc have it.
    pub name: &'static str,
    pub(crate) limited: Limited,
    /// Packets and bytes that wait at a port without a given limit; where both are absent, the discipline's own.
    pub port_limits: (Option<u64>, Option<u64>),
    pub(crate) plain: Option<fn(&Reader<'_>) -> Made>,
    pub(crate) classed: Option<fn(&Tree<'_>) -> Made>,
    /// Classes can have parents.
    pub(crate) tree: bool,
    /// First in, first out: its departures are known in closed form.
    pub is_fifo: bool,
    /// Classes that it has without being told any, and what sorts frames into them.
    pub bands: Option<Bands>,
    /// What is far away: the kernel's in a testbed, and only the simulator plays it here.
    pub is_far: bool,
    /// Linux's options of the discipline; absent: Linux has none of this name.
    pub kernel: Option<&'static [Cell]>,
    /// Linux's options of each of its classes; absent: they are not read.
    pub kernel_class: Option<&'static [Cell]>,
    /// What Linux counts of it in `TCA_STATS_APP`: the first word that says so, where there is one, and words by name.
    pub(crate) statistics: (Option<u32>, &'static [(&'static str, usize)]),
    /// Options with which Linux is asked whether it has the discipline.
    pub trial: &'static [(&'static str, u64)],
}

impl Declaration {
    /// A declaration with the name alone.
    pub(crate) const fn of(name: &'static str) -> Self {
        Self {
            name,
            limited: Limited::Packets,
            port_limits: (None, None),
            plain: None,
            classed: None,
            tree: false,
            is_fifo: false,
            bands: None,
            is_far: false,
            kernel: Some(&[]),
            kernel_class: None,
            statistics: (None, &[]),
            trial: &[],
        }
    }

    /// Whether the soft switch plays it.
    #[must_use]
    pub const fn is_played(&self) -> bool {
        (self.plain.is_some() || self.classed.is_some()) && !self.is_far
    }

    /// What Linux counted, from `TCA_STATS_APP`.
    #[must_use]
    pub fn counted(&self, reported: &[u8]) -> Vec<(&'static str, u64)> {
        let word = |at: usize| reported.get(at * 4..at * 4 + 4)?.try_into().ok().map(u32::from_ne_bytes);
        let (of_the_whole, names) = self.statistics;
        if of_the_whole.is_some() && word(0) != of_the_whole {
            return Vec::new(); // of one class
        }
        names.iter().filter_map(|(name, at)| Some((*name, u64::from(word(*at)?)))).collect()
    }

    /// Whether it can have classes.
    #[must_use]
    pub const fn has_classes(&self) -> bool {
        self.classed.is_some()
    }

    /// Whether it can stand without classes.
    #[must_use]
    pub const fn stands_alone(&self) -> bool {
        self.plain.is_some()
    }
}

/// All disciplines; the last are Linux's alone, for those who ask what it has.
pub static TABLE: [Declaration; 16] = [
    fifo::ANY,
    fifo::PFIFO,
    fifo::BFIFO,
    pfifo_fast::DECLARATION,
    sfq::DECLARATION,
    codel::DECLARATION,
    fq_codel::DECLARATION,
    pie::DECLARATION,
    tbf::DECLARATION,
    htb::DECLARATION,
    hfsc::DECLARATION,
    prio::DECLARATION,
    drr::DECLARATION,
    netem::DECLARATION,
    Declaration::of("fq"),
    Declaration::of("ingress"),
];

/// The default in front of a port.
pub static DEFAULT: &Declaration = &TABLE[0];

/// The discipline of this name.
#[must_use]
pub fn declared(name: &str) -> Option<&'static Declaration> {
    TABLE.iter().find(|each| each.name == name)
}

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
    let found = declared(kind).and_then(|each| each.plain.map(|plain| (each, plain)));
    let Some((declaration, plain)) = found else {
        return Err(BuildError::new("kind", format!("there is no discipline '{kind}'")));
    };
    for (key, limit) in [("limit_packets", limit_packets), ("limit_bytes", limit_bytes)] {
        if limit == Some(0) {
            return Err(BuildError::new(key, "a queue that holds nothing passes nothing"));
        }
    }
    match declaration.limited {
        Limited::Bytes if limit_packets.is_some() => {
            return Err(BuildError::new("limit_packets", format!("{kind} is limited in bytes")));
        }
        Limited::Packets if limit_bytes.is_some() => {
            return Err(BuildError::new("limit_bytes", format!("{kind} is limited in packets")));
        }
        _ => {}
    }
    let reader = Reader { limit_packets, limit_bytes, ..Reader::new(parameters) };
    let built = plain(&reader)?;
    reader.nothing_left(kind)?;
    Ok(built)
}
