//! The protocol by which a kernel asks a process for a file system (FUSE, 7.31), as octets in and octets out.
//!
//! Source: `include/uapi/linux/fuse.h` of Linux. A request is a head of 40 octets, numbers in the order of the machine,
//! and names that end with a zero; one read of the device gives one request. Not negotiated are what a kernel does
//! without when it is not offered: locks, attributes by name, and a cache of writes, so that a write waits for its
//! answer.

use super::tree::{Change, Look, Made};
use nix::errno::Errno;
use virtlab_wire::Nanos;

const VERSION: (u32, u32) = (7, 31);
/// The most that one request writes or reads, where the kernel can ask for so many pages.
const MOST_BYTES: u32 = 1 << 20;
const MOST_PAGES: u32 = MOST_BYTES / 4096;
/// Without that: of 32 pages.
const LESS_BYTES: u32 = 128 << 10;
/// Of what a read of the device has to have room for.
pub const CHUNK_BYTES: usize = MOST_BYTES as usize + 4096;
/// Requests that a kernel begins without a process that waits, as it reads ahead.
const AHEAD: u16 = 32;
/// For how long a kernel believes an answer: it is the only one that changes anything.
const VALID_S: u64 = 1 << 30;

// Of what the kernel offers.
const ASYNC_READ: u32 = 1;
const BIG_WRITES: u32 = 1 << 5;
const PARALLEL_DIROPS: u32 = 1 << 18;
const ABORT_ERROR: u32 = 1 << 21;
const PAGES: u32 = 1 << 22;

/// Of an opened file: its pages stay in the kernel's cache.
const KEEP_CACHE: u32 = 1 << 1;

/// A name in a folder.
pub type Name = Vec<u8>;

/// What a kernel asks.
#[derive(Debug, PartialEq, Eq)]
pub enum Asked {
    /// Which protocol?
    Begin {
        flags: u32,
        ahead_bytes: u32,
    },
    /// What has that name in a folder?
    Lookup(Name),
    /// So many times it knows no more what it had found: nothing is answered.
    Forget(Vec<(u64, u64)>),
    Look,
    Change(Change),
    ReadLink,
    Link {
        of: u64,
        name: Name,
    },
    /// A folder, a file, a link or something else; of a file whether it is opened, too.
    Make {
        name: Name,
        made: Made,
        opens: bool,
    },
    /// A file without a name.
    MakeUnnamed {
        mode: u32,
    },
    Unlink {
        name: Name,
        folder: bool,
    },
    Rename {
        name: Name,
        to: u64,
        new: Name,
        replaces: bool,
    },
    /// A file or a folder.
    Open {
        folder: bool,
    },
    Close,
    CloseFolder,
    List {
        after: u64,
        bytes: u32,
    },
    Read {
        offset: u64,
        bytes: u32,
    },
    Write {
        offset: u64,
        octets: Vec<u8>,
    },
    /// All that was written is to be on the disk.
    Flush,
    /// Room, and whether the file becomes longer by it.
    Reserve {
        offset: u64,
        bytes: u64,
        grows: bool,
    },
    State,
    /// A process that waits for the answer to a request got a signal: nothing is answered.
    Interrupt(u64),
    /// The last of all.
    End,
    /// With the error that is its answer.
    Impossible(i32),
}

/// A request, and for whom it is.
#[derive(Debug, PartialEq, Eq)]
pub struct Request {
    /// By which it is answered.
    pub unique: u64,
    /// What it is about.
    pub node: u64,
    pub user: u32,
    pub group: u32,
    /// The thread that waits for it.
    pub thread: u32,
    pub asked: Asked,
}

/// What is left of a request's octets.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn number32(&mut self) -> Option<u32> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u32::from_ne_bytes(*first))
    }

    fn number(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(u64::from_ne_bytes(*first))
    }

    fn skip(&mut self, octets: usize) -> Option<()> {
        self.0 = self.0.get(octets..)?;
        Some(())
    }

    fn name(&mut self) -> Option<Name> {
        let end = self.0.iter().position(|octet| *octet == 0)?;
        let name = self.0[..end].to_vec();
        self.0 = &self.0[end + 1..];
        Some(name)
    }
}

