//! What the machines speak of: peers, keys, versions, and what a node keeps of an object.

/// An end of messages: a storage node (0, 1, ... in the order of the store's nodes), a proxy or a client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Peer(pub u32);

/// An object's name, hashed by its client. Two names with one key are one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(pub u64);

impl Key {
    /// The last that an object of its folder can have: a folder is the first 16 bits.
    #[must_use]
    pub const fn last_of_folder(self) -> Self {
        Self(self.0 | ((1 << 48) - 1))
    }

    /// The key by another order: the finaliser of splitmix64 (S. Vigna), which is one to one.
    #[must_use]
    pub const fn mixed(self, salt: u64) -> u64 {
        let mut z = self.0 ^ salt.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

/// Which of two writes of a key is later. No two attempts to write have the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// Nanoseconds of the writer's clock, or one more than the stamp of a later version that it knows.
    pub stamp: u64,
    /// Who wrote.
    pub writer: Peer,
    /// Of the writer's attempts.
    pub number: u64,
}

/// Nodes that ought to hold an object, in the order of their placement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holders(Few);

/// So many peers need no memory of their own. Behind the last is nothing.
const FEW: usize = 4;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Few {
    Here(u8, [Peer; FEW]),
    Apart(Box<[Peer]>),
}

impl core::ops::Deref for Holders {
    type Target = [Peer];

    #[inline]
    fn deref(&self) -> &[Peer] {
        match &self.0 {
            Few::Here(many, peers) => &peers[..usize::from(*many)],
            Few::Apart(peers) => peers,
        }
    }
}

impl FromIterator<Peer> for Holders {
    fn from_iter<T: IntoIterator<Item = Peer>>(peers: T) -> Self {
        let (mut few, mut many, mut peers) = ([Peer(0); FEW], 0, peers.into_iter());
        for peer in peers.by_ref() {
            if many == FEW {
                return Self(Few::Apart(few.into_iter().chain([peer]).chain(peers).collect()));
            }
            few[many] = peer;
            many += 1;
        }
        Self(Few::Here(many as u8, few))
    }
}

impl From<Vec<Peer>> for Holders {
    fn from(peers: Vec<Peer>) -> Self {
        peers.into_iter().collect()
    }
}

/// One copy of an object, without its bytes: a machine moves lengths, its driver moves content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Object {
    /// Of this content.
    pub version: Version,
    /// Length of the content. Of an object that was deleted, nothing is left but this record.
    pub bytes: u64,
    /// Stands for the content: its hash, or a number by which its writer recognises it.
    pub content: u64,
    /// Whether this version says that the object is deleted.
    pub deleted: bool,
    /// The nodes that ought to hold it, in the order of their placement.
    pub holders: Holders,
}
