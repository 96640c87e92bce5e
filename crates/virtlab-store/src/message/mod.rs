//! What machines say to each other, and what they want from their driver.

pub(crate) mod listing;
pub(crate) mod nouns;

use crate::message::listing::{Listing, Told};
use crate::message::nouns::{Key, Object, Peer, Version};
use crate::table::{Name, SPREAD};
use virtlab_disk::Kind;

/// An attempt to do an operation: its client, the client's number of it, and which attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attempt {
    /// Who wants it done.
    pub client: Peer,
    /// Of the client's operations.
    pub operation: u64,
    /// From 0.
    pub number: u32,
}

impl Attempt {
    /// All of it, the client first: attempts are looked up with every answer, and one number is compared at once.
    const fn rank(&self) -> u128 {
        (self.client.0 as u128) << 96 | (self.operation as u128) << 32 | self.number as u128
    }
}

impl Ord for Attempt {
    fn cmp(&self, other: &Self) -> core::cmp::Ordering {
        self.rank().cmp(&other.rank())
    }
}

impl PartialOrd for Attempt {
    fn partial_cmp(&self, other: &Self) -> Option<core::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Name for Attempt {
    fn mixed(self) -> u64 {
        let apart = u64::from(self.client.0).rotate_left(40) ^ u64::from(self.number).rotate_left(20);
        (self.operation ^ apart).wrapping_mul(SPREAD)
    }
}

/// What is to be done with a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// To learn whether there is such an object, and which.
    Open,
    /// To get its content.
    Read,
    /// To replace it, or to create it.
    Write {
        /// Length of the content.
        bytes: u64,
        /// See [`Object::content`].
        content: u64,
    },
    /// To delete it.
    Delete,
    /// To get the names in its folder from it on, a page of them.
    List,
}

impl Task {
    /// Whether it changes what is there.
    #[must_use]
    pub const fn is_write(&self) -> bool {
        matches!(self, Self::Write { .. } | Self::Delete)
    }
}

/// Why an operation has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Too few answers came in time. A write may have happened or may still happen.
    TimedOut,
}

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done: with this version, this length and this content.
    Done {
        /// Of what was read or written.
        version: Version,
        /// Length of what was read or written.
        bytes: u64,
        /// See [`Object::content`].
        content: u64,
    },
    /// There is no such object.
    Missing,
    /// There is a later version than that of this attempt; the client takes one later still.
    Superseded(Version),
    /// It is not done.
    Failed(Failure),
}

/// What a node says of a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// What it holds, if anything.
    pub object: Option<Object>,
    /// Whether it still has everything that it ever confirmed: only then its answer is one of a quorum.
    pub whole: bool,
    /// Requests that its disk has yet to do.
    pub load: u32,
    /// How often it has restarted.
    pub incarnation: u32,
}

impl Found {
    /// Length of the message that says it.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        HEAD_BYTES + self.object.as_ref().map_or(0, |_| OBJECT_BYTES)
    }
}

