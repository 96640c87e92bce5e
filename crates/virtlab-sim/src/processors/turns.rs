//! Guests that take turns on processors, a piece of work each, some of them on a processor of their own choice.

use std::collections::VecDeque;

/// Who is ready, and which processors are free.
#[derive(Debug)]
pub struct Turns {
    ready: VecDeque<usize>,
    free: Vec<bool>,
    count: usize,
}

impl Turns {
    /// So many processors, all free.
    #[must_use]
    pub fn new(processors: usize) -> Self {
        Self { ready: VecDeque::new(), free: vec![true; processors], count: processors }
    }

    /// A guest is ready, behind all others that are.
    pub fn queue_up(&mut self, guest: usize) {
        self.ready.push_back(guest);
    }

    /// The first guest from a place in the queue on that has a processor, and that: its own, or any that is free. It is
    /// in the queue no more. `pinned`: the processor of its own.
    #[inline]
    pub fn next(
        &mut self,
        place: &mut usize,
        pinned: impl Fn(usize) -> Option<usize>,
    ) -> Option<(usize, usize)> {
        while self.count > 0 {
            let &guest = self.ready.get(*place)?;
            if let Some(processor) = self.processor(pinned(guest)) {
                self.ready.remove(*place);
                return Some((guest, processor));
            }
            *place += 1; // its own is taken: the next one may go before
        }
        None
    }

    /// A processor is busy.
    pub fn take(&mut self, processor: usize) {
        self.free[processor] = false;
        self.count -= 1;
    }

    /// A processor is free again.
    pub fn give_back(&mut self, processor: usize) {
        self.free[processor] = true;
        self.count += 1;
    }

    /// A free processor that a guest may have.
    fn processor(&self, pinned: Option<usize>) -> Option<usize> {
        match pinned {
            Some(own) => self.free[own % self.free.len()].then_some(own % self.free.len()),
            None => self.free.iter().position(|free| *free),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guests_go_in_their_order_and_who_waits_for_its_own_processor_lets_others_go_before() {
        let mut turns = Turns::new(2);
        [7, 8, 9].iter().for_each(|guest| turns.queue_up(*guest));
        let pinned = |guest| [None, Some(0), None][guest - 7];
        let mut place = 0;
        assert_eq!(turns.next(&mut place, pinned), Some((7, 0)));
        turns.take(0);
        assert_eq!(turns.next(&mut place, pinned), Some((9, 1)));
        turns.take(1);
        assert_eq!(turns.next(&mut 0, pinned), None);
        turns.give_back(0);
        assert_eq!(turns.next(&mut 0, pinned), Some((8, 0)));
    }
}