/// A request as it was read; `None` where the octets are no request.
pub fn request(octets: &[u8]) -> Option<Request> {
    let mut rest = Rest(octets);
    let length = rest.number32()? as usize;
    let operation = rest.number32()?;
    let (unique, node) = (rest.number()?, rest.number()?);
    let (user, group, thread) = (rest.number32()?, rest.number32()?, rest.number32()?);
    rest.skip(4)?;
    if length != octets.len() {
        return None;
    }
    let asked = asked(operation, node, rest)?;
    Some(Request { unique, node, user, group, thread, asked })
}

fn asked(operation: u32, node: u64, mut rest: Rest<'_>) -> Option<Asked> {
    Some(match operation {
        1 => Asked::Lookup(rest.name()?),
        2 => Asked::Forget(vec![(node, rest.number()?)]),
        3 => Asked::Look,
        4 => Asked::Change(change(rest)?),
        5 => Asked::ReadLink,
        6 => {
            let name = rest.name()?;
            Asked::Make { name, made: Made::Link(rest.name()?), opens: false }
        }
        8 => {
            let (mode, device) = (rest.number32()?, rest.number32()?);
            rest.skip(8)?;
            let name = rest.name()?;
            match mode & libc::S_IFMT {
                libc::S_IFREG => Asked::Make { name, made: Made::File { mode }, opens: false },
                libc::S_IFIFO | libc::S_IFSOCK if device == 0 => {
                    Asked::Make { name, made: Made::Other { mode }, opens: false }
                }
                _ => Asked::Impossible(libc::EPERM), // devices
            }
        }
        9 => {
            let mode = rest.number32()?;
            rest.skip(4)?;
            Asked::Make { name: rest.name()?, made: Made::Folder { mode }, opens: false }
        }
        10 | 11 => Asked::Unlink { name: rest.name()?, folder: operation == 11 },
        12 | 45 => {
            let to = rest.number()?;
            let flags = if operation == 45 { rest.number32()? } else { 0 };
            rest.skip(if operation == 45 { 4 } else { 0 })?;
            let (name, new) = (rest.name()?, rest.name()?);
            match flags {
                0 | libc::RENAME_NOREPLACE => Asked::Rename { name, to, new, replaces: flags == 0 },
                _ => Asked::Impossible(libc::EINVAL),
            }
        }
        13 => {
            let of = rest.number()?;
            Asked::Link { of, name: rest.name()? }
        }
        14 | 27 => Asked::Open { folder: operation == 27 },
        15 | 28 => {
            rest.skip(8)?;
            let (offset, bytes) = (rest.number()?, rest.number32()?.min(MOST_BYTES));
            if operation == 28 { Asked::List { after: offset, bytes } } else { Asked::Read { offset, bytes } }
        }
        16 => {
            rest.skip(8)?;
            let (offset, bytes) = (rest.number()?, rest.number32()? as usize);
            rest.skip(20)?;
            Asked::Write { offset, octets: rest.0.get(..bytes)?.to_vec() }
        }
        17 => Asked::State,
        18 => Asked::Close,
        29 => Asked::CloseFolder,
        20 | 30 => Asked::Flush,
        26 => {
            let (_, _) = (rest.number32()?, rest.number32()?);
            let ahead_bytes = rest.number32()?;
            Asked::Begin { ahead_bytes, flags: rest.number32()? }
        }
        35 => {
            rest.skip(4)?;
            let mode = rest.number32()?;
            rest.skip(8)?;
            Asked::Make { name: rest.name()?, made: Made::File { mode }, opens: true }
        }
        51 => {
            rest.skip(4)?;
            Asked::MakeUnnamed { mode: rest.number32()? }
        }
        36 => Asked::Interrupt(rest.number()?),
        38 => Asked::End,
        42 => {
            let count = rest.number32()?;
            rest.skip(4)?;
            let mut all = Vec::new();
            for _ in 0..count {
                all.push((rest.number()?, rest.number()?));
            }
            Asked::Forget(all)
        }
        43 => {
            rest.skip(8)?;
            let (offset, bytes, mode) = (rest.number()?, rest.number()?, rest.number32()?);
            match mode as i32 {
                0 | libc::FALLOC_FL_KEEP_SIZE => Asked::Reserve { offset, bytes, grows: mode == 0 },
                _ => Asked::Impossible(libc::EOPNOTSUPP),
            }
        }
        // The kernel does by itself what it hears once that is not offered.
        _ => Asked::Impossible(libc::ENOSYS),
    })
}