/// What one peer says to another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Message {
    /// A client's attempt, for a proxy or a primary to lead.
    Lead(Attempt, Key, Task, Version),
    /// How it ended.
    Led(Attempt, Key, Outcome),
    /// Who holds the key? `all`: those who do not, too, say so. `version`: of the write that asks.
    Find {
        /// Which attempt asks.
        attempt: Attempt,
        /// What for.
        key: Key,
        /// Whether nodes without the key answer.
        all: bool,
        /// A node that answers takes no earlier version of the key any more.
        version: Option<Version>,
    },
    /// I, or not.
    Found(Attempt, Found),
    /// Send the content of this or a later version.
    Fetch(Attempt, Key, Version),
    /// Here it is; `None`: no such version.
    Content(Attempt, Key, Option<Object>),
    /// Keep this.
    Put {
        /// Which attempt puts.
        attempt: Attempt,
        /// Where.
        key: Key,
        /// What.
        object: Object,
        /// Of the node, as it was when it was asked; `None`: it was not asked.
        incarnation: Option<u32>,
    },
    /// This version is kept, by a node that is whole or not: see [`Found::whole`].
    Kept {
        /// Which attempt put it.
        attempt: Attempt,
        /// Of the copy.
        version: Version,
        /// Only then it is known that nothing later was confirmed here.
        whole: bool,
    },
    /// It is not kept, and the attempt can not succeed.
    Refused(Attempt, Version),
    /// What do you hold of mine? Behind this key, in the round of questions of that number.
    List(u64, Option<Key>),
    /// These, without content, in the order of keys; whether there are more; whether the node is whole.
    Listed {
        /// Of the round.
        round: u64,
        /// The page's.
        objects: Vec<(Key, Object)>,
        /// Whether there are more behind the last.
        more: bool,
        /// See [`Found::whole`].
        whole: bool,
    },
    /// Which of these have you in a later version?
    Compare {
        /// Of the round.
        round: u64,
        /// One at least, in the order of keys.
        names: Vec<listing::Name>,
    },
    /// These, without content, of the names up to that one; whether the node is whole.
    Compared {
        /// Of the round.
        round: u64,
        /// The last of the names.
        last: Key,
        /// With what it has.
        later: Vec<(Key, Object)>,
        /// See [`Found::whole`].
        whole: bool,
    },
    /// Send this object, to be kept, in the round of that number.
    Pull(u64, Key, Version),
    /// Here it is; `None`: no such version.
    Pulled(u64, Key, Option<Object>),
    /// Which names do you hold from this one on, to the end of its folder?
    Names(Attempt, Key),
    /// These.
    Told(Attempt, Told),
    /// A page of names, for the client of an attempt that was led for it.
    Page(Attempt, Listing),
    /// I am there.
    Beat,
}

const HEAD_BYTES: u64 = 64;
const OBJECT_BYTES: u64 = 48;
const NAME_BYTES: u64 = 32;
const KEY_BYTES: u64 = 8;

impl Message {
    /// Length as it is sent, with a head of its own, without the heads of the network.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let whole = |object: &Object| OBJECT_BYTES + object.bytes;
        HEAD_BYTES
            + match self {
                Self::Lead(_, _, Task::Write { bytes, .. }, _) => *bytes,
                Self::Led(_, _, Outcome::Done { bytes, .. }) => *bytes,
                Self::Found(_, found) => return found.bytes(),
                Self::Content(_, _, Some(object)) | Self::Pulled(_, _, Some(object)) => whole(object),
                Self::Put { object, .. } => whole(object),
                Self::Listed { objects, .. } | Self::Compared { later: objects, .. } => {
                    OBJECT_BYTES * objects.len() as u64
                }
                Self::Compare { names, .. } => NAME_BYTES * names.len() as u64,
                Self::Told(_, told) => NAME_BYTES * told.names.len() as u64,
                Self::Page(_, listing) => KEY_BYTES * listing.names.len() as u64,
                _ => 0,
            }
    }

    /// The attempt that it is part of; `None` of what storage nodes say of their own accord.
    #[must_use]
    pub fn attempt(&self) -> Option<Attempt> {
        match self {
            Self::Find { attempt, .. }
            | Self::Found(attempt, _)
            | Self::Lead(attempt, ..)
            | Self::Led(attempt, ..)
            | Self::Fetch(attempt, ..)
            | Self::Content(attempt, ..)
            | Self::Put { attempt, .. }
            | Self::Kept { attempt, .. }
            | Self::Names(attempt, _)
            | Self::Told(attempt, _)
            | Self::Page(attempt, _)
            | Self::Refused(attempt, _) => Some(*attempt),
            _ => None,
        }
    }

    /// Whether it seeks holders of a key, or answers that.
    #[must_use]
    pub fn seeks(&self) -> bool {
        matches!(self, Self::Find { .. } | Self::Found(..))
    }
}

/// For whom a message is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// One peer; a machine that sends to itself gets it as any other message.
    Peer(Peer),
    /// Every storage node, the sender if it is one: a multicast.
    Nodes,
}

/// What a machine wants from its driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Send.
    Send(To, Message),
    /// A request of its disk; `complete` is told when it is done. A flush follows what it flushes.
    Disk {
        /// The machine's name of the request.
        id: u64,
        /// What for.
        kind: Kind,
        /// Its length.
        bytes: u64,
        /// Of which object.
        key: Key,
        /// Of which of its versions.
        version: Version,
    },
    /// An operation has ended.
    Answer {
        /// As the request was numbered.
        operation: u64,
        /// How.
        outcome: Outcome,
        /// Attempts beyond the first.
        retries: u32,
        /// Of a list that is done.
        listing: Option<Listing>,
    },
}
