//! A command of an experiment file in a guest that shares the machine's files: it changes nothing of the machine.
//!
//! Such a guest has a network of its own and no root file system. Its commands get a mount namespace in which
//! everything is read-only, nothing is a device but a few harmless ones, and the folders where people and programs
//! keep what is theirs are empty; a PID namespace, from which no process of the world can be seen or signalled;
//! NET_ADMIN and NET_RAW of all capabilities, and no way to more. `/proc/sys/net` alone can be written: it is the
//! guest's own network.
//!
//! Three processes: the one that the leader knows waits for a word of how the command ended, and ends alike; the first
//! process of the PID namespace collects orphans there, and hands the command what signals ask it to end; the command
//! itself. What the command leaves running runs until the world ends, as anywhere. When the first is killed, all of
//! them are.

use crate::processes::keyring;
use crate::processes::user::{User, writable_processes};
use crate::world::folder::FOLDER;
use anyhow::{Context, bail};
use nix::errno::Errno;
use nix::fcntl::OFlag;
use nix::mount::{MsFlags, mount};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, kill, sigprocmask};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::sys::wait::waitpid;
use nix::unistd::{self, ForkResult, Gid, Pid, fork};
use std::ffi::CString;
use std::fs::{self, DirBuilder, File, Permissions};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink};
use std::path::Path;

/// Folders of people and of running programs, empty for a command; the mode each has.
const EMPTY: [(&str, u32); 5] =
    [("/home", 0o755), ("/root", 0o755), ("/run", 0o755), ("/tmp", 0o1777), ("/var/tmp", 0o1777)];
/// Folders of the system. The folder where virtlab was started is emptied too, unless it is, holds or lies in one of
/// these (where it holds one of `EMPTY`, that one is empty).
const SYSTEM: [&str; 10] =
    ["/bin", "/dev", "/etc", "/lib", "/lib64", "/opt", "/proc", "/sbin", "/sys", "/usr"];
/// Where a command begins.
const WORKING_FOLDER: &str = "/tmp";
const EMPTY_OPTIONS: &str = "size=256m,nr_inodes=65536";
const DEVICES: [&str; 7] = ["null", "zero", "full", "random", "urandom", "tty", "net/tun"];
const DEVICE_LINKS: [(&str, &str); 4] = [
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
];

const NET_ADMIN: u32 = 12;
const NET_RAW: u32 = 13;
const CAPABILITIES: u32 = 1 << NET_ADMIN | 1 << NET_RAW;

// linux/mount.h and linux/capability.h
const RDONLY: u64 = 1;
const NOSUID: u64 = 2;
const NODEV: u64 = 4;
const AT_RECURSIVE: libc::c_uint = 0x8000;
const CAPABILITY_VERSION_3: u32 = 0x2008_0522;

#[repr(C)]
struct Attributes {
    set: u64,
    clear: u64,
    propagation: u64,
    user_namespace: u64,
}

/// Turns the calling child of the leader into one that waits for a confined command, and returns in the command.
///
/// Descriptors above `last`, but for `report`, are closed in all of them; the report's number in the command is
/// returned. With `disk`, what it writes to its guest's disk stays there.
///
/// # Errors
/// When the kernel has no such namespaces for it. What fails later is reported from there: then nothing is executed.
pub fn confine(last: RawFd, report: &OwnedFd, user: Option<User>, disk: bool) -> anyhow::Result<RawFd> {
    // The leader's signals reach this process and the first of the namespace, which are of one group.
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&ending_signals()), None)
        .context("cannot hold signals back")?;
    let (ended, end) = unistd::pipe2(OFlag::O_CLOEXEC).context("no pipe")?;
    let flags = libc::CLONE_NEWPID | libc::CLONE_NEWNS | libc::CLONE_NEWIPC | libc::SIGCHLD;
    // SAFETY: as fork; this process has one thread, and asks for no stack, thread-local storage or identifiers.
    let child = unsafe { libc::syscall(libc::SYS_clone, libc::c_long::from(flags), 0, 0, 0, 0) };
    if Errno::result(child).context("no namespaces for its mounts and processes")? != 0 {
        drop(end);
        wait_for(&ended)
    }
    keep_only(last, &[report.as_raw_fd(), end.as_raw_fd()])?;
    let (report, end) = (last + 1, last + 2);
    // From here on the numbers above are others' or no one's, so nothing that owns one of them may be dropped.
    match first_of_namespace(user, disk) {
        Ok(ForkResult::Child) => Ok(report),
        Ok(ForkResult::Parent { child }) => gone(collect(child, report, end)),
        Err(error) => {
            let text = format!("a command cannot be confined here: {error:#}");
            // SAFETY: keep_only placed the report there.
            let _ = unistd::write(unsafe { BorrowedFd::borrow_raw(report) }, text.as_bytes());
            gone(127)
        }
    }
}

