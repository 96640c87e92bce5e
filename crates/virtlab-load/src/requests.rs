//! What a client of requests keeps of them, on sockets as in virtual time: how many ended how, and to which request an
//! answer belongs that comes in a datagram.

use crate::parameters::request_response::{ENDINGS, Ending};

/// What a client counts beside its rows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counted {
    /// Requests by how they ended.
    ended: [u64; ENDINGS],
    /// Tries beyond the first of each request.
    pub retries: u64,
    /// Of requests.
    pub sent_bytes: u64,
    /// Of answers.
    pub received_bytes: u64,
    /// Calls that could not send, for another reason than a full buffer.
    pub send_errors: u64,
    /// Of answers in datagrams, those that no request waited for any more.
    pub stray: Option<Stray>,
}

/// Answers in datagrams that no request waited for any more.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stray {
    /// To requests that had been given up.
    pub late: u64,
    /// To requests that had an answer.
    pub duplicate: u64,
}

impl Counted {
    /// A request has ended.
    pub const fn end(&mut self, ending: Ending) {
        self.ended[ending as usize] += 1;
    }

    /// Requests that ended so.
    #[must_use]
    pub const fn of(&self, ending: Ending) -> u64 {
        self.ended[ending as usize]
    }

    /// Of a workload whose successful requests are transactions, by their names in a dataset.
    #[must_use]
    pub fn counters_of_transactions(&self) -> Vec<(&'static str, u64)> {
        let named = [
            ("transactions", Ending::Answered),
            ("status_errors", Ending::Failed),
            ("timeouts", Ending::Lost),
            ("broken_connections", Ending::Broken),
            ("open", Ending::Open),
        ];
        let mut found: Vec<_> = named.map(|(name, ending)| (name, self.of(ending))).into();
        found.extend([
            ("requests", self.ended.iter().sum()),
            ("received_bytes", self.received_bytes),
            ("send_errors", self.send_errors),
        ]);
        found
    }

    /// By their names in a dataset.
    #[must_use]
    pub fn counters(&self) -> Vec<(&'static str, u64)> {
        let [answered, refused, lost, broken, open, failed, bad_gateway] = self.ended;
        let mut found = vec![
            ("requests", self.ended.iter().sum()),
            ("answered_requests", answered),
            ("refused_requests", refused),
            ("lost_requests", lost),
            ("broken_requests", broken),
            ("open_requests", open),
            ("failed_requests", failed),
            ("bad_gateway_requests", bad_gateway),
            ("retries", self.retries),
            ("sent_bytes", self.sent_bytes),
            ("received_bytes", self.received_bytes),
            ("send_errors", self.send_errors),
        ];
        if let Some(Stray { late, duplicate }) = self.stray {
            found.extend([("late_answers", late), ("duplicate_answers", duplicate)]);
        }
        found
    }
}

/// Tries in datagrams, by numbers that tell on which place each was sent, and those that were given up.
///
/// A request's tries have numbers that rise, and an answer to any of them answers it. What comes later is
/// distinguished: an answer to a request that was given up is late, and a second one to a request is a duplicate.
#[derive(Clone, Debug)]
pub struct Tries {
    places: u64,
    count: u64,
    /// First and last try of requests that were given up, by their place.
    lost: Vec<Vec<(u64, u64)>>,
    /// Answers to requests that had ended.
    pub stray: Stray,
}

impl Tries {
    /// None yet, on so many places.
    #[must_use]
    pub fn new(places: u16) -> Self {
        let lost = vec![Vec::new(); usize::from(places)];
        Self { places: u64::from(places), count: 0, lost, stray: Stray::default() }
    }

    /// Of a try that begins on a place.
    pub fn next(&mut self, place: usize) -> u64 {
        self.count += 1;
        self.count * self.places + place as u64
    }

    /// The place of a try; `None` where there was no such try.
    #[must_use]
    pub fn place(&self, number: u64) -> Option<usize> {
        let count = number / self.places;
        (count >= 1 && count <= self.count).then_some((number % self.places) as usize)
    }

    /// A request was given up, whose tries were these.
    pub fn lost(&mut self, place: usize, first: u64, last: u64) {
        self.lost[place].push((first, last));
    }

    /// An answer came for which no request waits.
    pub fn astray(&mut self, place: usize, number: u64) {
        let lost = &self.lost[place];
        let after = lost.partition_point(|(first, _)| *first <= number);
        let given_up = after > 0 && number <= lost[after - 1].1;
        if given_up {
            self.stray.late += 1;
        } else {
            self.stray.duplicate += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_that_nobody_waits_for_are_late_or_duplicates() {
        let mut tries = Tries::new(3);
        let numbers: Vec<u64> = [1, 2, 1, 1].map(|place| tries.next(place)).into();
        assert_eq!(tries.place(numbers[1]), Some(2));
        assert_eq!((tries.place(1), tries.place(numbers[3] + 3)), (None, None), "never sent");
        tries.lost(1, numbers[0], numbers[2]);
        for number in [numbers[0], numbers[2], numbers[3]] {
            tries.astray(1, number);
        }
        tries.astray(2, numbers[1]);
        assert_eq!((tries.stray.late, tries.stray.duplicate), (2, 2));
    }

    #[test]
    fn requests_are_all_that_ended() {
        let mut counted = Counted::default();
        for ending in [Ending::Answered, Ending::Answered, Ending::Open] {
            counted.end(ending);
        }
        let counters = counted.counters();
        assert_eq!(
            (counters[0], counters[1], counters[5]),
            (("requests", 3), ("answered_requests", 2), ("open_requests", 1))
        );
        assert!(counters.iter().all(|(name, _)| *name != "late_answers"), "connections have none");
    }
}