fn change(mut rest: Rest<'_>) -> Option<Change> {
    let wanted = rest.number32()?;
    rest.skip(12)?;
    let size = rest.number()?;
    rest.skip(8)?;
    let seconds = [rest.number()?, rest.number()?, rest.number()?];
    let parts = [rest.number32()?, rest.number32()?, rest.number32()?];
    let mode = rest.number32()?;
    rest.skip(4)?;
    let (user, group) = (rest.number32()?, rest.number32()?);
    let is = |bit: u32| wanted & 1 << bit != 0;
    let time = |place: usize| {
        Nanos(seconds[place].saturating_mul(1_000_000_000).saturating_add(u64::from(parts[place])))
    };
    Some(Change {
        mode: is(0).then_some(mode),
        user: is(1).then_some(user),
        group: is(2).then_some(group),
        size: is(3).then_some(size),
        // `None` inside: now.
        accessed: is(4).then(|| (!is(7)).then(|| time(0))),
        modified: is(5).then(|| (!is(8)).then(|| time(1))),
    })
}

/// The octets of an answer.
#[derive(Debug, Default)]
pub struct Body(pub Vec<u8>);

impl Body {
    fn number(mut self, number: u64) -> Self {
        self.0.extend(number.to_ne_bytes());
        self
    }

    fn number32(mut self, number: u32) -> Self {
        self.0.extend(number.to_ne_bytes());
        self
    }

    /// What is agreed on.
    pub fn begin(flags: u32, ahead_bytes: u32) -> Self {
        let wanted = ASYNC_READ | BIG_WRITES | PARALLEL_DIROPS | ABORT_ERROR | PAGES;
        let write_bytes = if flags & PAGES == 0 { LESS_BYTES } else { MOST_BYTES };
        let mut body = Self::default()
            .number32(VERSION.0)
            .number32(VERSION.1)
            .number32(ahead_bytes)
            .number32(flags & wanted)
            .number32(u32::from(AHEAD) * 0x1_0001) // and as many before who writes is slowed down
            .number32(write_bytes)
            .number32(1); // times to the nanosecond
        body.0.extend((MOST_PAGES as u16).to_ne_bytes());
        body.0.resize(64, 0);
        body
    }

    /// How something looks.
    pub fn look(look: &Look) -> Self {
        Self::default().number(VALID_S).number(0).attributes(look)
    }

    /// Something that was found or made.
    pub fn entry(look: &Look) -> Self {
        Self::default().number(look.node).number(0).number(VALID_S).number(VALID_S).number(0).attributes(look)
    }

    /// That something was opened.
    pub fn open(self) -> Self {
        self.number(0).number32(KEEP_CACHE).number32(0)
    }

    fn attributes(self, look: &Look) -> Self {
        let times = [look.accessed, look.modified, look.changed];
        let mut body = self.number(look.node).number(look.size).number(look.blocks);
        for time in times {
            body = body.number(time.0 / 1_000_000_000);
        }
        for time in times {
            body = body.number32((time.0 % 1_000_000_000) as u32);
        }
        for number in [look.mode, look.links, look.user, look.group, 0, 4096, 0] {
            body = body.number32(number);
        }
        body
    }

    /// How many octets were written.
    pub fn written(bytes: usize) -> Self {
        Self::default().number32(bytes as u32).number32(0)
    }

    /// How much room there is: pages, of these free, files, of these free.
    pub fn state([pages, free, files, free_files]: [u64; 4]) -> Self {
        let mut body = Self::default();
        for number in [pages, free, free, files, free_files] {
            body = body.number(number);
        }
        for number in [4096, 255, 4096] {
            body = body.number32(number);
        }
        body.0.resize(80, 0);
        body
    }

    /// One more entry of a folder, if there is room for it.
    pub fn listed(&mut self, most: usize, (node, after, mode, name): (u64, u64, u32, &[u8])) -> bool {
        let bytes = (24 + name.len()).next_multiple_of(8);
        if self.0.len() + bytes > most {
            return false;
        }
        let end = self.0.len() + bytes;
        let body =
            std::mem::take(self).number(node).number(after).number32(name.len() as u32).number32(mode >> 12);
        *self = body;
        self.0.extend_from_slice(name);
        self.0.resize(end, 0);
        true
    }
}

