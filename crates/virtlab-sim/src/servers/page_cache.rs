//! What a guest's kernel holds of buffered writes before it takes them to the disk, as Linux does for one file.
//!
//! ```text
//! a write       is done once its pages are held; a page of which it fills a part is read first, if it is not held yet
//! for age       all that is held and not on the disk yet goes there 30 s after the first of it came
//! for amount    it goes there as soon as more than a tenth of the guest's memory is held (the background threshold)
//! room          a write waits while as much is held as lies between that and a fifth (the limit), or is on its way to the disk
//! the end       when the last server that writes there ends, which waits for it, all goes to the disk, and nothing is held
//! ```
//! Pages that are written several times go to the disk once. Neighbours go together, in requests of at most 1280 KiB.
//!
//! Sources: Linux, `Documentation/admin-guide/sysctl/vm.rst` (`dirty_*`), `mm/page-writeback.c` and
//! `fs/fs-writeback.c`. Deviations: Linux looks at ages every 5 s; it stops below the threshold, where this writes all;
//! and it has writers sleep a little each, where this has them wait for a request that is done. A page that is being
//! read counts as held.

use crate::input::Thresholds;
use std::collections::{BTreeMap, VecDeque};
use virtlab_disk::{Kind, Request};

const PAGE_BYTES: u64 = 4096;
const PIECE_BYTES: u64 = 1280 << 10;
const AGE_NS: u64 = 30_000_000_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Page {
    Absent,
    Held,
    /// Held, and not on the disk yet.
    Dirty,
}

/// A write that waits for pages to be read.
#[derive(Debug)]
struct Reading<T> {
    whose: T,
    offset: u64,
    bytes: u64,
    reads: usize,
}

/// Why something was requested of the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// For a write that fills a part of a page.
    Read(u64),
    /// So many pages go to the disk.
    Written(u64),
}

/// The pages of one disk; `T` is who writes.
#[derive(Debug)]
pub struct PageCache<T> {
    thresholds: Thresholds,
    size_bytes: u64,
    pages: Vec<Page>,
    /// How many are dirty, and how many are on their way.
    dirty: u64,
    writing: u64,
    /// When the first of those that are dirty became so.
    since_ns: Option<u64>,
    reading: BTreeMap<u64, Reading<T>>,
    writes: u64,
    /// Writes for which there is no room yet.
    held_up: VecDeque<T>,
    done: VecDeque<T>,
    requests: Vec<(Purpose, Request)>,
}

impl<T> PageCache<T> {
    /// Of a disk of that size, of which nothing is held.
    pub fn new(thresholds: Thresholds, size_bytes: u64) -> Self {
        let count = usize::try_from(size_bytes.div_ceil(PAGE_BYTES)).unwrap_or(usize::MAX);
        Self {
            thresholds,
            size_bytes,
            pages: vec![Page::Absent; count],
            dirty: 0,
            writing: 0,
            since_ns: None,
            reading: BTreeMap::new(),
            writes: 0,
            held_up: VecDeque::new(),
            done: VecDeque::new(),
            requests: Vec::new(),
        }
    }

    /// Somebody writes.
    pub fn write(&mut self, now_ns: u64, whose: T, offset: u64, bytes: u64) {
        let (first, last) = (offset / PAGE_BYTES, (offset + bytes - 1) / PAGE_BYTES);
        self.writes += 1;
        let mut reads = 0;
        let whole = |page: u64| {
            let end = ((page + 1) * PAGE_BYTES).min(self.size_bytes);
            offset <= page * PAGE_BYTES && offset + bytes >= end
        };
        let parts =
            [Some(first), (last > first).then_some(last)].map(|page| page.filter(|page| !whole(*page)));
        for page in parts.into_iter().flatten() {
            let own = &mut self.pages[page as usize];
            if *own == Page::Absent {
                *own = Page::Held;
                reads += 1;
                let read = Request { kind: Kind::Read, ..self.run(page, 1) };
                self.requests.push((Purpose::Read(self.writes), read));
            }
        }
        if reads > 0 {
            self.reading.insert(self.writes, Reading { whose, offset, bytes, reads });
        } else {
            self.fill(now_ns, whose, offset, bytes);
        }
    }

