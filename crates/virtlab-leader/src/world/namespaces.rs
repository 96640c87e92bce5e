//! The namespaces of the private world: each known by name, held by descriptor, with one netlink socket opened inside.
//!
//! Indexes of interfaces are chosen here, so no operation needs a look-up. The leader has one thread, and `setns` moves
//! that thread: [`World::stand_in`] remembers where it stands.

use crate::kernel::encode;
use crate::kernel::links::links;
use crate::kernel::netlink::Socket;
use crate::world::folder::Folder;
use crate::world::operation::Users;
use crate::world::owned;
use crate::world::values::Values;
use anyhow::{Context, anyhow};
use nix::errno::Errno;
use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::stat::fstat;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

/// What the leader knows of an interface that it made.
#[derive(Clone, Debug)]
pub struct Interface {
    pub index: i32,
    pub up: bool,
    pub mtu_bytes: Option<u32>,
    pub mac: Option<[u8; 6]>,
    pub master: Option<i32>,
}

/// One network namespace.
#[derive(Debug)]
pub struct Namespace {
    fd: OwnedFd,
    /// Opened inside; every request about this namespace goes through it.
    pub netlink: Socket,
    /// By name.
    pub links: BTreeMap<String, Interface>,
    /// Values under /proc/sys that were set here.
    pub sysctls: BTreeSet<String>,
    /// Open taps: an interface ends with the last descriptor of it.
    pub taps: BTreeMap<String, OwnedFd>,
    /// The disk of its guest, where that is a folder.
    pub disk: Option<Folder>,
    next_index: i32,
}

impl Namespace {
    /// The next free interface index.
    pub fn take_index(&mut self) -> i32 {
        self.next_index += 1;
        self.next_index
    }

    /// One more descriptor of it, for a thread that stays in it.
    ///
    /// # Errors
    /// When there are no descriptors left.
    pub fn share(&self) -> anyhow::Result<OwnedFd> {
        self.fd.try_clone().context("cannot duplicate a descriptor")
    }

    /// The descriptor that keeps the namespace.
    pub fn raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

/// All namespaces, and where the leader's thread stands.
#[derive(Debug)]
pub struct World {
    home: OwnedFd,
    standing: Option<String>,
    values: Values,
    namespaces: BTreeMap<String, Namespace>,
}

/// Moves the calling thread into a network namespace. A leader inside a container may not move, and need not: it
/// has one.
///
/// # Errors
/// When the kernel refuses and the thread is not there already.
pub fn enter(network: BorrowedFd<'_>) -> anyhow::Result<()> {
    match setns(network, CloneFlags::CLONE_NEWNET) {
        Err(Errno::EPERM) if fstat(network)?.st_ino == fstat(own_network()?)?.st_ino => Ok(()),
        other => Ok(other?),
    }
}

fn own_network() -> anyhow::Result<OwnedFd> {
    Ok(File::open("/proc/thread-self/ns/net").context("cannot open the own network namespace")?.into())
}

impl World {
    /// An empty world; the leader is in its own network namespace.
    ///
    /// # Errors
    /// When /proc is not readable.
    pub fn new() -> anyhow::Result<Self> {
        Ok(Self {
            home: own_network()?,
            standing: None,
            values: Values::default(),
            namespaces: BTreeMap::new(),
        })
    }

    /// A namespace by name.
    ///
    /// # Errors
    /// If the name is unknown.
    pub fn namespace(&mut self, name: &str) -> anyhow::Result<&mut Namespace> {
        self.namespaces.get_mut(name).ok_or_else(|| anyhow!("there is no namespace '{name}'"))
    }

    /// An interface by namespace and name.
    ///
    /// # Errors
    /// If the name is unknown.
    pub fn interface(&mut self, namespace: &str, link: &str) -> anyhow::Result<&mut Interface> {
        self.namespace(namespace)?
            .links
            .get_mut(link)
            .ok_or_else(|| anyhow!("there is no interface '{link}' in namespace '{namespace}'"))
    }

    /// A duplicate of an open tap.
    ///
    /// # Errors
    /// If the name is unknown.
    pub fn tap(&mut self, namespace: &str, link: &str) -> anyhow::Result<OwnedFd> {
        let tap = self.namespace(namespace)?.taps.get(link);
        let tap = tap.with_context(|| format!("there is no tap '{link}' in namespace '{namespace}'"))?;
        tap.try_clone().context("cannot duplicate a descriptor")
    }

    /// The user namespace that a network belongs to.
    ///
    /// # Errors
    /// If the name is unknown, or the kernel does not tell.
    pub fn users_of(&mut self, namespace: &str) -> anyhow::Result<OwnedFd> {
        owned::users_of(self.namespace(namespace)?.fd.as_fd())
    }

    /// Names of all namespaces.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.namespaces.keys().map(String::as_str)
    }

