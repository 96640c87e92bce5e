//! Things by their names, in no order: an open hash, for what is looked up often and never gone through.
//!
//! Places are a power of two and at most half of them are taken, so a name is found at its place or close behind. What
//! is removed leaves no gap: those behind it move up. Nothing depends on which place a thing has.

/// What things are found by.
pub(crate) trait Name: Copy + Eq {
    /// All of it in one number, whose upper half spreads names over places.
    fn mixed(self) -> u64;
}

/// An odd number near 2^64 divided by the golden ratio.
pub(crate) const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;

impl Name for u64 {
    fn mixed(self) -> u64 {
        self.wrapping_mul(SPREAD)
    }
}

#[derive(Debug)]
pub(crate) struct Table<K, V> {
    places: Vec<Option<(K, V)>>,
    taken: usize,
}

impl<K, V> Default for Table<K, V> {
    fn default() -> Self {
        Self { places: Vec::new(), taken: 0 }
    }
}

const FEWEST: usize = 8;

impl<K: Name, V> Table<K, V> {
    #[inline]
    fn home(&self, name: K) -> usize {
        (name.mixed() >> 32) as usize & (self.places.len() - 1)
    }

    /// Where a name is.
    #[inline]
    fn find(&self, name: K) -> Option<usize> {
        if self.taken == 0 {
            return None;
        }
        let mut place = self.home(name);
        while let Some((own, _)) = &self.places[place] {
            if *own == name {
                return Some(place);
            }
            place = (place + 1) & (self.places.len() - 1);
        }
        None
    }

    pub(crate) fn get(&self, name: K) -> Option<&V> {
        let place = self.find(name)?;
        self.places[place].as_ref().map(|(_, thing)| thing)
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, name: K) -> Option<&mut V> {
        let place = self.find(name)?;
        self.places[place].as_mut().map(|(_, thing)| thing)
    }

    pub(crate) fn has(&self, name: K) -> bool {
        self.find(name).is_some()
    }

    /// A thing in place of any other of that name.
    pub(crate) fn insert(&mut self, name: K, thing: V) {
        if let Some(own) = self.get_mut(name) {
            *own = thing;
            return;
        }
        if 2 * (self.taken + 1) > self.places.len() {
            self.grow();
        }
        self.taken += 1;
        self.put(name, thing);
    }

    fn put(&mut self, name: K, thing: V) {
        let mut place = self.home(name);
        while self.places[place].is_some() {
            place = (place + 1) & (self.places.len() - 1);
        }
        self.places[place] = Some((name, thing));
    }

    #[cold]
    fn grow(&mut self) {
        let many = (2 * self.places.len()).max(FEWEST);
        let before = core::mem::take(&mut self.places);
        self.places.resize_with(many, || None);
        for (name, thing) in before.into_iter().flatten() {
            self.put(name, thing);
        }
    }

    pub(crate) fn remove(&mut self, name: K) -> Option<V> {
        let mut gap = self.find(name)?;
        let (_, thing) = self.places[gap].take()?;
        self.taken -= 1;
        let last = self.places.len() - 1;
        let mut place = (gap + 1) & last;
        while let Some((other, _)) = &self.places[place] {
            // It may stand anywhere from its home on.
            let home = self.home(*other);
            if (place.wrapping_sub(home) & last) >= (place.wrapping_sub(gap) & last) {
                self.places[gap] = self.places[place].take();
                gap = place;
            }
            place = (place + 1) & last;
        }
        Some(thing)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// A name whose home is one of a few.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    struct Near(u64);

    impl Name for Near {
        fn mixed(self) -> u64 {
            (self.0 % 5).wrapping_neg() << 32
        }
    }

    proptest! {
        #[test]
        fn things_are_found_as_in_a_map(steps in prop::collection::vec((0u64..24, any::<bool>()), 0..300)) {
            let (mut table, mut map) = (Table::default(), BTreeMap::new());
            for (number, (name, enters)) in steps.into_iter().enumerate() {
                if enters {
                    table.insert(Near(name), number);
                    map.insert(Near(name), number);
                } else {
                    prop_assert_eq!(table.remove(Near(name)), map.remove(&Near(name)));
                }
                for name in (0..24).map(Near) {
                    prop_assert_eq!(table.get(name), map.get(&name));
                    prop_assert_eq!(table.has(name), map.contains_key(&name));
                }
            }
        }
    }
}
