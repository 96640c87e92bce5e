//! What a node keeps: the content of its objects, in memory or as files.
//!
//! A file holds one object: what it is, then its content. It is written beside, flushed, and renamed to its key, so
//! that what has that name is whole. One thread does so, in the order of requests, as the model's disk does one after
//! another.

use super::super::content::is_content;
use super::codec::{self, Content};
use anyhow::{Context, bail};
use nix::sys::eventfd::{EfdFlags, EventFd};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use virtlab_disk::Kind;
use virtlab_store::{Key, Object, Version};

/// Something that the node wants of its disk.
pub struct Wanted {
    /// Its number.
    pub id: u64,
    /// What is done.
    pub kind: Kind,
    /// With which object.
    pub key: Key,
    /// And with which version of it.
    pub version: Version,
}

/// What the disk has done, with what was read.
pub struct Done {
    /// What was wanted.
    pub wanted: Wanted,
    /// Of a read: absent where another version is there.
    pub content: Option<Content>,
}

/// Of a write, with the object and its content.
type Job = (Wanted, Option<Object>, Option<Content>);

/// Where it is kept.
enum Medium {
    /// By key, what was flushed last; the rest of memory is `Shelf::held`.
    Memory {
        latest: BTreeMap<Key, Version>,
        done: Vec<Done>,
    },
    Files {
        folder: PathBuf,
        jobs: Sender<Job>,
        done: Receiver<anyhow::Result<Done>>,
        ready: Arc<EventFd>,
    },
}

/// Of a node.
pub struct Shelf {
    medium: Medium,
    /// Content that is not in a file.
    held: BTreeMap<(Key, Version), Content>,
    /// Requests that are under way.
    under_way: usize,
}

impl Shelf {
    /// Of files, where a folder is named; `newest`: what of each key is there already.
    ///
    /// # Errors
    /// When the folder cannot be made.
    pub fn new(folder: Option<&Path>, newest: BTreeMap<Key, Version>) -> anyhow::Result<Self> {
        let medium = match folder {
            None => Medium::Memory { latest: BTreeMap::new(), done: Vec::new() },
            Some(folder) => {
                if newest.is_empty() {
                    fs::create_dir_all(folder)
                        .with_context(|| format!("cannot make {}", folder.display()))?;
                }
                let (jobs, wanted) = channel::<Job>();
                let (finished, done) = channel();
                let ready = Arc::new(
                    EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK)
                        .context("cannot make an event descriptor")?,
                );
                let mut writer = Writer { folder: folder.to_owned(), open: BTreeMap::new(), newest };
                let told = ready.clone();
                std::thread::spawn(move || {
                    for (wanted, object, content) in wanted {
                        if finished.send(writer.work(wanted, object.as_ref(), content)).is_err()
                            || told.write(1).is_err()
                        {
                            return;
                        }
                    }
                });
                Medium::Files { folder: folder.to_owned(), jobs, done, ready }
            }
        };
        Ok(Self { medium, held: BTreeMap::new(), under_way: 0 })
    }

    /// Readable when something is done.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.medium {
            Medium::Memory { .. } => None,
            Medium::Files { ready, .. } => Some(ready.as_fd()),
        }
    }

    /// The content of a version of a key, if it is in memory.
    pub fn held(&self, named: (Key, Version)) -> Option<&Content> {
        self.held.get(&named)
    }

    /// Begins what the node wants; of a write, with the object and its content.
    pub fn begin(&mut self, wanted: Wanted, object: Option<Object>, content: Option<Content>) {
        if let (Kind::Write, Some(content)) = (wanted.kind, &content) {
            self.held.insert((wanted.key, wanted.version), content.clone());
        }
        self.under_way += 1;
        match &mut self.medium {
            Medium::Memory { latest, done } => {
                if wanted.kind == Kind::Flush {
                    let before = latest.get(&wanted.key).copied().filter(|before| *before != wanted.version);
                    if before.is_some_and(|before| before > wanted.version) {
                        self.held.remove(&(wanted.key, wanted.version));
                    } else {
                        latest.insert(wanted.key, wanted.version);
                        before.map(|before| self.held.remove(&(wanted.key, before)));
                    }
                }
                done.push(Done { wanted, content: None });
            }
            // Where its thread has ended, `done` says why.
            Medium::Files { jobs, .. } => drop(jobs.send((wanted, object, content))),
        }
    }

    /// What is done by now.
    ///
    /// # Errors
    /// When the disk took or gave something not.
    pub fn done(&mut self) -> anyhow::Result<Option<Done>> {
        if self.under_way == 0 {
            return Ok(None);
        }
        let done = match &mut self.medium {
            Medium::Memory { done, .. } => {
                if done.is_empty() {
                    None
                } else {
                    Some(done.remove(0))
                }
            }
            Medium::Files { done, ready, .. } => match done.try_recv() {
                Ok(done) => Some(done?),
                Err(std::sync::mpsc::TryRecvError::Empty) => None,
                Err(std::sync::mpsc::TryRecvError::Disconnected) => bail!("the disk's thread has ended"),
            }
            .inspect(|_| {
                // Nothing to read: that of another was read with it.
                let _ = ready.read();
            }),
        };
        if let Some(done) = &done {
            self.under_way -= 1;
            if matches!((&self.medium, done.wanted.kind), (Medium::Files { .. }, Kind::Flush)) {
                self.held.remove(&(done.wanted.key, done.wanted.version));
            }
        }
        Ok(done)
    }

    /// Whether what is kept of an object is what it says that it is.
    pub fn is_good(&self, key: Key, object: &Object) -> bool {
        let good = |content: &Content| {
            content.octets().len() as u64 == object.bytes && is_content(key, object.content, content.octets())
        };
        match (self.held.get(&(key, object.version)), &self.medium) {
            (Some(content), _) => good(content),
            (None, Medium::Memory { .. }) => object.bytes == 0,
            (None, Medium::Files { folder, .. }) => match read(folder, key) {
                Ok(Some((kept, content))) => kept.version == object.version && good(&content),
                _ => false,
            },
        }
    }
}