/// A whole answer.
pub fn answer(unique: u64, body: Result<&[u8], Errno>) -> Vec<u8> {
    let octets = body.unwrap_or_default();
    let mut all = Vec::with_capacity(16 + octets.len());
    all.extend((16 + octets.len() as u32).to_ne_bytes());
    all.extend(body.err().map_or(0, |error| -(error as i32)).to_ne_bytes());
    all.extend(unique.to_ne_bytes());
    all.extend_from_slice(octets);
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn asking(operation: u32, rest: &[u8]) -> Vec<u8> {
        let mut octets = Vec::new();
        octets.extend((40 + rest.len() as u32).to_ne_bytes());
        octets.extend(operation.to_ne_bytes());
        octets.extend(7u64.to_ne_bytes());
        octets.extend(1u64.to_ne_bytes());
        for number in [1000u32, 100, 4242, 0] {
            octets.extend(number.to_ne_bytes());
        }
        octets.extend_from_slice(rest);
        octets
    }

    #[test]
    fn requests_are_read_as_the_kernel_writes_them() {
        let found = request(&asking(1, b"a\0")).unwrap();
        assert_eq!(
            (found.unique, found.node, found.user, found.group, found.thread),
            (7, 1, 1000, 100, 4242)
        );
        assert_eq!(found.asked, Asked::Lookup(b"a".to_vec()));
        let mut write = [0; 40];
        write[8..16].copy_from_slice(&4096u64.to_ne_bytes());
        write[16..20].copy_from_slice(&3u32.to_ne_bytes());
        let asked = request(&asking(16, &[&write[..], b"abc"].concat())).unwrap().asked;
        assert_eq!(asked, Asked::Write { offset: 4096, octets: b"abc".to_vec() });
        assert_eq!(request(&asking(16, &[&write[..], b"ab"].concat())), None, "less than it says");
        let mut rename = Vec::from(9u64.to_ne_bytes());
        rename.extend([1, 0, 0, 0, 0, 0, 0, 0]);
        rename.extend(b"old\0new\0");
        let asked = request(&asking(45, &rename)).unwrap().asked;
        assert!(matches!(asked, Asked::Rename { to: 9, replaces: false, .. }), "{asked:?}");
        rename[8] = 2;
        assert_eq!(
            request(&asking(45, &rename)).unwrap().asked,
            Asked::Impossible(libc::EINVAL),
            "an exchange"
        );
        assert_eq!(request(&asking(9999, &[])).unwrap().asked, Asked::Impossible(libc::ENOSYS));
    }

    #[test]
    fn answers_have_the_lengths_of_the_protocol() {
        let look = Look { node: 3, mode: libc::S_IFREG | 0o600, size: 5, ..Look::default() };
        assert_eq!(Body::look(&look).0.len(), 104);
        assert_eq!(Body::entry(&look).open().0.len(), 128 + 16);
        assert_eq!(Body::state([1, 1, 1, 1]).0.len(), 80);
        assert_eq!(Body::begin(u32::MAX, 1).0.len(), 64);
        assert_eq!(answer(7, Err(Errno::ENOSPC))[4..8], (-28i32).to_ne_bytes());
        let mut list = Body::default();
        assert!(list.listed(64, (1, 1, libc::S_IFDIR, b".")));
        assert!(list.listed(64, (1, 2, libc::S_IFDIR, b"..")));
        assert!(!list.listed(64, (5, 3, libc::S_IFREG, b"a")), "no room");
        assert_eq!(list.0.len(), 64);
    }

    proptest! {
        #[test]
        fn no_request_makes_it_panic(operation in 0u32..60, rest in proptest::collection::vec(any::<u8>(), 0..120)) {
            let _ = request(&asking(operation, &rest));
            let _ = request(&rest);
            // A head that is cut, and says so.
            let mut cut = asking(operation, &rest);
            cut.truncate(rest.len().min(39));
            let length = (cut.len() as u32).to_ne_bytes();
            cut.iter_mut().zip(length).for_each(|(octet, own)| *octet = own);
            prop_assert_eq!(request(&cut), None);
        }
    }
}