/// Signals that ask a command to end, which it may do in its own time.
fn ending_signals() -> SigSet {
    [Signal::SIGTERM, Signal::SIGINT].into_iter().collect()
}

/// Ends at once, without the exit handlers of the leader that the process was forked from.
fn gone(code: i32) -> ! {
    // SAFETY: _exit takes a number.
    unsafe { libc::_exit(code) }
}

/// Prepares what the command sees and may do, and forks it.
fn first_of_namespace(user: Option<User>, disk: bool) -> anyhow::Result<ForkResult> {
    let processes = user.map(|_| writable_processes()).transpose()?;
    mounts(disk)?;
    rights(user.zip(processes.as_ref()))?;
    drop(processes);
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&news()), None).context("cannot hold signals back")?;
    // SAFETY: this process has one thread.
    let forked = unsafe { fork() }.context("cannot fork")?;
    if matches!(forked, ForkResult::Child) {
        sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)
            .context("cannot clear the mask")?;
        unistd::setsid().context("cannot begin a session")?;
    }
    Ok(forked)
}

/// What the first process of the namespace hears of.
fn news() -> SigSet {
    let mut signals = ending_signals();
    signals.add(Signal::SIGCHLD);
    signals
}

/// Closes all above `last` but these, which follow it in their order.
fn keep_only(last: RawFd, wanted: &[RawFd]) -> anyhow::Result<()> {
    let above = last + 1 + RawFd::try_from(wanted.len())?;
    let mut moved = Vec::new();
    for fd in wanted {
        // SAFETY: duplicating a descriptor of this process.
        let copy = unsafe { libc::fcntl(*fd, libc::F_DUPFD_CLOEXEC, above) };
        moved.push(Errno::result(copy).context("cannot duplicate a descriptor")?);
    }
    for (to, from) in (last + 1..).zip(&moved) {
        // SAFETY: dup3 replaces descriptors of this process, which the leader's books of it no longer use.
        Errno::result(unsafe { libc::dup3(*from, to, libc::O_CLOEXEC) })
            .context("cannot place a descriptor")?;
    }
    close_from(above)
}

fn close_from(first: RawFd) -> anyhow::Result<()> {
    // SAFETY: what is closed is not used in this process from here on: it ends by _exit or exec.
    let code = unsafe { libc::syscall(libc::SYS_close_range, first as libc::c_uint, libc::c_uint::MAX, 0) };
    Errno::result(code).context("cannot close the leader's descriptors (Linux 5.9 and later can)")?;
    Ok(())
}

/// Ends as the command did, once its namespace says how; stands still while the command does, which the leader sees.
fn wait_for(ended: &OwnedFd) -> ! {
    let Ok(()) = keep_only(-1, &[ended.as_raw_fd()]) else { gone(127) };
    let mut status = [0; 4];
    // SAFETY: keep_only placed the pipe there.
    let pipe = unsafe { BorrowedFd::borrow_raw(0) };
    let heard = loop {
        match unistd::read(pipe, &mut status) {
            Err(Errno::EINTR) => {}
            Ok(4) if libc::WIFSTOPPED(i32::from_ne_bytes(status)) => stand_still(pipe),
            Ok(4) if libc::WIFCONTINUED(i32::from_ne_bytes(status)) => {}
            heard => break heard,
        }
    };
    if heard != Ok(status.len()) {
        gone(127); // confining failed, which was reported
    }
    let status = i32::from_ne_bytes(status);
    if libc::WIFSIGNALED(status)
        && let Ok(signal) = Signal::try_from(libc::WTERMSIG(status))
    {
        let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
        // SAFETY: the default action installs no handler.
        let _ = unsafe { nix::sys::signal::signal(signal, SigHandler::SigDfl) };
        let _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None);
        let _ = kill(unistd::getpid(), signal);
    }
    gone(libc::WEXITSTATUS(status))
}

/// Stops this process until there is more to hear. A child stops it and lets it continue, since a stopped process
/// cannot do the latter.
fn stand_still(pipe: BorrowedFd<'_>) {
    let own = unistd::getpid();
    // SAFETY: this process has one thread.
    match unsafe { fork() } {
        Ok(ForkResult::Child) => {
            let _ = prctl::set_pdeathsig(Signal::SIGKILL); // what it holds open is its parent's
            let _ = kill(own, Signal::SIGSTOP);
            let _ = poll(&mut [PollFd::new(pipe, PollFlags::POLLIN)], PollTimeout::NONE);
            let _ = kill(own, Signal::SIGCONT);
            gone(0)
        }
        Ok(ForkResult::Parent { child }) => {
            let _ = waitpid(child, None);
        }
        Err(_) => {}
    }
}

