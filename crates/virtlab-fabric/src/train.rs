//! A train: equal frames at even intervals, as fragments of a message come out of a line.
//!
//! What happens to all of them is worked out at once where it is the same for each. Where it is not, they go frame
//! by frame, and what comes out is put together again.

use virtlab_wire::Nanos;

/// `count` instants, the first `at`, each `step` after the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Train {
    /// The first.
    pub at: Nanos,
    /// From one to the next.
    pub step: Nanos,
    /// How many; never none.
    pub count: u32,
}

impl Train {
    /// One frame.
    #[must_use]
    pub fn of_one(at: Nanos) -> Self {
        Self { at, step: Nanos::ZERO, count: 1 }
    }

    /// When a frame of the train is there; they are numbered from 0.
    #[must_use]
    #[inline]
    pub fn nth(&self, number: u32) -> Nanos {
        Nanos(self.at.0 + u64::from(number) * self.step.0)
    }

    /// When its last frame is there.
    #[must_use]
    #[inline]
    pub fn last(&self) -> Nanos {
        self.nth(self.count - 1)
    }

    /// How many of its frames are there by `now`.
    #[must_use]
    #[inline]
    pub fn by(&self, now: Nanos) -> u32 {
        if now < self.at {
            0
        } else if now >= self.last() {
            self.count
        } else {
            ((now.0 - self.at.0) / self.step.0) as u32 + 1 // less than all, so a step is more than nothing
        }
    }

    /// Without its first frames, of which there are fewer than all.
    #[must_use]
    #[inline]
    pub fn without(&self, first: u32) -> Self {
        Self { at: self.nth(first), step: self.step, count: self.count - first }
    }

    /// Appends a train to trains: as a part of the last one where it continues evenly.
    #[inline]
    pub(crate) fn join(self, trains: &mut Vec<Self>) {
        if let Some(last) = trains.last_mut()
            && self.at >= last.last()
        {
            let gap = self.at - last.last();
            let evenly = (last.count == 1 || last.step == gap) && (self.count == 1 || self.step == gap);
            if evenly {
                (last.step, last.count) = (gap, last.count + self.count);
                return;
            }
        }
        trains.push(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn trains_that_are_joined_are_the_same_instants(
            gaps in prop::collection::vec((0u64..3, 0u64..3, 1u32..4), 0..40),
        ) {
            let (mut at, mut joined, mut plain) = (0, Vec::new(), Vec::new());
            for (gap, step, count) in gaps {
                let train = Train { at: Nanos(at + gap), step: Nanos(step), count };
                plain.extend((0..count).map(|number| train.nth(number)));
                at = train.last().0;
                train.join(&mut joined);
            }
            let told = joined.iter().flat_map(|train| (0..train.count).map(|number| train.nth(number)));
            prop_assert_eq!(told.collect::<Vec<_>>(), plain);
        }

        #[test]
        fn frames_that_are_there_are_counted(at in 0u64..9, step in 0u64..4, count in 1u32..6, now in 0u64..30) {
            let train = Train { at: Nanos(at), step: Nanos(step), count };
            let there = (0..count).filter(|number| train.nth(*number) <= Nanos(now)).count();
            prop_assert_eq!(train.by(Nanos(now)) as usize, there);
        }
    }
}
