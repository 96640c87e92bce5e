//! Copies that were lost when nodes failed or were wiped: how many are made again, and when.

use crate::recovery::Progress;
use std::collections::BTreeSet;

/// Shares of the missing copies whose instants are reported.
const SHARES: [f64; 2] = [0.5, 0.9];

/// A loss, from the first operation that takes something from a node.
#[derive(Debug, Default)]
pub struct Loss {
    began_ns: u64,
    /// How far nodes were with copies before.
    before: Progress,
    /// Places of nodes that have failed or were wiped.
    pub nodes: BTreeSet<usize>,
    progress: Progress,
    /// When it was known what is missing.
    known_ns: Option<u64>,
    /// When the first copy was made again.
    first_ns: Option<u64>,
    shares_ns: [Option<u64>; SHARES.len()],
    whole_ns: Option<u64>,
}

/// How far all nodes together are.
#[derive(Clone, Copy, Debug, Default)]
pub struct Standing {
    /// Copies that they make.
    pub progress: Progress,
    /// Whether it is known what is missing.
    pub known: bool,
    /// Whether nothing is missing any more.
    pub whole: bool,
}

impl Loss {
    /// One that begins now, when nodes have made so many copies already, for nodes that were suspected wrongly, say.
    #[must_use]
    pub fn new(now_ns: u64, before: Progress) -> Self {
        Self { began_ns: now_ns, before, ..Self::default() }
    }

    /// Another node is lost: the recovery has not ended.
    pub fn goes_on(&mut self, node: usize) {
        self.nodes.insert(node);
        self.whole_ns = None;
    }

    /// Whether all that can be made again is.
    #[must_use]
    pub const fn is_over(&self) -> bool {
        self.whole_ns.is_some()
    }

    /// So far it is now.
    pub fn observe(&mut self, now_ns: u64, standing: Standing) {
        let Standing { progress, known, whole } = standing;
        let progress = progress.since(self.before);
        self.progress = progress;
        if !known {
            return;
        }
        self.known_ns.get_or_insert(now_ns);
        if progress.made > 0 {
            self.first_ns.get_or_insert(now_ns);
        }
        for (share, at_ns) in SHARES.iter().zip(&mut self.shares_ns) {
            let enough = progress.made > 0 && progress.made as f64 >= share * progress.missing as f64;
            if enough || whole {
                at_ns.get_or_insert(now_ns);
            }
        }
        if whole {
            self.whole_ns.get_or_insert(now_ns);
        }
    }

    /// Names of what is counted.
    const NAMES: [&'static str; 8] = [
        "recovery_missing",
        "recovery_made",
        "recovery_bytes",
        "recovery_known_ns",
        "recovery_first_ns",
        "recovery_half_ns",
        "recovery_most_ns",
        "recovery_whole_ns",
    ];

    /// Copies and bytes, and the times that were reached since it began, by name.
    pub fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let Progress { missing, made, bytes } = self.progress;
        let [half_ns, most_ns] = self.shares_ns;
        let since = |at_ns: Option<u64>| Some(at_ns? - self.began_ns);
        let numbers = [
            Some(missing),
            Some(made),
            Some(bytes),
            since(self.known_ns),
            since(self.first_ns),
            since(half_ns),
            since(most_ns),
            since(self.whole_ns),
        ];
        Self::NAMES.into_iter().zip(numbers).filter_map(|(name, number)| Some((name, number?)))
    }
}
