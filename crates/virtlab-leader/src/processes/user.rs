//! The user that a command runs as, where it is not the leader's own.
//!
//! A leader that may, changes to that user. One of an ordinary user's world has one user alone, which it calls 0: there
//! the command gets a user namespace of its own, in which the same user is called otherwise. Both hold no capability.

use anyhow::{Context, bail};
use nix::errno::Errno;
use nix::fcntl::{OFlag, openat};
use nix::sched::{CloneFlags, unshare};
use nix::sys::stat::Mode;
use nix::unistd::{self, Gid, Uid};
use std::fs;
use std::os::fd::{FromRawFd, OwnedFd};

const USERS: &str = "/etc/passwd";

/// Numbers of a user and of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct User {
    uid: u32,
    gid: u32,
}

impl User {
    /// The one of that name or number, as the file system that the calling process sees lists it.
    ///
    /// # Errors
    /// When no user has this name.
    pub fn find(name: &str) -> anyhow::Result<Self> {
        let listed = fs::read_to_string(USERS).unwrap_or_default();
        match (Self::listed(&listed, name), name.parse()) {
            (Some(found), _) => Ok(found),
            (None, Ok(uid)) => Ok(Self { uid, gid: uid }),
            (None, Err(_)) => bail!("there is no user '{name}'"),
        }
    }

    fn listed(users: &str, name: &str) -> Option<Self> {
        users.lines().find_map(|line| {
            let mut words = line.split(':');
            let (own, _, uid, gid) = (words.next()?, words.next()?, words.next()?, words.next()?);
            (own == name || uid == name).then_some(Self { uid: uid.parse().ok()?, gid: gid.parse().ok()? })
        })
    }

    /// Whether the calling process has a name for this user, so that it may become it.
    #[must_use]
    pub fn is_mapped(&self) -> bool {
        let among = |path: &str, number: u32| {
            fs::read_to_string(path).unwrap_or_default().lines().any(|line| {
                let numbers: Vec<u64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
                matches!(numbers[..], [first, _, count] if (first..first + count).contains(&u64::from(number)))
            })
        };
        among("/proc/self/uid_map", self.uid) && among("/proc/self/gid_map", self.gid)
    }

    /// Becomes this user, for good.
    ///
    /// # Errors
    /// When the calling process may not.
    pub fn become_it(&self) -> anyhow::Result<()> {
        let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
        let _ = unistd::setgroups(&[] as &[Gid]); // what may not drop groups may hardly change users
        unistd::setresgid(gid, gid, gid)
            .and_then(|()| unistd::setresuid(uid, uid, uid))
            .with_context(|| format!("cannot become user {}", self.uid))
    }

    /// Calls the calling process's own user by this one's numbers, in a user namespace of its own. `processes`: a
    /// `/proc` that can be written.
    ///
    /// # Errors
    /// When the kernel lets an ordinary user have no such namespace.
    pub fn rename_own(&self, processes: &OwnedFd) -> anyhow::Result<()> {
        let (uid, gid) = (unistd::geteuid(), unistd::getegid());
        unshare(CloneFlags::CLONE_NEWUSER)
            .with_context(|| format!("cannot become user {}: no user namespace of its own", self.uid))?;
        for (file, text) in [
            ("self/setgroups", "deny".to_owned()),
            ("self/uid_map", format!("{} {uid} 1", self.uid)),
            ("self/gid_map", format!("{} {gid} 1", self.gid)),
        ] {
            let file = openat(processes, file, OFlag::O_WRONLY | OFlag::O_CLOEXEC, Mode::empty())
                .with_context(|| format!("cannot become user {}: no {file}", self.uid))?;
            unistd::write(&file, text.as_bytes())
                .with_context(|| format!("cannot become user {}: '{text}' is refused", self.uid))?;
        }
        Ok(())
    }
}

/// `/proc` as it is now, which stays writable whatever is mounted there later.
///
/// # Errors
/// When the kernel gives no such copy (Linux 5.2 and later do).
pub fn writable_processes() -> anyhow::Result<OwnedFd> {
    let how = libc::OPEN_TREE_CLONE | libc::OPEN_TREE_CLOEXEC | libc::AT_RECURSIVE as libc::c_uint;
    // SAFETY: the path lives during the call.
    let fd = unsafe { libc::syscall(libc::SYS_open_tree, libc::AT_FDCWD, c"/proc".as_ptr(), how) };
    let fd = Errno::result(fd).context("no copy of /proc")?;
    // SAFETY: open_tree just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(i32::try_from(fd)?) })
}

#[cfg(test)]
mod tests {
    use super::User;

    const USERS: &str = "root:x:0:0:root:/root:/bin/sh\npostgres:x:105:110::/var/lib/postgresql:/bin/sh\n";

    #[test]
    fn a_user_is_found_by_name_and_by_number() {
        let postgres = Some(User { uid: 105, gid: 110 });
        assert_eq!(User::listed(USERS, "postgres"), postgres);
        assert_eq!(User::listed(USERS, "105"), postgres);
        assert_eq!(User::listed(USERS, "post"), None);
    }

    #[test]
    fn a_number_that_no_user_has_is_a_user_all_the_same() {
        assert_eq!(User::find("4711").ok(), Some(User { uid: 4711, gid: 4711 }));
        assert!(User::find("no-such-user").is_err());
    }
}
