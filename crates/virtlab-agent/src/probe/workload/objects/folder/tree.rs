//! The files of a disk, as a machine without a clock and without I/O: names, and where on the disk the octets of each
//! file are.
//!
//! Names, lengths and owners are in memory alone, as the disk is empty when it begins and has one client. Octets are on
//! the disk, in pages: a file has those that were written, and of each how far. What lies beyond reads as zeros, so
//! nothing is written when a file is cut or becomes longer, and no page shows what another file left there. A page
//! follows the one before it in its file where that is free, else the one that was given away last.

use nix::errno::Errno;
use std::collections::BTreeMap;
use virtlab_wire::Nanos;

/// The folder of all.
pub const ROOT: u64 = 1;
/// Of a page.
pub const PAGE_BYTES: u64 = 4096;
/// As many files, and names of them, as pages, and no more than these: each takes some memory.
const FILES_MOST: u64 = 1 << 18;
const NAME_MOST_BYTES: usize = 255;
const LINKS_MOST: u32 = 65_000;
/// Of a file: as far as the kernel counts.
const SIZE_MOST_BYTES: u64 = i64::MAX as u64;
/// Entries of a folder that are its own and the one above's.
const DOTS: u64 = 2;

/// An answer, or why there is no answer.
pub type Answer<T> = Result<T, Errno>;

/// How something looks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    pub node: u64,
    /// With what it is.
    pub mode: u32,
    pub links: u32,
    pub user: u32,
    pub group: u32,
    pub size: u64,
    /// Of 512 octets, that it has on the disk.
    pub blocks: u64,
    pub accessed: Nanos,
    pub modified: Nanos,
    pub changed: Nanos,
}

/// What is to be other than it is; of a time `None` inside: now.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    pub mode: Option<u32>,
    pub user: Option<u32>,
    pub group: Option<u32>,
    pub size: Option<u64>,
    pub accessed: Option<Option<Nanos>>,
    pub modified: Option<Option<Nanos>>,
}

/// What is made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Made {
    File {
        mode: u32,
    },
    Folder {
        mode: u32,
    },
    /// To a path.
    Link(Vec<u8>),
    /// Nothing of which is on the disk: a pipe, a socket.
    Other {
        mode: u32,
    },
}

/// By whom and when.
#[derive(Clone, Copy, Debug, Default)]
pub struct By {
    pub user: u32,
    pub group: u32,
    pub now: Nanos,
}

/// Octets of a file that are in one piece on the disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece<T> {
    /// Where on the disk.
    pub offset: u64,
    /// What is written there; of what is read, where it goes and how much it is.
    pub octets: T,
}

/// How many octets of a file, and their pieces.
pub type Pieces<T> = (usize, Vec<Piece<T>>);

/// A page of the disk that a file has.
#[derive(Clone, Copy, Debug)]
struct Page {
    place: u64,
    /// Octets from its beginning that are on the disk: zeros follow.
    filled: u64,
}

#[derive(Debug)]
struct Folder {
    above: u64,
    /// By name: what it is, and its place in the order in which names came.
    names: BTreeMap<Vec<u8>, (u64, u64)>,
    order: BTreeMap<u64, Vec<u8>>,
    next: u64,
}

#[derive(Debug)]
enum Content {
    File(BTreeMap<u64, Page>),
    Folder(Folder),
    Link(Vec<u8>),
    Other,
}

#[derive(Debug)]
struct Node {
    look: Look,
    content: Content,
    /// How often the kernel has found it, less how often it has forgotten that.
    known: u64,
    /// How often it is open.
    open: u64,
}

impl Node {
    fn folder(&mut self) -> Answer<&mut Folder> {
        match &mut self.content {
            Content::Folder(folder) => Ok(folder),
            _ => Err(Errno::ENOTDIR),
        }
    }

    fn is_folder(&self) -> bool {
        matches!(self.content, Content::Folder(_))
    }
}

/// Pages that no file has.
#[derive(Debug)]
struct Room {
    /// A bit for each page: it is free.
    free: Vec<u64>,
    left: u64,
    /// After the one that was given away last.
    next: u64,
    pages: u64,
}

impl Room {
    fn new(pages: u64) -> Self {
        let mut free = vec![u64::MAX; pages.div_ceil(64) as usize];
        if let (Some(last), 1..) = (free.last_mut(), pages % 64) {
            *last = (1 << (pages % 64)) - 1;
        }
        Self { free, left: pages, next: 0, pages }
    }

