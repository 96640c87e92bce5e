//! What a server writes to the disk of its guest, in virtual time: its requests to the disk, and when they are due.
//!
//! It writes as the testbed's server does: at places one after another, from the disk's beginning again at its end or
//! after 64 MiB; in whole sectors, a long write in pieces, each behind the one before; then a flush, if the disk has a
//! cache. Throttled, one write at a time has the turn, and begins as long after the one before as that took.

use std::collections::{BTreeMap, VecDeque};
use virtlab_disk::{Kind, Model, Request};
use virtlab_load::parameters::request_response::{RequestResponse as Parameters, WriteMode};
use virtlab_load::writes::{Places, pieces};

/// For whom something is written; `None`: without a request, where nothing was written for a while.
type Whose<T> = Option<T>;

/// A write under way.
#[derive(Debug)]
struct Write<T> {
    whose: Whose<T>,
    begun_ns: u64,
    /// Still to be requested.
    pieces: VecDeque<Request>,
}

/// What was written.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts {
    writes: u64,
    idle_writes: u64,
    bytes: u64,
    time_ns: u64,
    throttled_ns: u64,
}

/// When writes begin and end.
#[derive(Debug)]
struct Pace {
    /// Of the last write: when it began, ended, and how long it took.
    begun_ns: u64,
    ended_ns: u64,
    took_ns: u64,
    /// Throttled: since when a write has the turn and waits to begin, and whether one has it and has begun.
    turn_ns: Option<u64>,
    writes: bool,
    /// Whether something is written without a request.
    idles: bool,
}

/// The writes of a server.
#[derive(Debug)]
pub struct Writing<T> {
    bytes: u64,
    mode: WriteMode,
    /// 0: it does not.
    idle_ns: u64,
    places: Places,
    /// What each write ends with.
    last: Option<Request>,
    pace: Pace,
    waiting: VecDeque<Whose<T>>,
    under_way: BTreeMap<u64, Write<T>>,
    tickets: u64,
    /// For the disk, each with its ticket.
    requests: Vec<(u64, Request)>,
    done: VecDeque<T>,
    pub counts: Counts,
}

impl<T> Writing<T> {
    /// Of a server that begins now, on such a disk; `None` if it writes nothing.
    pub fn new(own: &Parameters, disk: &Model, now_ns: u64) -> Option<Self> {
        (own.write_bytes > 0).then(|| Self {
            bytes: own.write_bytes,
            mode: own.write_mode,
            idle_ns: own.idle_write_ns,
            places: Places::on_disk(disk.size_bytes),
            last: (disk.write_cache_bytes > 0 && own.write_mode != WriteMode::Buffered).then(Request::flush),
            pace: Pace {
                begun_ns: now_ns,
                ended_ns: 0,
                took_ns: 0,
                turn_ns: None,
                writes: false,
                idles: false,
            },
            waiting: VecDeque::new(),
            under_way: BTreeMap::new(),
            tickets: 0,
            requests: Vec::new(),
            done: VecDeque::new(),
            counts: Counts::default(),
        })
    }

    /// A request's write is due.
    pub fn want(&mut self, owner: T, now_ns: u64) {
        self.wait_for_turn(Some(owner), now_ns);
    }

    /// Whose write is done; to be asked until there is no other.
    pub fn take_done(&mut self) -> Option<T> {
        self.done.pop_front()
    }

    /// Nothing is written without a request any more.
    pub fn cease(&mut self) {
        self.idle_ns = 0;
    }

    /// Begins what is due by now; what the disk has to do then.
    pub fn go_on(&mut self, now_ns: u64) -> Vec<(u64, Request)> {
        if self.idle_due_ns().is_some_and(|due_ns| due_ns <= now_ns) {
            self.pace.idles = true;
            self.wait_for_turn(None, now_ns);
        }
        self.begin(now_ns);
        std::mem::take(&mut self.requests)
    }

    /// When something is due next.
    pub fn next_ns(&self) -> Option<u64> {
        let turn = self.pace.turn_ns.map(|_| self.may_begin_ns());
        [self.idle_due_ns(), turn].into_iter().flatten().min()
    }

    /// The disk has done what has that ticket.
    pub fn completed(&mut self, ticket: u64, now_ns: u64) {
        let Some(write) = self.under_way.get_mut(&ticket) else { return };
        if let Some(piece) = write.pieces.pop_front() {
            self.requests.push((ticket, piece));
            return;
        }
        let Some(Write { whose, begun_ns, .. }) = self.under_way.remove(&ticket) else { return };
        let took_ns = now_ns - begun_ns;
        (self.pace.ended_ns, self.pace.took_ns, self.pace.writes) = (now_ns, took_ns, false);
        self.counts.writes += 1;
        self.counts.bytes += self.bytes;
        self.counts.time_ns += took_ns;
        match whose {
            Some(owner) => self.done.push_back(owner),
            None => {
                self.counts.idle_writes += 1;
                self.pace.idles = false;
            }
        }
        self.call(now_ns);
    }

    fn wait_for_turn(&mut self, whose: Whose<T>, now_ns: u64) {
        self.waiting.push_back(whose);
        self.call(now_ns);
        self.begin(now_ns);
    }

