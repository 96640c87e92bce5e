//! Copies that were lost when nodes failed or were wiped: how many are made again, and when.

use std::collections::BTreeSet;
use virtlab_store::Progress;

/// Shares of the missing copies whose instants are reported.
const SHARES: [(&str, f64); 2] = [("recovery_half_ns", 0.5), ("recovery_most_ns", 0.9)];

/// A loss, from the first operation that takes something from a node.
#[derive(Debug, Default)]
pub struct Loss {
    began_ns: u64,
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
    pub progress: Progress,
    pub known: bool,
    pub whole: bool,
}

impl Loss {
    /// One that begins now.
    pub fn new(now_ns: u64) -> Self {
        Self { began_ns: now_ns, ..Self::default() }
    }

    /// Another node is lost: the recovery has not ended.
    pub fn goes_on(&mut self, node: usize) {
        self.nodes.insert(node);
        self.whole_ns = None;
    }

    /// Whether all that can be made again is.
    pub fn is_over(&self) -> bool {
        self.whole_ns.is_some()
    }

    /// So far it is now.
    pub fn observe(&mut self, now_ns: u64, standing: Standing) {
        let Standing { progress, known, whole } = standing;
        self.progress = progress;
        if !known {
            return;
        }
        self.known_ns.get_or_insert(now_ns);
        if progress.made > 0 {
            self.first_ns.get_or_insert(now_ns);
        }
        for ((_, share), at_ns) in SHARES.iter().zip(&mut self.shares_ns) {
            let enough = progress.made > 0 && progress.made as f64 >= share * progress.missing as f64;
            if enough || whole {
                at_ns.get_or_insert(now_ns);
            }
        }
        if whole {
            self.whole_ns.get_or_insert(now_ns);
        }
    }

    /// Copies and bytes, and the times that were reached, since it began.
    pub fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let Progress { missing, made, bytes } = self.progress;
        let counted = [("recovery_missing", missing), ("recovery_made", made), ("recovery_bytes", bytes)];
        let [half, most] = SHARES.map(|(name, _)| name);
        let times = [
            ("recovery_known_ns", self.known_ns),
            ("recovery_first_ns", self.first_ns),
            (half, self.shares_ns[0]),
            (most, self.shares_ns[1]),
            ("recovery_whole_ns", self.whole_ns),
        ];
        let began_ns = self.began_ns;
        let times = times.into_iter().filter_map(move |(name, at_ns)| Some((name, at_ns? - began_ns)));
        counted.into_iter().chain(times)
    }
}