    /// The disk has done what was requested for that.
    pub fn completed(&mut self, now_ns: u64, purpose: Purpose) {
        match purpose {
            Purpose::Read(number) => {
                let Some(waits) = self.reading.get_mut(&number) else { return };
                waits.reads -= 1;
                if waits.reads == 0
                    && let Some(Reading { whose, offset, bytes, .. }) = self.reading.remove(&number)
                {
                    self.fill(now_ns, whose, offset, bytes);
                }
            }
            Purpose::Written(pages) => {
                self.writing -= pages;
                while self.has_room()
                    && let Some(whose) = self.held_up.pop_front()
                {
                    self.done.push_back(whose);
                }
                self.write_back_much();
            }
        }
    }

    /// Whose write is done; to be asked until there is no other.
    pub fn take_done(&mut self) -> Option<T> {
        self.done.pop_front()
    }

    /// Whether somebody is to be told now.
    pub fn tells(&self) -> bool {
        !self.done.is_empty()
    }

    /// When the oldest has to go to the disk.
    pub fn next_ns(&self) -> Option<u64> {
        self.since_ns.map(|since_ns| since_ns.saturating_add(AGE_NS))
    }

    /// What the disk has to do by now.
    pub fn requests(&mut self, now_ns: u64) -> Vec<(Purpose, Request)> {
        if self.next_ns().is_some_and(|due_ns| due_ns <= now_ns) {
            self.write_back();
        }
        std::mem::take(&mut self.requests)
    }

    /// The last server that wrote has ended: everything goes to the disk.
    pub fn close(&mut self) {
        self.write_back();
        self.pages.fill(Page::Absent);
        self.reading.clear();
        self.held_up.clear();
    }

    /// These writes are of no writer any more.
    pub fn forget(&mut self, of: impl Fn(&T) -> bool) {
        self.reading.retain(|_, waits| !of(&waits.whose));
        self.held_up.retain(|whose| !of(whose));
        self.done.retain(|whose| !of(whose));
    }

    fn fill(&mut self, now_ns: u64, whose: T, offset: u64, bytes: u64) {
        for page in offset / PAGE_BYTES..=(offset + bytes - 1) / PAGE_BYTES {
            let own = &mut self.pages[page as usize];
            self.dirty += u64::from(*own != Page::Dirty);
            *own = Page::Dirty;
        }
        self.since_ns.get_or_insert(now_ns);
        if self.has_room() {
            self.done.push_back(whose);
        } else {
            self.held_up.push_back(whose);
        }
        self.write_back_much();
    }

    fn has_room(&self) -> bool {
        let Thresholds { background_bytes, limit_bytes } = self.thresholds;
        (self.dirty + self.writing) * PAGE_BYTES <= u64::midpoint(background_bytes, limit_bytes)
    }

    fn write_back_much(&mut self) {
        if self.writing == 0 && self.dirty * PAGE_BYTES > self.thresholds.background_bytes {
            self.write_back();
        }
    }

    /// All that is dirty goes to the disk.
    fn write_back(&mut self) {
        self.since_ns = None;
        let mut page = 0;
        while page < self.pages.len() && self.dirty > 0 {
            let length = self.pages[page..]
                .iter()
                .take((PIECE_BYTES / PAGE_BYTES) as usize)
                .take_while(|own| **own == Page::Dirty)
                .count();
            if length > 0 {
                self.pages[page..page + length].fill(Page::Held);
                self.dirty -= length as u64;
                self.writing += length as u64;
                let run = self.run(page as u64, length as u64);
                self.requests.push((Purpose::Written(length as u64), run));
            }
            page += length.max(1);
        }
    }

