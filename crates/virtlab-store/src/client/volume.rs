//! A disk whose blocks are objects of a store.
//!
//! The disk is cut into blocks of one size; each is an object, whole. A disk is empty when it begins and has one
//! client, so this knows which blocks there are:
//!
//! - A block that was never written holds zeros, and no operation is needed to know that.
//! - A read of a block reads its object, whatever part of it is wanted.
//! - A write of a whole block, or of one that was never written, writes its object. Any other write reads the object
//!   first, and writes it with the part that is new.
//! - Requests for one block wait for each other, in the order in which they came; those for different blocks do not.
//! - A request is complete when all of its blocks are: a write once the store has answered, which is after
//!   `write_quorum` copies. A flush has therefore nothing to wait for.
//!
//! An operation that the store has given up is begun again, as often as it takes: the disk's request waits. A block
//! that the store has no more, or only as it was before, is counted as lost.

use crate::message::nouns::Key;
use crate::message::{Outcome, Task};
use std::collections::{BTreeMap, VecDeque};
use virtlab_disk::{Kind, Request};

/// Disks have the last names of all, and folders the first.
const LAST: u64 = 0xffff;
const BLOCKS_BITS: u32 = 48;

/// An operation that the store has to do: its number, which no other has, and what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// By which it is answered.
    pub number: u64,
    /// Of the block.
    pub key: Key,
    /// What is done with its object.
    pub task: Task,
    /// Which block of the disk.
    pub block: u64,
    /// The request of the disk for which it is done.
    pub request: u64,
}

/// What is done with a block for a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Its object is read, and then that is all.
    Read,
    /// Its object is read, to be written with something new.
    Change,
    /// Its object is written.
    Write,
}

#[derive(Clone, Copy, Debug)]
struct Part {
    request: u64,
    kind: Kind,
    /// Whether all of the block is wanted.
    whole: bool,
}

/// A block.
#[derive(Debug, Default)]
struct Block {
    /// What stands for the content that the store answered for last; absent: it was never written.
    content: Option<u64>,
    /// Requests for it, the first of which is under way.
    parts: VecDeque<Part>,
}

/// Such a disk.
#[derive(Debug)]
pub struct Volume {
    number: u64,
    size_bytes: u64,
    block_bytes: u64,
    blocks: BTreeMap<u64, Block>,
    /// By request: blocks that it still waits for.
    open: BTreeMap<u64, u64>,
    /// By operation: its block, what it is for, and what it writes.
    running: BTreeMap<u64, (u64, Step, u64)>,
    operations: u64,
    contents: u64,
    outputs: VecDeque<Operation>,
    done: VecDeque<u64>,
    /// Operations that were begun again.
    pub retries: u64,
    /// Reads of blocks that the store had lost.
    pub lost: u64,
}

impl Volume {
    /// An empty one, of a number that no other disk on its store has.
    #[must_use]
    pub fn new(number: u64, size_bytes: u64, block_bytes: u64) -> Self {
        Self {
            number,
            size_bytes,
            block_bytes: block_bytes.max(1),
            blocks: BTreeMap::new(),
            open: BTreeMap::new(),
            running: BTreeMap::new(),
            operations: 0,
            contents: 0,
            outputs: VecDeque::new(),
            done: VecDeque::new(),
            retries: 0,
            lost: 0,
        }
    }

    /// A request of sectors of the disk, by a number that no other under way has.
    pub fn submit(&mut self, id: u64, request: Request) {
        if request.kind == Kind::Flush || request.bytes == 0 {
            self.done.push_back(id);
            return;
        }
        let end = request.offset + request.bytes;
        let (first, last) = (request.offset / self.block_bytes, (end - 1) / self.block_bytes);
        self.open.insert(id, last - first + 1);
        for number in first..=last {
            let begin = number * self.block_bytes;
            let whole = request.offset <= begin && begin + self.bytes_of(number) <= end;
            let parts = &mut self.blocks.entry(number).or_default().parts;
            parts.push_back(Part { request: id, kind: request.kind, whole });
            if parts.len() == 1 {
                self.begin(number);
            }
        }
    }

    /// Length of a block: the last one may be shorter than the others.
    #[must_use]
    pub fn bytes_of(&self, block: u64) -> u64 {
        self.block_bytes.min(self.size_bytes.saturating_sub(block * self.block_bytes))
    }