    fn is_free(&self, page: u64) -> bool {
        self.free.get((page / 64) as usize).is_some_and(|word| word & 1 << (page % 64) != 0)
    }

    /// A free page: that one, if it is.
    fn take(&mut self, wanted: Option<u64>) -> Answer<u64> {
        let found =
            wanted.filter(|page| self.is_free(*page)).or_else(|| self.search()).ok_or(Errno::ENOSPC)?;
        self.free[(found / 64) as usize] &= !(1 << (found % 64));
        self.left -= 1;
        self.next = found + 1;
        Ok(found)
    }

    fn search(&self) -> Option<u64> {
        if self.left == 0 {
            return None;
        }
        let first = (self.next % self.pages.max(1)) as usize;
        let (begin, words) = (first / 64, self.free.len());
        (0..=words).find_map(|step| {
            let at = (begin + step) % words;
            // Of the word in which it begins, first what follows, and at last what comes before.
            let mask = match step {
                0 => u64::MAX << (first % 64),
                _ if step == words => !(u64::MAX << (first % 64)),
                _ => u64::MAX,
            };
            let word = self.free[at] & mask;
            (word != 0).then(|| at as u64 * 64 + u64::from(word.trailing_zeros()))
        })
    }

    fn give_back(&mut self, page: u64) {
        self.free[(page / 64) as usize] |= 1 << (page % 64);
        self.left += 1;
    }
}

/// All of a disk.
#[derive(Debug)]
pub struct Tree {
    nodes: BTreeMap<u64, Node>,
    next: u64,
    /// In all folders.
    names: u64,
    room: Room,
    /// Files, and names of them.
    most: u64,
}

impl Tree {
    /// An empty one, on a disk of that size.
    pub fn new(size_bytes: u64, now: Nanos) -> Self {
        let pages = size_bytes / PAGE_BYTES;
        let look = Look {
            node: ROOT,
            mode: libc::S_IFDIR | 0o1777,
            links: 2,
            accessed: now,
            modified: now,
            changed: now,
            ..Look::default()
        };
        let mut tree = Self {
            nodes: BTreeMap::new(),
            next: ROOT,
            names: 0,
            room: Room::new(pages),
            most: FILES_MOST.min(pages),
        };
        let content = Content::Folder(Folder::below(ROOT));
        tree.nodes.insert(ROOT, Node { look, content, known: 1, open: 0 });
        tree
    }

    /// Pages, of these free, files that there can be, and how many more.
    pub fn state(&self) -> [u64; 4] {
        let left = self.most.saturating_sub(self.nodes.len() as u64);
        [self.room.pages, self.room.left, self.most, left]
    }

    fn node(&mut self, id: u64) -> Answer<&mut Node> {
        self.nodes.get_mut(&id).ok_or(Errno::ESTALE)
    }

    fn folder(&mut self, id: u64) -> Answer<&mut Folder> {
        self.node(id)?.folder()
    }

    fn in_folder(&mut self, id: u64, name: &[u8]) -> Answer<u64> {
        let found = self.folder(id)?.names.get(name);
        found.map(|(node, _)| *node).ok_or(Errno::ENOENT)
    }

    /// How something looks.
    pub fn look(&mut self, id: u64) -> Answer<Look> {
        let node = self.node(id)?;
        let mut look = node.look;
        if let Content::File(pages) = &node.content {
            look.blocks = pages.len() as u64 * (PAGE_BYTES / 512);
        }
        Ok(look)
    }

    /// What has that name; the kernel knows it once more.
    pub fn lookup(&mut self, id: u64, name: &[u8]) -> Answer<Look> {
        let found = self.in_folder(id, name)?;
        self.node(found)?.known += 1;
        self.look(found)
    }

    /// The kernel knows something so many times less.
    pub fn forget(&mut self, id: u64, times: u64) {
        if let (Some(node), true) = (self.nodes.get_mut(&id), id != ROOT) {
            node.known = node.known.saturating_sub(times);
            self.sweep(id);
        }
    }

    /// Takes away what cannot be reached any more: its octets with the last who has it open, itself with the last who
    /// knows it.
    fn sweep(&mut self, id: u64) {
        let Some(node) = self.nodes.get_mut(&id) else { return };
        if node.look.links > 0 || node.open > 0 {
            return;
        }
        if let Content::File(pages) = &mut node.content {
            for page in std::mem::take(pages).into_values() {
                self.room.give_back(page.place);
            }
        }
        if node.known == 0 {
            self.nodes.remove(&id);
        }
    }