    /// Pages as a write to the disk, whose last may end within one.
    fn run(&self, page: u64, length: u64) -> Request {
        let offset = page * PAGE_BYTES;
        let end = ((page + length) * PAGE_BYTES).min(self.size_bytes);
        Request { kind: Kind::Write, offset, bytes: end - offset }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: u64 = PAGE_BYTES;
    const S: u64 = 1_000_000_000;

    /// Writing begins in the background beyond 8 pages, and writers wait beyond 12.
    fn cache() -> PageCache<char> {
        PageCache::new(Thresholds { background_bytes: 8 * PAGE, limit_bytes: 16 * PAGE }, 100 * PAGE + 512)
    }

    fn done(cache: &mut PageCache<char>) -> String {
        std::iter::from_fn(|| cache.take_done()).collect()
    }

    fn run(page: u64, length: u64) -> (Purpose, Request) {
        let (offset, bytes) = (page * PAGE, length * PAGE);
        (Purpose::Written(length), Request { kind: Kind::Write, offset, bytes })
    }

    #[test]
    fn a_write_is_done_at_once_and_goes_to_the_disk_30_s_after_the_first() {
        let mut cache = cache();
        cache.write(0, 'a', 0, 2 * PAGE);
        cache.write(7 * S, 'b', 2 * PAGE, PAGE);
        assert_eq!(done(&mut cache), "ab");
        assert_eq!((cache.requests(29 * S), cache.next_ns()), (vec![], Some(30 * S)));
        assert_eq!(
            (cache.requests(30 * S), cache.next_ns()),
            (vec![run(0, 3)], None),
            "neighbours go together"
        );
        cache.write(31 * S, 'c', 0, PAGE);
        assert_eq!(cache.next_ns(), Some(61 * S));
    }

    #[test]
    fn what_is_written_over_and_over_goes_to_the_disk_once() {
        let mut cache = cache();
        for number in 0..1000 {
            cache.write(number, 'a', (number % 4) * PAGE, PAGE);
        }
        assert_eq!((done(&mut cache).len(), cache.requests(40 * S)), (1000, vec![run(0, 4)]));
    }

    #[test]
    fn a_part_of_a_page_is_read_first_and_once() {
        let mut cache = cache();
        cache.write(0, 'a', 512, 512);
        let read = Request { kind: Kind::Read, offset: 0, bytes: PAGE };
        assert_eq!((done(&mut cache), cache.requests(0)), (String::new(), vec![(Purpose::Read(1), read)]));
        cache.completed(5, Purpose::Read(1));
        cache.write(6, 'b', 1024, 512);
        assert_eq!((done(&mut cache), cache.requests(6)), ("ab".to_owned(), vec![]));
        // A write over the ends of two pages reads both; the disk's last page is short, and whole by its 512 B.
        cache.write(7, 'c', PAGE + 512, PAGE);
        assert_eq!(cache.requests(7).len(), 2);
        cache.write(8, 'd', 100 * PAGE, 512);
        assert_eq!((done(&mut cache), cache.requests(8)), ("d".to_owned(), vec![]));
    }

    #[test]
    fn much_goes_to_the_disk_at_once_and_writers_wait_for_room() {
        let mut cache = cache();
        cache.write(0, 'a', 0, 8 * PAGE);
        assert_eq!(cache.requests(0), []);
        cache.write(1, 'b', 10 * PAGE, PAGE);
        assert_eq!(cache.requests(1), [run(0, 8), run(10, 1)], "more than the background threshold");
        cache.write(2, 'c', 20 * PAGE, 3 * PAGE);
        cache.write(3, 'd', 30 * PAGE, PAGE);
        assert_eq!((done(&mut cache), cache.requests(3)), ("abc".to_owned(), vec![]), "12 pages, then 13");
        cache.completed(4, Purpose::Written(8));
        assert_eq!(done(&mut cache), "d");
    }

    #[test]
    fn at_the_end_all_of_it_goes_and_is_read_again_by_who_comes_then() {
        let mut cache = cache();
        cache.write(0, 'a', 0, PAGE);
        cache.close();
        assert_eq!(cache.requests(1), [run(0, 1)]);
        cache.completed(2, Purpose::Written(1));
        cache.write(3, 'b', 0, 512);
        assert_eq!(cache.requests(3).len(), 1);
    }
}