    /// Of throttled writes the one that has waited longest has the turn, if that is free.
    fn call(&mut self, now_ns: u64) {
        if self.mode == WriteMode::Throttled
            && !self.pace.writes
            && self.pace.turn_ns.is_none()
            && !self.waiting.is_empty()
        {
            self.pace.turn_ns = Some(now_ns);
        }
    }

    fn may_begin_ns(&self) -> u64 {
        self.pace.ended_ns.saturating_add(self.pace.took_ns)
    }

    fn begin(&mut self, now_ns: u64) {
        if self.mode == WriteMode::Throttled {
            if self.may_begin_ns() <= now_ns
                && let Some(since_ns) = self.pace.turn_ns.take()
            {
                self.counts.throttled_ns += now_ns - since_ns;
                self.pace.writes = true;
                self.begin_first(now_ns);
            }
            return;
        }
        while !self.waiting.is_empty() {
            self.begin_first(now_ns);
        }
    }

    fn begin_first(&mut self, now_ns: u64) {
        let Some(whose) = self.waiting.pop_front() else { return };
        let offset = self.places.next(self.bytes);
        let mut asked: VecDeque<Request> = pieces(offset, self.bytes)
            .map(|(offset, bytes)| Request { kind: Kind::Write, offset, bytes })
            .collect();
        asked.extend(self.last);
        self.tickets += 1;
        self.requests.extend(asked.pop_front().map(|first| (self.tickets, first)));
        self.pace.begun_ns = now_ns;
        self.under_way.insert(self.tickets, Write { whose, begun_ns: now_ns, pieces: asked });
    }

    fn idle_due_ns(&self) -> Option<u64> {
        (self.idle_ns > 0 && !self.pace.idles).then(|| self.pace.begun_ns.saturating_add(self.idle_ns))
    }
}

impl Counts {
    /// Under their names.
    pub fn counters(&self) -> [(&'static str, u64); 5] {
        [
            ("writes", self.writes),
            ("idle_writes", self.idle_writes),
            ("written_bytes", self.bytes),
            ("write_ns", self.time_ns),
            ("throttled_ns", self.throttled_ns),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn writing(text: &str) -> Writing<char> {
        let own = virtlab_load::parameters::read(&serde_json::from_str(text).unwrap()).unwrap();
        let model =
            Model { size_bytes: 1 << 20, rate_byte_per_s: None, latency_ns: 0, write_cache_bytes: 512 };
        Writing::new(&own, &model, 0).unwrap()
    }

    /// The disk takes `took_ns` for each request.
    fn play(writing: &mut Writing<char>, mut now_ns: u64, took_ns: u64) -> (u64, Vec<Request>) {
        let mut asked = Vec::new();
        let mut open = writing.go_on(now_ns);
        while let Some((ticket, request)) = open.pop() {
            asked.push(request);
            now_ns += took_ns;
            writing.completed(ticket, now_ns);
            open.extend(writing.go_on(now_ns));
        }
        (now_ns, asked)
    }

    #[test]
    fn a_write_is_of_whole_sectors_in_pieces_and_a_flush() {
        let mut writing = writing(r#"{"write_bytes": 300000, "write_mode": "fsync"}"#);
        writing.want('a', 0);
        let (now_ns, asked) = play(&mut writing, 0, MS);
        let piece = |offset, bytes| Request { kind: Kind::Write, offset, bytes };
        assert_eq!(asked, [piece(0, 262_144), piece(262_144, 37_888), Request::flush()]);
        assert_eq!((writing.take_done(), writing.take_done()), (Some('a'), None));
        assert_eq!(
            writing.counts.counters()[..4].iter().map(|(_, value)| *value).collect::<Vec<_>>(),
            [1, 0, 300_000, now_ns]
        );
    }

    #[test]
    fn throttled_writes_take_turns_and_rest_as_long_as_each_took() {
        let mut writing = writing(r#"{"write_bytes": 4096, "write_mode": "throttled"}"#);
        writing.want('a', 0);
        writing.want('b', 0);
        let (ended_ns, asked) = play(&mut writing, 0, MS);
        assert_eq!((ended_ns, asked.len(), writing.take_done()), (2 * MS, 2, Some('a')));
        assert_eq!(writing.next_ns(), Some(4 * MS));
        assert_eq!(play(&mut writing, 4 * MS, MS).0, 6 * MS);
        assert_eq!(writing.take_done(), Some('b'));
        assert_eq!(writing.counts.throttled_ns, 2 * MS);
    }

    #[test]
    fn without_a_request_it_writes_when_nothing_began_for_the_given_time() {
        let mut writing = writing(r#"{"write_bytes": 512, "write_mode": "fsync", "idle_write_ns": 5000000}"#);
        assert_eq!(writing.next_ns(), Some(5 * MS));
        assert!(writing.go_on(5 * MS - 1).is_empty());
        play(&mut writing, 5 * MS, MS);
        assert_eq!((writing.counts.idle_writes, writing.next_ns()), (1, Some(10 * MS)));
        writing.want('a', 6 * MS + MS);
        play(&mut writing, 7 * MS, MS);
        assert_eq!(writing.next_ns(), Some(12 * MS), "counted from the last write");
        writing.cease();
        assert_eq!(writing.next_ns(), None);
    }
}
