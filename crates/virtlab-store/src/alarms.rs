//! Instants to come, in their order: what is due next is known without a look at all that wait.

use std::collections::BTreeSet;
use virtlab_wire::Nanos;

/// When things must be looked at, each by its name. A thing knows for when it is noted here.
#[derive(Debug)]
pub(crate) struct Alarms<K> {
    all: BTreeSet<(Nanos, K)>,
}

impl<K> Default for Alarms<K> {
    fn default() -> Self {
        Self { all: BTreeSet::new() }
    }
}

impl<K: Ord + Copy> Alarms<K> {
    /// A thing that is noted for an instant, or for none, is due at another.
    pub(crate) fn set(&mut self, name: K, noted: &mut Option<Nanos>, at: Nanos) {
        if *noted != Some(at) {
            self.forget(name, noted.replace(at));
            self.all.insert((at, name));
        }
    }

    /// A thing is over.
    pub(crate) fn forget(&mut self, name: K, noted: Option<Nanos>) {
        if let Some(at) = noted {
            self.all.remove(&(at, name));
        }
    }

    pub(crate) fn next(&self) -> Option<Nanos> {
        self.all.first().map(|&(at, _)| at)
    }

    /// What is due by now, in the order of names.
    pub(crate) fn due(&self, now: Nanos) -> Vec<K> {
        let mut due: Vec<K> =
            self.all.iter().take_while(|(at, _)| *at <= now).map(|&(_, name)| name).collect();
        due.sort_unstable();
        due
    }
}
