//! Instants to come, in their order: what is due next is known without a look at all that wait.
//!
//! Things wait for one of a few spans from now, so mostly an instant is later than all that were noted for its span
//! before. They are in rows, each in the order of instants: a new one goes behind the row that ends latest before it.
//! What is over leaves a gap, and no row begins with a gap.

use std::collections::VecDeque;
use virtlab_wire::Nanos;

/// More rows are not looked through for each instant; then one goes between others.
const MOST_ROWS: usize = 6;

#[derive(Debug)]
struct Alarm<K> {
    at: Nanos,
    /// None: a gap.
    name: Option<K>,
}

/// When things must be looked at, each by its name. A thing knows for when it is noted here.
#[derive(Debug)]
pub(crate) struct Alarms<K> {
    rows: Vec<VecDeque<Alarm<K>>>,
}

impl<K> Default for Alarms<K> {
    fn default() -> Self {
        Self { rows: Vec::new() }
    }
}

impl<K: Ord + Copy> Alarms<K> {
    /// A thing that is noted for an instant, or for none, is due at another.
    pub(crate) fn set(&mut self, name: K, noted: &mut Option<Nanos>, at: Nanos) {
        if *noted != Some(at) {
            self.forget(name, noted.replace(at));
            self.enter(Alarm { at, name: Some(name) });
        }
    }

    fn enter(&mut self, alarm: Alarm<K>) {
        let ends = |row: &VecDeque<Alarm<K>>| row.back().map(|last| last.at);
        let fits = |row: &usize| ends(&self.rows[*row]).is_none_or(|last| last <= alarm.at);
        match (0..self.rows.len()).filter(fits).max_by_key(|row| ends(&self.rows[*row])) {
            Some(row) => self.rows[row].push_back(alarm),
            None if self.rows.len() < MOST_ROWS => self.rows.push(VecDeque::from([alarm])),
            None => {
                let row = &mut self.rows[0];
                let place = row.partition_point(|before| before.at <= alarm.at);
                row.insert(place, alarm);
            }
        }
    }

    /// A thing is over.
    pub(crate) fn forget(&mut self, name: K, noted: Option<Nanos>) {
        let Some(at) = noted else { return };
        for row in &mut self.rows {
            let mut place = row.partition_point(|before| before.at < at);
            while let Some(alarm) = row.get_mut(place).filter(|alarm| alarm.at == at) {
                if alarm.name == Some(name) {
                    alarm.name = None;
                    while row.front().is_some_and(|first| first.name.is_none()) {
                        row.pop_front();
                    }
                    return;
                }
                place += 1;
            }
        }
    }

    pub(crate) fn next(&self) -> Option<Nanos> {
        self.rows.iter().filter_map(|row| Some(row.front()?.at)).min()
    }

    /// What is due by now, in the order of names.
    pub(crate) fn due(&self, now: Nanos) -> Vec<K> {
        let due = |row: &VecDeque<Alarm<K>>| {
            let many = row.partition_point(|alarm| alarm.at <= now);
            row.iter().take(many).filter_map(|alarm| alarm.name).collect::<Vec<_>>()
        };
        let mut due: Vec<K> = self.rows.iter().flat_map(due).collect();
        due.sort_unstable();
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn alarms_are_those_of_a_map(
            steps in prop::collection::vec((0u32..12, prop::option::of((0u64..40, 0u64..4))), 0..200),
        ) {
            let (mut alarms, mut map, mut noted) = (Alarms::default(), BTreeMap::new(), [None; 12]);
            for (number, (name, later)) in steps.into_iter().enumerate() {
                let own = &mut noted[name as usize];
                match later {
                    // Some wait for one of a few spans, some for any.
                    Some((later, span)) => {
                        let at = Nanos(number as u64 + [0, 100, 1000, later][span as usize]);
                        alarms.set(name, own, at);
                        map.insert(name, at);
                    }
                    None => {
                        alarms.forget(name, own.take());
                        map.remove(&name);
                    }
                }
                prop_assert_eq!(alarms.next(), map.values().min().copied());
                for now in [number as u64, number as u64 + 20, 2000].map(Nanos) {
                    let due: Vec<u32> = map.iter().filter(|(_, at)| **at <= now).map(|(name, _)| *name).collect();
                    prop_assert_eq!(alarms.due(now), due);
                }
            }
        }
    }
}
