//! In which order the threads of a role take objects.

/// The choice of a role, and how far its threads are. Unless it is random, it is that of creation, and each thread
/// begins with a share of its own of what is there when the first one begins, as where each has files of its own: so
/// two of them seldom want neighbours at once.
#[derive(Debug)]
pub struct Order {
    choice: Choice,
    threads: u32,
    /// By thread, once one has begun: where it continues, and where its share ends.
    shares: Vec<(u32, u32)>,
    /// Objects that were taken, and not used.
    released: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choice {
    Random,
    /// A thread takes the next one, and after the last the first.
    Sequential,
    /// A thread takes each of its share, and then nothing more.
    Once,
}

impl Order {
    /// Any object, with equal chance.
    #[must_use]
    pub const fn random() -> Self {
        Self::new(Choice::Random, 1)
    }

    /// The next object for each of so many threads, at least one.
    #[must_use]
    pub const fn sequential(threads: u32) -> Self {
        Self::new(Choice::Sequential, threads)
    }

    /// Each object once, by so many threads, at least one.
    #[must_use]
    pub const fn once(threads: u32) -> Self {
        Self::new(Choice::Once, threads)
    }

    const fn new(choice: Choice, threads: u32) -> Self {
        let threads = if threads == 0 { 1 } else { threads };
        Self { choice, threads, shares: Vec::new(), released: 0 }
    }

    /// Whether a number chooses the object.
    #[must_use]
    pub fn is_random(&self) -> bool {
        self.choice == Choice::Random
    }

    /// Whether a thread has taken each object that it was to take.
    #[must_use]
    pub fn is_done(&self, thread: u32) -> bool {
        let share = self.shares.get(thread as usize);
        self.choice == Choice::Once && share.is_some_and(|(next, end)| next >= end)
    }

    /// How many of the places where objects were at the start no thread has come to, if each is to be taken once.
    #[must_use]
    pub fn left(&self) -> u64 {
        let shares = self.shares.iter().filter(|_| self.choice == Choice::Once);
        shares.map(|(next, end)| u64::from(end.saturating_sub(*next))).sum::<u64>() + self.released
    }

    /// An object that was taken is not used.
    pub fn release(&mut self) {
        self.released += u64::from(self.choice == Choice::Once);
    }

    /// Where a thread looks for its next object, in this order, among those from a first one to an end.
    pub(super) fn places(&mut self, thread: u32, first: u32, end: u32) -> impl Iterator<Item = u32> + use<> {
        if self.shares.is_empty() {
            let (all, threads) = (u64::from(end - first), u64::from(self.threads));
            let place = |before: u64| first + (all * before / threads) as u32;
            self.shares = (0..threads).map(|thread| (place(thread), place(thread + 1))).collect();
        }
        let (next, own_end) = self.shares[thread as usize];
        let start = next.clamp(first, end);
        let (until, again) = match self.choice {
            Choice::Once => (own_end.clamp(start, end), first..first),
            Choice::Random | Choice::Sequential => (end, first..start),
        };
        (start..until).chain(again)
    }

    /// A thread has taken an object; `None`: it found none.
    pub(super) fn took(&mut self, thread: u32, object: Option<u32>) {
        let (next, end) = &mut self.shares[thread as usize];
        match object {
            Some(object) => *next = object + 1,
            None if self.choice == Choice::Once => *next = *end,
            None => {}
        }
    }
}