    /// Begins what is first for a block, until something has to be waited for.
    fn begin(&mut self, number: u64) {
        while let Some((part, content)) =
            self.blocks.get(&number).and_then(|block| Some((*block.parts.front()?, block.content)))
        {
            match (part.kind, content) {
                (Kind::Read, None) => self.end_part(number),
                (Kind::Read, Some(_)) => return self.ask(number, Step::Read),
                (_, Some(_)) if !part.whole => return self.ask(number, Step::Change),
                _ => return self.ask(number, Step::Write),
            }
        }
    }

    fn ask(&mut self, block: u64, step: Step) {
        let content = if step == Step::Write {
            self.contents += 1;
            (self.number << BLOCKS_BITS) + self.contents
        } else {
            0
        };
        self.go(block, step, content);
    }

    fn go(&mut self, block: u64, step: Step, content: u64) {
        self.operations += 1;
        self.running.insert(self.operations, (block, step, content));
        let task = match step {
            Step::Read | Step::Change => Task::Read,
            Step::Write => Task::Write { bytes: self.bytes_of(block), content },
        };
        let first = self.blocks.get(&block).and_then(|block| block.parts.front());
        self.outputs.push_back(Operation {
            number: self.operations,
            key: self.key(block),
            task,
            block,
            request: first.map_or(0, |part| part.request),
        });
    }

    fn key(&self, block: u64) -> Key {
        Key(((LAST - self.number) << BLOCKS_BITS) + block)
    }

    /// The first request for a block has it.
    fn end_part(&mut self, block: u64) {
        let part = self.blocks.get_mut(&block).and_then(|block| block.parts.pop_front());
        let Some(Part { request, .. }) = part else { return };
        if let Some(left) = self.open.get_mut(&request) {
            *left -= 1;
            if *left == 0 {
                self.open.remove(&request);
                self.done.push_back(request);
            }
        }
    }

    /// The store has ended an operation; the request whose block was lost, if one was.
    pub fn answered(&mut self, operation: u64, outcome: Outcome) -> Option<u64> {
        let (number, step, written) = self.running.remove(&operation)?;
        if matches!(outcome, Outcome::Failed(_) | Outcome::Superseded(_)) {
            self.retries += 1;
            self.go(number, step, written);
            return None;
        }
        let block = self.blocks.get_mut(&number)?;
        let mut lost = None;
        if step == Step::Write {
            block.content = Some(written);
        } else if !matches!(outcome, Outcome::Done { content, .. } if Some(content) == block.content) {
            self.lost += 1;
            lost = block.parts.front().map(|part| part.request);
        }
        if step == Step::Change {
            self.ask(number, Step::Write);
        } else {
            self.end_part(number);
            self.begin(number);
        }
        lost
    }

    /// What the store has to do next.
    pub fn operation(&mut self) -> Option<Operation> {
        self.outputs.pop_front()
    }

    /// A request that is complete; to be asked until there is no other.
    pub fn take_done(&mut self) -> Option<u64> {
        self.done.pop_front()
    }