    /// Makes something with a name in a folder.
    pub fn make(&mut self, id: u64, name: &[u8], made: Made, by: By) -> Answer<Look> {
        self.free_name(id, name)?;
        let links = u32::from(!matches!(made, Made::Folder { .. }));
        let (look, is_folder) = (self.born(id, made, by)?, links == 0);
        if is_folder {
            self.node(id)?.look.links += 1;
        }
        self.enter(id, name, look.node, by.now)?;
        self.look(look.node)
    }

    /// Makes a file that no folder has.
    pub fn make_unnamed(&mut self, id: u64, mode: u32, by: By) -> Answer<Look> {
        self.folder(id)?;
        let look = self.born(id, Made::File { mode }, by)?;
        self.node(look.node)?.look.links = 0;
        self.look(look.node)
    }

    fn free_name(&mut self, id: u64, name: &[u8]) -> Answer<()> {
        if name.len() > NAME_MOST_BYTES {
            return Err(Errno::ENAMETOOLONG);
        }
        let links = self.node(id)?.look.links;
        if self.folder(id)?.names.contains_key(name) {
            return Err(Errno::EEXIST);
        }
        // Of a folder that was removed while somebody was in it.
        if links == 0 { Err(Errno::ENOENT) } else { Ok(()) }
    }

    fn born(&mut self, above: u64, made: Made, by: By) -> Answer<Look> {
        if self.nodes.len() as u64 >= self.most {
            return Err(Errno::ENOSPC);
        }
        let parent = self.node(above)?.look;
        self.next += 1;
        // Those in a folder of a group are of that group, too.
        let of_group = parent.mode & libc::S_ISGID != 0;
        let mut links = 1;
        let mut size = 0;
        let (mode, content) = match made {
            Made::File { mode } => (libc::S_IFREG | mode & 0o7777, Content::File(BTreeMap::new())),
            Made::Other { mode } => (mode, Content::Other),
            Made::Link(to) => {
                size = to.len() as u64;
                (libc::S_IFLNK | 0o777, Content::Link(to))
            }
            Made::Folder { mode } => {
                links = 2;
                let inherited = if of_group { libc::S_ISGID } else { 0 };
                (libc::S_IFDIR | mode & 0o7777 | inherited, Content::Folder(Folder::below(above)))
            }
        };
        let look = Look {
            node: self.next,
            mode,
            links,
            user: by.user,
            group: if of_group { parent.group } else { by.group },
            size,
            blocks: 0,
            accessed: by.now,
            modified: by.now,
            changed: by.now,
        };
        self.nodes.insert(look.node, Node { look, content, known: 1, open: 0 });
        Ok(look)
    }

    /// Gives something a name that is free.
    fn enter(&mut self, id: u64, name: &[u8], node: u64, now: Nanos) -> Answer<()> {
        let folder = self.folder(id)?;
        let place = folder.next;
        folder.next += 1;
        folder.order.insert(place, name.to_vec());
        folder.names.insert(name.to_vec(), (node, place));
        self.names += 1;
        self.touched(id, now)
    }

    fn leave(&mut self, id: u64, name: &[u8], now: Nanos) -> Answer<()> {
        let folder = self.folder(id)?;
        if let Some((_, place)) = folder.names.remove(name) {
            folder.order.remove(&place);
            self.names -= 1;
        }
        self.touched(id, now)
    }

    /// A folder has other names than before.
    fn touched(&mut self, id: u64, now: Nanos) -> Answer<()> {
        let node = self.node(id)?;
        node.look.size = node.folder()?.names.len() as u64;
        (node.look.modified, node.look.changed) = (now, now);
        Ok(())
    }

    /// One more name of a file.
    pub fn link(&mut self, of: u64, id: u64, name: &[u8], now: Nanos) -> Answer<Look> {
        self.free_name(id, name)?;
        if self.names >= self.most {
            return Err(Errno::ENOSPC);
        }
        let node = self.node(of)?;
        if node.is_folder() {
            return Err(Errno::EPERM);
        }
        if node.look.links >= LINKS_MOST {
            return Err(Errno::EMLINK);
        }
        node.look.links += 1;
        node.look.changed = now;
        node.known += 1;
        self.enter(id, name, of, now)?;
        self.look(of)
    }