/// The objects that a node that ended has left in its folder. What was not flushed is removed: it was never confirmed.
/// So is all that is there, if it is `wiped`.
///
/// # Errors
/// When the folder cannot be read.
pub fn left(folder: &Path, wiped: bool) -> anyhow::Result<Vec<(Key, Object)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry.context("cannot read a folder of objects")?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        match u64::from_str_radix(name, 16) {
            Ok(key) if !wiped => found.extend(read(folder, Key(key))?.map(|(object, _)| (Key(key), object))),
            _ => fs::remove_file(&path).context("cannot remove an object")?,
        }
    }
    Ok(found)
}

/// At work on files.
struct Writer {
    folder: PathBuf,
    open: BTreeMap<(Key, Version), (File, PathBuf)>,
    /// Of each key, what its file holds.
    newest: BTreeMap<Key, Version>,
}

fn place(folder: &Path, key: Key) -> PathBuf {
    folder.join(format!("{:016x}", key.0))
}

impl Writer {
    fn work(
        &mut self,
        wanted: Wanted,
        object: Option<&Object>,
        content: Option<Content>,
    ) -> anyhow::Result<Done> {
        let Wanted { id, kind, key, version } = wanted;
        let mut found = None;
        match kind {
            Kind::Write => {
                let path = self.folder.join(format!("{:016x}.{id}", key.0));
                let mut file = File::create_new(&path).context("cannot make a file for an object")?;
                let mut octets = Vec::with_capacity(codec::record_bytes());
                codec::record(object.context("an object came without its record")?, &mut octets);
                octets.extend_from_slice(content.as_ref().map_or(&[][..], Content::octets));
                file.write_all(&octets).context("cannot write an object")?;
                self.open.insert((key, version), (file, path));
            }
            Kind::Flush => {
                if let Some((file, path)) = self.open.remove(&(key, version)) {
                    file.sync_all().context("cannot flush an object")?;
                    if self.newest.get(&key).is_some_and(|newest| *newest > version) {
                        fs::remove_file(&path).context("cannot remove an older object")?;
                    } else {
                        fs::rename(&path, place(&self.folder, key)).context("cannot name an object")?;
                        File::open(&self.folder)
                            .and_then(|folder| folder.sync_all())
                            .context("cannot flush the folder")?;
                        self.newest.insert(key, version);
                    }
                }
            }
            Kind::Read => {
                let kept = read(&self.folder, key)?;
                found = kept.filter(|(kept, _)| kept.version == version).map(|(_, content)| content);
            }
        }
        Ok(Done { wanted: Wanted { id, kind, key, version }, content: found })
    }
}

/// What the file of a key holds, if there is one.
fn read(folder: &Path, key: Key) -> anyhow::Result<Option<(Object, Content)>> {
    let mut file = match File::open(place(folder, key)) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(error).context("cannot open an object"),
    };
    let mut octets = Vec::new();
    file.read_to_end(&mut octets).context("cannot read an object")?;
    let object = codec::read_record(&octets).context("a file of an object is too short")?;
    Ok(Some((object, Content::after_record(octets))))
}