    /// Whether there is an operation to begin, or a request to tell of.
    #[must_use]
    pub fn tells(&self) -> bool {
        !self.outputs.is_empty() || !self.done.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Failure;
    use crate::message::nouns::Version;

    const BLOCK: u64 = 65_536;

    fn volume() -> Volume {
        Volume::new(0, 4 * BLOCK + 512, BLOCK)
    }

    fn of(kind: Kind, offset: u64, bytes: u64) -> Request {
        Request { kind, offset, bytes }
    }

    fn done(content: u64) -> Outcome {
        Outcome::Done { version: Version::default(), bytes: BLOCK, content }
    }

    /// A store that answers at once; what it was asked.
    fn play(volume: &mut Volume, held: &mut BTreeMap<Key, u64>) -> Vec<Task> {
        let mut asked = Vec::new();
        while let Some(Operation { number, key, task, .. }) = volume.operation() {
            asked.push(task);
            let outcome = match task {
                Task::Write { content, .. } => {
                    held.insert(key, content);
                    done(content)
                }
                _ => held.get(&key).map_or(Outcome::Missing, |content| done(*content)),
            };
            volume.answered(number, outcome);
        }
        asked
    }

    #[test]
    fn the_store_is_not_asked_for_a_block_that_was_never_written() {
        let mut volume = volume();
        volume.submit(7, of(Kind::Read, 0, 3 * BLOCK));
        assert_eq!((volume.operation(), volume.take_done(), volume.take_done()), (None, Some(7), None));
    }

    #[test]
    fn a_part_of_a_block_is_written_with_what_was_there() {
        let (mut volume, mut held) = (volume(), BTreeMap::new());
        volume.submit(1, of(Kind::Write, 512, 512));
        let first = play(&mut volume, &mut held);
        assert!(matches!(first[..], [Task::Write { bytes: BLOCK, .. }]), "zeros are known: {first:?}");
        volume.submit(2, of(Kind::Write, 1024, 512));
        let second = play(&mut volume, &mut held);
        assert!(matches!(second[..], [Task::Read, Task::Write { bytes: BLOCK, .. }]), "{second:?}");
        volume.submit(3, of(Kind::Write, 0, BLOCK));
        assert!(matches!(play(&mut volume, &mut held)[..], [Task::Write { .. }]), "all of it is new");
        assert_eq!(std::iter::from_fn(|| volume.take_done()).collect::<Vec<_>>(), [1, 2, 3]);
        assert_eq!((volume.lost, volume.retries), (0, 0));
    }

    #[test]
    fn a_request_is_complete_with_its_last_block_and_the_last_block_is_short() {
        let (mut volume, mut held) = (volume(), BTreeMap::new());
        volume.submit(1, of(Kind::Write, 3 * BLOCK, BLOCK + 512));
        let (first, second) = (volume.operation().unwrap(), volume.operation().unwrap());
        let bytes = |task| if let Task::Write { bytes, .. } = task { bytes } else { 0 };
        assert_eq!((bytes(first.task), bytes(second.task)), (BLOCK, 512));
        volume.answered(second.number, done(2));
        assert_eq!(volume.take_done(), None);
        volume.answered(first.number, done(1));
        assert_eq!(volume.take_done(), Some(1));
        assert!(play(&mut volume, &mut held).is_empty());
    }

    #[test]
    fn requests_for_one_block_wait_for_each_other_and_a_flush_for_none() {
        let mut volume = volume();
        volume.submit(1, of(Kind::Write, 0, BLOCK));
        volume.submit(2, of(Kind::Read, 0, 512));
        volume.submit(3, Request::flush());
        volume.submit(4, of(Kind::Read, BLOCK, 512));
        let write = volume.operation().unwrap();
        assert_eq!((volume.operation(), volume.take_done(), volume.take_done()), (None, Some(3), Some(4)));
        let Task::Write { content, .. } = write.task else { panic!("{write:?}") };
        volume.answered(write.number, done(content));
        let read = volume.operation().unwrap();
        assert_eq!((read.task, read.key), (Task::Read, write.key));
        volume.answered(read.number, done(content));
        assert_eq!((volume.take_done(), volume.take_done()), (Some(1), Some(2)));
    }

    #[test]
    fn what_the_store_gave_up_is_begun_again_and_what_it_lost_is_counted() {
        let mut volume = volume();
        volume.submit(1, of(Kind::Write, 0, BLOCK));
        let write = volume.operation().unwrap();
        volume.answered(write.number, Outcome::Failed(Failure::TimedOut));
        let again = volume.operation().unwrap();
        assert_eq!((again.task, again.key), (write.task, write.key));
        assert!(again.number > write.number);
        let Task::Write { content, .. } = again.task else { panic!("{again:?}") };
        volume.answered(again.number, done(content));
        for (outcome, lost) in [(done(content), 0), (done(content + 1), 1), (Outcome::Missing, 2)] {
            volume.submit(2, of(Kind::Read, 0, 512));
            let read = volume.operation().unwrap();
            let told = volume.answered(read.number, outcome).is_some();
            assert_eq!(told, lost > 0);
            assert_eq!((volume.lost, volume.retries), (lost, 1));
        }
    }

    #[test]
    fn disks_have_keys_of_their_own() {
        let key = |number, block| Volume::new(number, 4 * BLOCK, BLOCK).key(block);
        assert_eq!(key(0, 1), Key(0xffff_0000_0000_0001));
        assert_ne!(key(0, 1), key(1, 1));
    }
}