    /// Takes a name away.
    pub fn unlink(&mut self, id: u64, name: &[u8], folder: bool, now: Nanos) -> Answer<()> {
        let found = self.in_folder(id, name)?;
        let node = self.node(found)?;
        match (node.is_folder(), folder) {
            (true, false) => return Err(Errno::EISDIR),
            (false, true) => return Err(Errno::ENOTDIR),
            (true, true) if !node.folder()?.names.is_empty() => return Err(Errno::ENOTEMPTY),
            _ => {}
        }
        self.leave(id, name, now)?;
        let node = self.node(found)?;
        node.look.links = if folder { 0 } else { node.look.links.saturating_sub(1) };
        node.look.changed = now;
        if folder {
            self.node(id)?.look.links -= 1;
        }
        self.sweep(found);
        Ok(())
    }

    /// Gives something another name, in the place of what has that.
    pub fn rename(
        &mut self,
        (id, name): (u64, &[u8]),
        (to, new): (u64, &[u8]),
        replaces: bool,
        now: Nanos,
    ) -> Answer<()> {
        let node = self.in_folder(id, name)?;
        let is_folder = self.node(node)?.is_folder();
        let mut above = to;
        while is_folder && above != ROOT {
            if above == node {
                return Err(Errno::EINVAL); // it would be in itself
            }
            above = self.folder(above)?.above;
        }
        match self.in_folder(to, new) {
            Ok(_) if !replaces => return Err(Errno::EEXIST),
            Ok(other) if other == node => return Ok(()),
            Ok(_) => self.unlink(to, new, is_folder, now)?,
            Err(Errno::ENOENT) => self.free_name(to, new)?,
            Err(error) => return Err(error),
        }
        self.leave(id, name, now)?;
        self.enter(to, new, node, now)?;
        self.node(node)?.look.changed = now;
        if is_folder && id != to {
            self.node(id)?.look.links -= 1;
            self.node(to)?.look.links += 1;
            self.folder(node)?.above = to;
        }
        Ok(())
    }

    /// Where a link leads.
    pub fn leads_to(&mut self, id: u64) -> Answer<&[u8]> {
        match &self.node(id)?.content {
            Content::Link(to) => Ok(to),
            _ => Err(Errno::EINVAL),
        }
    }

    /// Makes something look otherwise.
    pub fn change(&mut self, id: u64, change: Change, now: Nanos) -> Answer<Look> {
        if let Some(size) = change.size {
            self.cut(id, size)?;
        }
        let look = &mut self.node(id)?.look;
        if let Some(mode) = change.mode {
            look.mode = look.mode & libc::S_IFMT | mode & 0o7777;
        }
        look.user = change.user.unwrap_or(look.user);
        look.group = change.group.unwrap_or(look.group);
        if change.size.is_some() {
            look.modified = now;
        }
        if let Some(at) = change.accessed {
            look.accessed = at.unwrap_or(now);
        }
        if let Some(at) = change.modified {
            look.modified = at.unwrap_or(now);
        }
        look.changed = now;
        self.look(id)
    }

    fn pages(&mut self, id: u64) -> Answer<&mut BTreeMap<u64, Page>> {
        match &mut self.node(id)?.content {
            Content::File(pages) => Ok(pages),
            Content::Folder(_) => Err(Errno::EISDIR),
            _ => Err(Errno::EINVAL),
        }
    }

    fn cut(&mut self, id: u64, size: u64) -> Answer<()> {
        if size > SIZE_MOST_BYTES {
            return Err(Errno::EFBIG);
        }
        let pages = self.pages(id)?;
        let gone = pages.split_off(&size.div_ceil(PAGE_BYTES));
        if let Some(last) = pages.get_mut(&(size / PAGE_BYTES)) {
            last.filled = last.filled.min(size % PAGE_BYTES);
        }
        gone.into_values().for_each(|page| self.room.give_back(page.place));
        self.node(id)?.look.size = size;
        Ok(())
    }

    /// Something was opened.
    pub fn open(&mut self, id: u64) -> Answer<()> {
        self.node(id)?.open += 1;
        Ok(())
    }

    /// One of those that opened it has closed it.
    pub fn close(&mut self, id: u64) {
        if let Some(node) = self.nodes.get_mut(&id) {
            node.open = node.open.saturating_sub(1);
            self.sweep(id);
        }
    }