/// The first process of the PID namespace: tells how the command ended, collects what it left, ends with the last.
fn collect(command: Pid, report: RawFd, end: RawFd) -> i32 {
    let _ = unistd::close(report);
    // What the command reads and writes is its own: its end must be seen.
    for fd in 0..report {
        let _ = unistd::close(fd);
    }
    let Ok(news) = SignalFd::with_flags(&news(), SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK) else {
        return 1;
    };
    // SAFETY: the descriptor was placed for this process, and is closed by no other.
    let mut teller = Some(unsafe { OwnedFd::from_raw_fd(end) });
    loop {
        // Signals first: one that ends the command at once is followed by SIGCHLD, which this may read as well.
        while let Ok(Some(heard)) = news.read_signal() {
            let signal = i32::try_from(heard.ssi_signo).ok().and_then(|number| Signal::try_from(number).ok());
            if let (Some(signal), true) = (signal, teller.is_some())
                && signal != Signal::SIGCHLD
            {
                let _ = kill(Pid::from_raw(-command.as_raw()), signal); // it leads a session of its own
            }
        }
        loop {
            let mut status = 0;
            let changes = libc::WNOHANG | libc::WUNTRACED | libc::WCONTINUED;
            // SAFETY: the status lives during the call.
            match unsafe { libc::waitpid(-1, &raw mut status, changes) } {
                0 => break,
                -1 if Errno::last() == Errno::EINTR => {}
                -1 => return 0, // no child is left
                pid if pid != command.as_raw() => {}
                _ if libc::WIFSTOPPED(status) || libc::WIFCONTINUED(status) => {
                    if let Some(teller) = &teller {
                        let _ = unistd::write(teller, &status.to_ne_bytes());
                    }
                }
                _ => {
                    if let Some(teller) = teller.take() {
                        let _ = unistd::write(&teller, &status.to_ne_bytes());
                    }
                }
            }
        }
        let mut polled = vec![PollFd::new(news.as_fd(), PollFlags::POLLIN)];
        polled.extend(teller.as_ref().map(|teller| PollFd::new(teller.as_fd(), PollFlags::empty())));
        let _ = poll(&mut polled, PollTimeout::NONE);
        // The process that waited for the command was killed; the kernel ends all that is in the namespace with its
        // first process.
        if polled.get(1).and_then(PollFd::revents).is_some_and(|events| events.contains(PollFlags::POLLERR)) {
            return 1;
        }
    }
}

/// The file system that the command sees.
fn mounts(disk: bool) -> anyhow::Result<()> {
    attributes("/", AT_RECURSIVE, RDONLY | NOSUID | NODEV, 0)
        .context("the machine's files cannot be made read-only for it (Linux 5.12 and later can)")?;
    devices().context("no devices of its own")?;
    let home = std::env::var_os("HOME").unwrap_or_default();
    let home = Path::new(&home);
    for (folder, mode) in EMPTY {
        if disk && folder == FOLDER {
            attributes(folder, 0, 0, RDONLY).context("the guest's disk cannot be written to")?;
            continue;
        }
        let folder = Path::new(folder);
        if folder.is_dir() {
            empty(folder, mode)?;
        }
    }
    let listed = EMPTY.iter().any(|(folder, _)| home == Path::new(folder));
    if home.is_absolute() && home != Path::new("/") && !listed {
        if home.is_dir() {
            empty(home, 0o755)?;
        } else {
            // Within an empty folder it can be made; a home that there never was stays away.
            let _ = DirBuilder::new().recursive(true).mode(0o755).create(home);
        }
    }
    let started = std::env::var_os("PWD").unwrap_or_default();
    let started = Path::new(&started);
    if started.is_absolute() && started.is_dir() && !of_system(started) {
        empty(started, 0o755)?;
    }
    processes()?;
    // One of its own shows the guest's interfaces and no control groups. Where the kernel gives none, the machine's
    // is read-only.
    let safe = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    if mount(Some("sysfs"), "/sys", Some("sysfs"), safe, None::<&str>).is_ok() {
        attributes("/sys", 0, RDONLY, 0).context("/sys cannot be made read-only")?;
    }
    unistd::chdir(WORKING_FOLDER).context("no working folder")?;
    Ok(())
}

/// Whether a folder is, holds or lies in one without which programs do not run.
fn of_system(folder: &Path) -> bool {
    let emptied = EMPTY.iter().map(|(listed, _)| listed);
    SYSTEM.iter().any(|listed| folder.starts_with(listed))
        || SYSTEM.iter().chain(emptied).any(|listed| Path::new(listed).starts_with(folder))
}