    /// Makes a namespace and enters it; with `users`, one that a user namespace of its own has, with a disk of that
    /// size.
    ///
    /// # Errors
    /// When the name is taken or the kernel refuses.
    pub fn create(
        &mut self,
        name: &str,
        users: Option<Users>,
        disk_bytes: Option<u64>,
    ) -> anyhow::Result<()> {
        if self.namespaces.contains_key(name) {
            return Err(anyhow!("there is already a namespace '{name}'"));
        }
        let made = users.map(owned::network).transpose()?;
        let disk = disk_bytes.map(Folder::new).transpose()?;
        // A name of none while the thread stands where no entry exists yet.
        self.standing = Some(String::new());
        let fd = match made {
            Some(network) => {
                enter(network.as_fd()).context("cannot enter the network of a user namespace")?;
                network
            }
            None => {
                unshare(CloneFlags::CLONE_NEWNET).context("cannot make a network namespace")?;
                own_network()?
            }
        };
        let loopback = Interface { index: 1, up: false, mtu_bytes: None, mac: None, master: None };
        let namespace = Namespace {
            fd,
            netlink: Socket::open()?,
            links: BTreeMap::from([("lo".to_owned(), loopback)]),
            sysctls: BTreeSet::new(),
            taps: BTreeMap::new(),
            disk,
            next_index: 1,
        };
        self.namespaces.insert(name.to_owned(), namespace);
        self.standing = Some(name.to_owned());
        Ok(())
    }

    /// Gives the network that the leader was born in a name, and enters the interfaces that are there into the books.
    ///
    /// # Errors
    /// When the name is taken or the kernel does not list them.
    pub fn name_home(&mut self, name: &str) -> anyhow::Result<()> {
        if self.namespaces.contains_key(name) {
            return Err(anyhow!("there is already a namespace '{name}'"));
        }
        self.go_home()?;
        let namespace = Namespace {
            fd: self.home.try_clone().context("cannot duplicate a descriptor")?,
            netlink: Socket::open()?,
            links: BTreeMap::new(),
            sysctls: BTreeSet::new(),
            taps: BTreeMap::new(),
            disk: Folder::here(),
            next_index: 0,
        };
        self.namespaces.insert(name.to_owned(), namespace);
        self.learn(name)
    }

    /// Brings the books up to what the kernel lists, where somebody else brings interfaces into a namespace and
    /// takes them away: a hypervisor its ends of its guests' ports.
    ///
    /// # Errors
    /// When there is no such namespace or the kernel does not list them.
    pub fn learn(&mut self, name: &str) -> anyhow::Result<()> {
        let namespace = self.namespace(name)?;
        let found = links(&mut namespace.netlink)?;
        let listed: BTreeSet<i32> = found.iter().map(|link| link.index).collect();
        namespace.links.retain(|_, link| listed.contains(&link.index));
        let known: BTreeSet<i32> = namespace.links.values().map(|link| link.index).collect();
        for link in found {
            namespace.next_index = namespace.next_index.max(link.index);
            if known.contains(&link.index) {
                continue;
            }
            let learnt = Interface {
                index: link.index,
                up: link.up,
                mtu_bytes: Some(link.mtu_bytes),
                mac: encode::parse_mac(&link.mac).ok(),
                master: None,
            };
            namespace.links.insert(link.name, learnt);
        }
        Ok(())
    }

    /// Lets go of a namespace; it ends with its last process and descriptor.
    pub fn forget(&mut self, name: &str) -> anyhow::Result<()> {
        self.go_home()?;
        self.values.forget();
        self.namespaces.remove(name);
        Ok(())
    }

    /// Moves the thread into a namespace.
    ///
    /// # Errors
    /// If the name is unknown.
    pub fn stand_in(&mut self, name: &str) -> anyhow::Result<()> {
        if self.standing.as_deref() != Some(name) {
            let namespace =
                self.namespaces.get(name).ok_or_else(|| anyhow!("there is no namespace '{name}'"))?;
            enter(namespace.fd.as_fd()).with_context(|| format!("cannot enter namespace '{name}'"))?;
            self.standing = Some(name.to_owned());
        }
        Ok(())
    }

    /// A directory below `/proc/sys` as a namespace sees it, `net/ipv4`.
    ///
    /// # Errors
    /// When there is no such namespace or directory.
    pub fn sysctl_directory(&mut self, namespace: &str, path: &str) -> anyhow::Result<BorrowedFd<'_>> {
        self.stand_in(namespace)?;
        self.values.directory(namespace, path)
    }

    /// Moves the thread back to where it began.
    ///
    /// # Errors
    /// When the kernel refuses, which it does not to a leader that has its capabilities.
    pub fn go_home(&mut self) -> anyhow::Result<()> {
        if self.standing.is_some() {
            enter(self.home.as_fd()).context("cannot return to the own network namespace")?;
            self.standing = None;
        }
        Ok(())
    }

    /// The interfaces as they are known now, to return to when a batch fails.
    pub fn remember(&self) -> BTreeMap<String, (BTreeMap<String, Interface>, i32)> {
        self.namespaces
            .iter()
            .map(|(name, space)| (name.clone(), (space.links.clone(), space.next_index)))
            .collect()
    }

    /// Returns to remembered interfaces.
    pub fn recall(&mut self, remembered: BTreeMap<String, (BTreeMap<String, Interface>, i32)>) {
        for (name, (links, next_index)) in remembered {
            if let Some(namespace) = self.namespaces.get_mut(&name) {
                namespace.links = links;
                namespace.next_index = next_index;
            }
        }
    }
}