    /// Entries of a folder after a place, each with its own place: what it is, its mode and its name.
    pub fn list(
        &mut self,
        id: u64,
        after: u64,
        mut take: impl FnMut((u64, u64, u32, &[u8])) -> bool,
    ) -> Answer<()> {
        let above = self.folder(id)?.above;
        for (place, node, name) in [(1, id, &b"."[..]), (DOTS, above, b"..")] {
            if place > after && !take((node, place, libc::S_IFDIR, name)) {
                return Ok(());
            }
        }
        let Some(Node { content: Content::Folder(folder), .. }) = self.nodes.get(&id) else { return Ok(()) };
        for (place, name) in folder.order.range(after.max(DOTS) + 1..) {
            let Some((node, _)) = folder.names.get(name) else { continue };
            let mode = self.nodes.get(node).map_or(0, |node| node.look.mode);
            if !take((*node, *place, mode, name)) {
                break;
            }
        }
        Ok(())
    }

    /// How much there is to read, and the pieces of it that are on the disk; zeros are all others.
    pub fn read(&mut self, id: u64, offset: u64, bytes: u64) -> Answer<Pieces<(usize, u64)>> {
        let size = self.node(id)?.look.size;
        let pages = self.pages(id)?;
        let end = size.min(offset.saturating_add(bytes)).max(offset);
        let mut pieces: Vec<Piece<(usize, u64)>> = Vec::new();
        for (number, page) in
            pages.range(offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES).max(offset / PAGE_BYTES))
        {
            let begin = number * PAGE_BYTES;
            let from = offset.max(begin);
            let until = end.min(begin + page.filled);
            if from >= until {
                continue;
            }
            let (at, there) = ((from - offset) as usize, page.place * PAGE_BYTES + from - begin);
            match pieces.last_mut() {
                Some(Piece { offset, octets: (place, length) })
                    if *offset + *length == there && *place + *length as usize == at =>
                {
                    *length += until - from;
                }
                _ => pieces.push(Piece { offset: there, octets: (at, until - from) }),
            }
        }
        Ok(((end - offset) as usize, pieces))
    }

    /// How many octets there is room for, and where they are written.
    pub fn write(&mut self, id: u64, offset: u64, octets: &[u8], now: Nanos) -> Answer<Pieces<Vec<u8>>> {
        let wanted = offset.checked_add(octets.len() as u64).filter(|end| *end <= SIZE_MOST_BYTES);
        let end = self.reserved(id, offset, wanted.ok_or(Errno::EFBIG)?)?;
        if end == offset {
            return if octets.is_empty() { Ok((0, Vec::new())) } else { Err(Errno::ENOSPC) };
        }
        let pages = self.pages(id)?;
        let mut pieces: Vec<Piece<Vec<u8>>> = Vec::new();
        for (number, page) in pages.range_mut(offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES)) {
            let begin = number * PAGE_BYTES;
            let (from, until) = (offset.max(begin) - begin, end.min(begin + PAGE_BYTES) - begin);
            let first = from.min(page.filled);
            let there = page.place * PAGE_BYTES + first;
            if pieces.last().is_none_or(|last| last.offset + last.octets.len() as u64 != there) {
                pieces.push(Piece { offset: there, octets: Vec::new() });
            }
            let Some(last) = pieces.last_mut() else { continue };
            last.octets.resize(last.octets.len() + (from - first) as usize, 0);
            let inside = (begin + from - offset) as usize..(begin + until - offset) as usize;
            last.octets.extend_from_slice(&octets[inside]);
            page.filled = page.filled.max(until);
        }
        let look = &mut self.node(id)?.look;
        look.size = look.size.max(end);
        (look.modified, look.changed) = (now, now);
        Ok(((end - offset) as usize, pieces))
    }

    /// Room for part of a file; all of it or nothing.
    pub fn reserve(&mut self, id: u64, (offset, bytes): (u64, u64), grows: bool, now: Nanos) -> Answer<()> {
        let end = offset.checked_add(bytes).filter(|end| *end <= SIZE_MOST_BYTES).ok_or(Errno::EFBIG)?;
        let numbers = offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES);
        let there = self.pages(id)?.range(numbers.clone()).count() as u64;
        if numbers.end - numbers.start - there > self.room.left {
            return Err(Errno::ENOSPC);
        }
        self.reserved(id, offset, end)?;
        let look = &mut self.node(id)?.look;
        if grows && end > look.size {
            look.size = end;
            look.modified = now;
        }
        look.changed = now;
        Ok(())
    }

    /// Gives a file pages for part of it, as long as there are any; until where it has them.
    fn reserved(&mut self, id: u64, offset: u64, end: u64) -> Answer<u64> {
        let Self { nodes, room, .. } = self;
        let pages = match nodes.get_mut(&id).map(|node| &mut node.content) {
            Some(Content::File(pages)) => pages,
            Some(Content::Folder(_)) => return Err(Errno::EISDIR),
            Some(_) => return Err(Errno::EINVAL),
            None => return Err(Errno::ESTALE),
        };
        let first = offset / PAGE_BYTES;
        if end == offset {
            return Ok(end);
        }
        let mut before = pages.range(..first).next_back().map(|(_, page)| page.place);
        for number in first..end.div_ceil(PAGE_BYTES) {
            before = match pages.get(&number) {
                Some(page) => Some(page.place),
                None => match room.take(before.map(|place| place + 1)) {
                    Ok(place) => {
                        pages.insert(number, Page { place, filled: 0 });
                        Some(place)
                    }
                    Err(_) => return Ok((number * PAGE_BYTES).max(offset)),
                },
            };
        }
        Ok(end)
    }
}