fn processes() -> anyhow::Result<()> {
    let safe = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    // Refused to an ordinary user where the machine's own /proc is partly hidden; that one is read-only then.
    let own = mount(Some("proc"), "/proc", Some("proc"), safe, None::<&str>).is_ok();
    let network = "/proc/sys/net";
    if own && Path::new(network).is_dir() {
        bind(network, network).context("cannot keep the guest's network settings")?;
    }
    if own { attributes("/proc", 0, RDONLY, 0).context("/proc cannot be made read-only") } else { Ok(()) }
}

fn empty(folder: &Path, mode: u32) -> anyhow::Result<()> {
    let safe = MsFlags::MS_NOSUID | MsFlags::MS_NODEV;
    let options = format!("mode={mode:o},{EMPTY_OPTIONS}");
    mount(Some("tmpfs"), folder, Some("tmpfs"), safe, Some(options.as_str()))
        .with_context(|| format!("no empty {}", folder.display()))
}

/// A `/dev` of what every program may need. Read-only mounts do not keep anybody from writing to a disk by its device.
fn devices() -> anyhow::Result<()> {
    let nodes: Vec<(&str, File)> = DEVICES.iter().filter_map(|name| Some((*name, node(name)?))).collect();
    empty(Path::new("/dev"), 0o755)?;
    for (name, node) in &nodes {
        let path = Path::new("/dev").join(name);
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder)?;
        }
        File::create(&path)?;
        let path = path.display().to_string();
        bind(&format!("/proc/self/fd/{}", node.as_raw_fd()), &path)?;
        attributes(&path, 0, 0, NODEV)?;
    }
    for (name, target) in DEVICE_LINKS {
        symlink(target, Path::new("/dev").join(name))?;
    }
    fs::create_dir("/dev/shm")?;
    fs::set_permissions("/dev/shm", Permissions::from_mode(0o1777))?;
    empty(Path::new("/dev/shm"), 0o1777)?;
    attributes("/dev", 0, RDONLY, 0)
}

fn node(name: &str) -> Option<File> {
    let path = Path::new("/dev").join(name);
    fs::OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_CLOEXEC).open(path).ok()
}

fn bind(from: &str, to: &str) -> anyhow::Result<()> {
    mount(Some(from), to, None::<&str>, MsFlags::MS_BIND, None::<&str>).with_context(|| format!("no {to}"))
}

/// Sets and clears attributes of the mount at a path, with `AT_RECURSIVE` of all below it, too.
fn attributes(path: &str, how: libc::c_uint, set: u64, clear: u64) -> anyhow::Result<()> {
    let name = CString::new(path)?;
    let wanted = Attributes { set, clear, propagation: 0, user_namespace: 0 };
    // SAFETY: path and attributes live during the call, and the size is that of the attributes.
    let code = unsafe {
        libc::syscall(
            libc::SYS_mount_setattr,
            libc::AT_FDCWD,
            name.as_ptr(),
            how,
            &raw const wanted,
            size_of::<Attributes>(),
        )
    };
    Errno::result(code).with_context(|| format!("mount attributes of {path}"))?;
    Ok(())
}

/// Lets go of all capabilities but two, and of the user's keys, for good.
fn rights(user: Option<(User, &OwnedFd)>) -> anyhow::Result<()> {
    // An ordinary user's namespace lets no group be dropped; it maps none but the user's own.
    let _ = unistd::setgroups(&[] as &[Gid]);
    let another = user.filter(|(user, _)| user.is_mapped());
    if let (Some((user, processes)), None) = (user, another) {
        user.rename_own(processes)?;
    }
    prctl::set_no_new_privs().context("cannot forbid new privileges")?;
    for capability in 0..64 {
        if capability == NET_ADMIN || capability == NET_RAW {
            continue;
        }
        // SAFETY: prctl takes numbers.
        match Errno::result(unsafe { libc::prctl(libc::PR_CAPBSET_DROP, capability, 0, 0, 0) }) {
            Ok(_) => {}
            Err(Errno::EINVAL) => break, // the kernel knows no more
            Err(error) => bail!("cannot drop capability {capability}: {error}"),
        }
    }
    if let Some((user, _)) = another {
        user.become_it()?;
    }
    prctl::set_dumpable(false).context("cannot hide its memory")?;
    let header = [CAPABILITY_VERSION_3, 0];
    // Effective, permitted, inheritable. Another user has none.
    let low = [if user.is_some() { 0 } else { CAPABILITIES }; 3];
    let sets = [low, [0; 3]];
    // SAFETY: both live during the call, and are laid out as version 3 of the interface says.
    Errno::result(unsafe { libc::syscall(libc::SYS_capset, header.as_ptr(), sets.as_ptr()) })
        .context("cannot let go of capabilities")?;
    keyring::forbid()
}