impl Folder {
    fn below(above: u64) -> Self {
        Self { above, names: BTreeMap::new(), order: BTreeMap::new(), next: DOTS + 1 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const BY: By = By { user: 0, group: 0, now: Nanos(1) };
    const FILE: Made = Made::File { mode: 0o600 };

    /// A tree, and the disk below it.
    struct Played {
        tree: Tree,
        disk: Vec<u8>,
    }

    impl Played {
        fn new(pages: u64) -> Self {
            // What was there before is no zeros.
            Self {
                tree: Tree::new(pages * PAGE_BYTES, Nanos(0)),
                disk: vec![0xee; (pages * PAGE_BYTES) as usize],
            }
        }

        fn make(&mut self, name: &str) -> u64 {
            self.tree.make(ROOT, name.as_bytes(), FILE, BY).unwrap().node
        }

        fn write(&mut self, id: u64, offset: u64, octets: &[u8]) -> Answer<usize> {
            let (count, pieces) = self.tree.write(id, offset, octets, Nanos(2))?;
            for Piece { offset, octets } in pieces {
                self.disk[offset as usize..][..octets.len()].copy_from_slice(&octets);
            }
            Ok(count)
        }

        fn read(&mut self, id: u64, offset: u64, bytes: u64) -> Vec<u8> {
            let (length, pieces) = self.tree.read(id, offset, bytes).unwrap();
            let mut octets = vec![0; length];
            for Piece { offset, octets: (at, bytes) } in pieces {
                octets[at..at + bytes as usize]
                    .copy_from_slice(&self.disk[offset as usize..][..bytes as usize]);
            }
            octets
        }

        fn free(&self) -> u64 {
            self.tree.state()[1]
        }
    }

    #[test]
    fn what_was_cut_or_left_by_another_file_reads_as_zeros() {
        let mut played = Played::new(4);
        let first = played.make("a");
        played.write(first, 0, &[7; 5000]).unwrap();
        played.tree.change(first, Change { size: Some(100), ..Change::default() }, Nanos(3)).unwrap();
        played.tree.change(first, Change { size: Some(5000), ..Change::default() }, Nanos(3)).unwrap();
        let read = played.read(first, 0, 9000);
        assert_eq!((read.len(), &read[..100], &read[100..]), (5000, &[7; 100][..], &[0; 4900][..]));
        let second = played.make("b");
        played.write(second, 4096 + 10, b"x").unwrap();
        let read = played.read(second, 0, 9000);
        assert_eq!(
            (read.len(), read[4106], read.iter().filter(|octet| **octet != 0).count()),
            (4107, b'x', 1)
        );
    }

    #[test]
    fn a_file_follows_itself_on_the_disk_and_its_writes_are_one_piece() {
        let mut played = Played::new(64);
        let id = played.make("a");
        for part in 0..8 {
            let (_, pieces) = played.tree.write(id, part * 8192, &[1; 8192], Nanos(2)).unwrap();
            assert_eq!(pieces.len(), 1);
            assert_eq!(pieces[0].offset, part * 8192);
        }
        assert_eq!(played.tree.read(id, 0, 1 << 20).unwrap().1, [Piece { offset: 0, octets: (0, 65_536) }]);
    }

    #[test]
    fn a_full_disk_takes_what_fits_and_gives_it_back_with_the_last_who_has_the_file_open() {
        let mut played = Played::new(4);
        let (id, other) = (played.make("a"), played.make("b"));
        assert_eq!(played.write(id, 0, &[1; 20_000]), Ok(4 * 4096));
        assert_eq!(played.write(other, 0, &[1; 1]), Err(Errno::ENOSPC));
        assert_eq!(played.tree.reserve(other, (0, 1), true, Nanos(1)), Err(Errno::ENOSPC));
        played.tree.open(id).unwrap();
        played.tree.unlink(ROOT, b"a", false, Nanos(3)).unwrap();
        assert_eq!((played.free(), played.read(id, 0, 2)), (0, vec![1, 1]), "it is open");
        played.tree.close(id);
        assert_eq!(played.free(), 4);
        assert!(played.tree.look(id).is_ok(), "the kernel knows it");
        played.tree.forget(id, 1);
        assert_eq!(played.tree.look(id), Err(Errno::ESTALE));
        assert_eq!(played.tree.reserve(other, (0, 4 * 4096), false, Nanos(1)), Ok(()));
        assert_eq!((played.free(), played.tree.look(other).unwrap().size), (0, 0));
    }

    #[test]
    fn a_file_without_a_name_is_gone_with_its_last_opening() {
        let mut played = Played::new(4);
        let id = played.tree.make_unnamed(ROOT, 0o600, BY).unwrap().node;
        played.tree.open(id).unwrap();
        played.write(id, 0, b"abc").unwrap();
        assert_eq!(played.free(), 3);
        played.tree.close(id);
        played.tree.forget(id, 1);
        assert_eq!((played.free(), played.tree.nodes.len()), (4, 1));
    }

    #[test]
    fn folders_are_listed_from_any_place_while_names_go() {
        let mut played = Played::new(64);
        for number in 0..20 {
            played.make(&format!("f{number:02}"));
        }
        let (mut after, mut seen) = (0, Vec::new());
        loop {
            let mut found = Vec::new();
            let take = |(_, place, _, name): (u64, u64, u32, &[u8])| {
                found.push((place, name.to_vec()));
                found.len() < 3
            };
            played.tree.list(ROOT, after, take).unwrap();
            let Some((last, _)) = found.last() else { break };
            after = *last;
            for (_, name) in found {
                if !name.starts_with(b".") {
                    played.tree.unlink(ROOT, &name, false, Nanos(1)).unwrap();
                }
                seen.push(name);
            }
        }
        assert_eq!(seen.len(), 22, "{seen:?}");
        assert_eq!(played.tree.look(ROOT).unwrap().size, 0);
    }

    #[test]
    fn names_are_changed_as_a_file_system_does() {
        let mut played = Played::new(64);
        let tree = &mut played.tree;
        let folder = |tree: &mut Tree, above: u64, name: &[u8]| {
            tree.make(above, name, Made::Folder { mode: 0o755 }, BY).unwrap().node
        };
        let (a, b) = (folder(tree, ROOT, b"a"), folder(tree, ROOT, b"b"));
        let inner = folder(tree, a, b"inner");
        assert_eq!(tree.rename((ROOT, b"a"), (inner, b"a"), true, Nanos(1)), Err(Errno::EINVAL));
        assert_eq!(tree.unlink(ROOT, b"a", true, Nanos(1)), Err(Errno::ENOTEMPTY));
        assert_eq!(tree.rename((ROOT, b"b"), (ROOT, b"a"), false, Nanos(1)), Err(Errno::EEXIST));
        tree.rename((a, b"inner"), (b, b"moved"), true, Nanos(1)).unwrap();
        assert_eq!((tree.look(a).unwrap().links, tree.look(b).unwrap().links), (2, 3));
        tree.unlink(ROOT, b"a", true, Nanos(1)).unwrap();
        let file = tree.make(ROOT, b"f", FILE, BY).unwrap().node;
        assert_eq!(tree.make(ROOT, b"f", FILE, BY), Err(Errno::EEXIST));
        assert_eq!(tree.link(file, b, b"g", Nanos(1)).unwrap().links, 2);
        assert_eq!(tree.link(b, ROOT, b"h", Nanos(1)), Err(Errno::EPERM), "a folder");
        tree.make(ROOT, b"other", FILE, BY).unwrap();
        tree.rename((ROOT, b"other"), (ROOT, b"f"), true, Nanos(1)).unwrap();
        assert_eq!(tree.look(file).unwrap().links, 1, "it was replaced");
        assert_eq!(tree.lookup(ROOT, b"other"), Err(Errno::ENOENT));
        assert_eq!(tree.lookup(b, b"g").unwrap().node, file);
        let link = tree.make(ROOT, b"l", Made::Link(b"b/g".to_vec()), BY).unwrap().node;
        assert_eq!(tree.leads_to(link), Ok(&b"b/g"[..]));
        assert_eq!(tree.make(ROOT, &[b'x'; 256], FILE, BY), Err(Errno::ENAMETOOLONG));
    }

    #[test]
    fn there_are_no_more_links_than_files_that_there_could_be() {
        let mut tree = Tree::new(4 * PAGE_BYTES, Nanos(0));
        let file = tree.make(ROOT, b"f", FILE, BY).unwrap().node;
        let mut link = |number: u8| tree.link(file, ROOT, &[number], Nanos(1)).map(|look| look.links);
        assert_eq!((0..4).map(&mut link).collect::<Vec<_>>(), [Ok(2), Ok(3), Ok(4), Err(Errno::ENOSPC)]);
        tree.unlink(ROOT, &[0], false, Nanos(2)).unwrap();
        assert_eq!(tree.link(file, ROOT, &[9], Nanos(3)).map(|look| look.links), Ok(4));
    }

    #[derive(Clone, Debug)]
    enum Act {
        Write(usize, u64, Vec<u8>),
        Cut(usize, u64),
        Remove(usize),
        Reserve(usize, u64, u64),
    }

    fn acts() -> impl Strategy<Value = Vec<Act>> {
        let act = prop_oneof![
            4 => (0..3usize, 0..40_000u64, proptest::collection::vec(1u8.., 1..9000)).prop_map(|(file, at, octets)| Act::Write(file, at, octets)),
            2 => (0..3usize, 0..40_000u64).prop_map(|(file, size)| Act::Cut(file, size)),
            1 => (0..3usize).prop_map(Act::Remove),
            1 => (0..3usize, 0..40_000u64, 1..9000u64).prop_map(|(file, at, bytes)| Act::Reserve(file, at, bytes)),
        ];
        proptest::collection::vec(act, 1..60)
    }

    proptest! {
        /// Three files on a disk that is too small for them, beside three plain vectors.
        #[test]
        fn files_hold_what_was_written(acts in acts()) {
            let mut played = Played::new(20);
            let mut files: Vec<(u64, Vec<u8>)> = (0..3).map(|file| (played.make(&file.to_string()), Vec::new())).collect();
            for act in acts {
                match act {
                    Act::Write(file, at, octets) => {
                        let (id, held) = &mut files[file];
                        match played.write(*id, at, &octets) {
                            Ok(count) => {
                                let end = at as usize + count;
                                held.resize(held.len().max(end), 0);
                                held[at as usize..end].copy_from_slice(&octets[..count]);
                            }
                            Err(error) => prop_assert_eq!((error, played.free()), (Errno::ENOSPC, 0)),
                        }
                    }
                    Act::Cut(file, size) => {
                        let (id, held) = &mut files[file];
                        played.tree.change(*id, Change { size: Some(size), ..Change::default() }, Nanos(1)).unwrap();
                        held.resize(size as usize, 0);
                    }
                    Act::Remove(file) => {
                        let name = file.to_string();
                        played.tree.unlink(ROOT, name.as_bytes(), false, Nanos(1)).unwrap();
                        played.tree.forget(files[file].0, 1);
                        files[file] = (played.make(&name), Vec::new());
                    }
                    Act::Reserve(file, at, bytes) => {
                        let (id, held) = &mut files[file];
                        if played.tree.reserve(*id, (at, bytes), true, Nanos(1)).is_ok() {
                            held.resize(held.len().max((at + bytes) as usize), 0);
                        }
                    }
                }
                for (id, held) in &files {
                    prop_assert_eq!(&played.read(*id, 0, 1 << 20), held);
                }
                let used: usize = files.iter().map(|(id, _)| played.tree.look(*id).unwrap().blocks as usize / 8).sum();
                prop_assert_eq!(played.free(), 20 - used as u64);
            }
        }
    }
}
