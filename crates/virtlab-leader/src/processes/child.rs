//! What runs inside the world: agents with a framed stream, commands with pipes or a terminal.

use crate::processes::confined;
use crate::processes::user::User;
use crate::streams::peer::{Peer, set_nonblocking};
use crate::world::folder::{self, Folder};
use crate::world::namespaces::{self, World};
use anyhow::{Context, bail};
use nix::errno::Errno;
use nix::pty::{Winsize, openpty};
use nix::sched::{CloneFlags, CpuSet, sched_setaffinity, unshare};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, sigprocmask};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::unistd::{self, ForkResult, Pid, fork};
use serde::Deserialize;
use std::collections::{BTreeMap, VecDeque};
use std::ffi::CString;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// Bytes of a child's errors that are kept for the report of its end.
const TAIL_BYTES: usize = 4096;

/// Size of a terminal.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Terminal {
    pub rows: u16,
    pub columns: u16,
}

/// Where and how a child runs.
#[derive(Clone, Debug, Default)]
pub struct Placement {
    pub namespace: String,
    /// The namespace whose network it has, under the name of the other; its own where absent.
    pub network: Option<String>,
    /// CPUs it may use; empty = all.
    pub cpus: Vec<usize>,
    /// SCHED_FIFO priority, where root gave one.
    pub fifo_priority: Option<i32>,
    /// `tasks` files of the control groups it joins.
    pub cgroups: Vec<String>,
    /// Whether it shares the machine's files and must not change them.
    pub confined: bool,
    /// Name or number of the user that it runs as; the leader's own where it is absent.
    pub user: Option<String>,
    /// Where it begins, unless it is confined; the leader's own folder where it is absent.
    pub folder: Option<String>,
    /// The host at which it is a machine of a guest that moves.
    pub host: Option<String>,
}

/// The streams of a child.
#[derive(Debug)]
pub enum Streams {
    /// An agent: frames.
    Agent(Peer),
    /// A command: raw input and output. A terminal is both.
    Command {
        input: Option<OwnedFd>,
        output: Option<OwnedFd>,
        waiting: VecDeque<u8>,
        input_ends: bool,
        terminal: bool,
    },
}

/// One child of the leader.
#[derive(Debug)]
pub struct Child {
    pub pid: Pid,
    pub namespace: String,
    /// The host at which it is a machine of a guest that moves.
    pub host: Option<String>,
    pub streams: Streams,
    /// Standard error, until it ends.
    pub errors: Option<OwnedFd>,
    tail: VecDeque<u8>,
    /// Code and signal, once it ended.
    pub ended: Option<(Option<i32>, Option<i32>)>,
}

impl Child {
    /// Starts this binary in a role.
    ///
    /// # Errors
    /// When the namespace is unknown or a process cannot be made.
    pub fn agent(
        world: &mut World,
        executable: &OwnedFd,
        role: &str,
        placement: &Placement,
    ) -> anyhow::Result<Self> {
        let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_CLOEXEC)
            .context("no socket pair")?;
        let (errors, their_errors) = unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).context("no pipe")?;
        let argv = ["virtlab-agent", role].map(|word| CString::new(word).expect("no NUL inside")).to_vec();
        let null =
            std::fs::OpenOptions::new().read(true).write(true).open("/dev/null").context("no /dev/null")?;
        let null: OwnedFd = null.into();
        let plan = Start {
            descriptors: vec![
                (null.as_raw_fd(), 0),
                (null.as_raw_fd(), 1),
                (their_errors.as_raw_fd(), 2),
                (theirs.as_raw_fd(), 3),
            ],
            executable: Executable::Descriptor(executable.as_raw_fd()),
            argv,
            environment: own_environment(&BTreeMap::new()),
            terminal: false,
        };
        let pid = start(world, placement, &plan)?;
        set_nonblocking(errors.as_fd())?;
        Ok(Self {
            pid,
            namespace: placement.namespace.clone(),
            host: None,
            streams: Streams::Agent(Peer::new(ours)?),
            errors: Some(errors),
            tail: VecDeque::new(),
            ended: None,
        })
    }

    /// Runs a command, with a terminal or with pipes; it sees the descriptors of `more` as 3, 4, ...
    ///
    /// # Errors
    /// When the namespace is unknown, the command is not found, or a process cannot be made.
    pub fn command(
        world: &mut World,
        argv: &[String],
        environment: &BTreeMap<String, String>,
        terminal: Option<Terminal>,
        placement: &Placement,
        more: &[OwnedFd],
    ) -> anyhow::Result<Self> {
        let words: Vec<CString> = argv
            .iter()
            .map(|word| CString::new(word.as_str()).context("a NUL inside the command"))
            .collect::<Result<_, _>>()?;
        if words.is_empty() {
            bail!("an empty command");
        }
        let environment = own_environment(environment);
        let more = || more.iter().map(AsRawFd::as_raw_fd).zip(3..);
        if let Some(Terminal { rows, columns }) = terminal {
            let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
            let pair = openpty(Some(&size), None).context("no terminal")?;
            let descriptors = (0..3).map(|to| (pair.slave.as_raw_fd(), to)).chain(more()).collect();
            close_on_exec(pair.master.as_fd())?;
            close_on_exec(pair.slave.as_fd())?;
            let plan = Start {
                descriptors,
                executable: Executable::Search,
                argv: words,
                environment,
                terminal: true,
            };
            let pid = start(world, placement, &plan)?;
            set_nonblocking(pair.master.as_fd())?;
            let input = pair.master.try_clone().context("cannot duplicate a descriptor")?;
            return Ok(Self::of_command(pid, placement, Some(input), Some(pair.master), None, true));
        }
        let pipe = || unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).context("no pipe");
        let (their_input, input) = pipe()?;
        let (output, their_output) = pipe()?;
        let (errors, their_errors) = pipe()?;
        let streams =
            [(their_input.as_raw_fd(), 0), (their_output.as_raw_fd(), 1), (their_errors.as_raw_fd(), 2)];
        let descriptors = streams.into_iter().chain(more()).collect();
        let plan =
            Start { descriptors, executable: Executable::Search, argv: words, environment, terminal: false };
        let pid = start(world, placement, &plan)?;
        for fd in [&input, &output, &errors] {
            set_nonblocking(fd.as_fd())?;
        }
        Ok(Self::of_command(pid, placement, Some(input), Some(output), Some(errors), false))
    }

    fn of_command(
        pid: Pid,
        placement: &Placement,
        input: Option<OwnedFd>,
        output: Option<OwnedFd>,
        errors: Option<OwnedFd>,
        terminal: bool,
    ) -> Self {
        let streams =
            Streams::Command { input, output, waiting: VecDeque::new(), input_ends: false, terminal };
        let (namespace, host) = (placement.namespace.clone(), placement.host.clone());
        Self { pid, namespace, host, streams, errors, tail: VecDeque::new(), ended: None }
    }

    /// Keeps the end of what the child wrote as errors.
    pub fn remember_errors(&mut self, bytes: &[u8]) {
        self.tail.extend(bytes);
        let surplus = self.tail.len().saturating_sub(TAIL_BYTES);
        self.tail.drain(..surplus);
    }

    /// The end of its errors as text.
    pub fn tail(&self) -> String {
        let (front, back) = self.tail.as_slices();
        String::from_utf8_lossy(&[front, back].concat()).trim_end().to_owned()
    }

    /// Gives input to a command; nothing = the end of its input.
    pub fn give_input(&mut self, bytes: &[u8]) {
        if let Streams::Command { waiting, input_ends, terminal, .. } = &mut self.streams {
            if bytes.is_empty() {
                // A terminal's input ends by its end-of-file character.
                if *terminal { waiting.push_back(4) } else { *input_ends = true }
            }
            waiting.extend(bytes);
        }
        self.flush_input();
    }

    /// Writes what the command's input takes now.
    pub fn flush_input(&mut self) {
        let Streams::Command { input, waiting, input_ends, .. } = &mut self.streams else { return };
        while let Some(fd) = input.as_ref()
            && !waiting.is_empty()
        {
            let (front, _) = waiting.as_slices();
            match unistd::write(fd, front) {
                Ok(n) => drop(waiting.drain(..n)),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return,
                Err(_) => {
                    waiting.clear();
                    *input = None;
                }
            }
        }
        if *input_ends && waiting.is_empty() {
            *input = None;
        }
    }

    /// Changes the size of its terminal.
    ///
    /// # Errors
    /// When it has none.
    pub fn resize(&self, size: Terminal) -> anyhow::Result<()> {
        let Streams::Command { output: Some(fd), terminal: true, .. } = &self.streams else {
            bail!("it has no terminal")
        };
        let size = Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 };
        // SAFETY: TIOCSWINSZ reads one winsize, which lives during the call.
        let code = unsafe { libc::ioctl(fd.as_raw_fd(), libc::TIOCSWINSZ, &raw const size) };
        Errno::result(code).context("cannot resize the terminal")?;
        Ok(())
    }

    /// Sends a signal; of a command to its whole group, so what it started in its own session gets it, too.
    ///
    /// # Errors
    /// When the signal is unknown.
    pub fn signal(&self, number: i32) -> anyhow::Result<()> {
        let signal = Signal::try_from(number).with_context(|| format!("there is no signal {number}"))?;
        let whole = match self.streams {
            Streams::Agent(_) => self.pid,
            Streams::Command { .. } => Pid::from_raw(-self.pid.as_raw()),
        };
        // Gone already: its end is about to be reported.
        let _ = kill(whole, signal);
        Ok(())
    }

    /// Whether everything it wrote was read.
    pub fn drained(&self) -> bool {
        match &self.streams {
            Streams::Agent(_) => self.errors.is_none(),
            Streams::Command { output, .. } => self.errors.is_none() && output.is_none(),
        }
    }
}

enum Executable {
    Descriptor(RawFd),
    Search,
}

struct Start {
    /// Ours and the number that the child sees it as, which ascends.
    descriptors: Vec<(RawFd, RawFd)>,
    executable: Executable,
    argv: Vec<CString>,
    environment: Vec<CString>,
    terminal: bool,
}

fn close_on_exec(fd: BorrowedFd<'_>) -> anyhow::Result<()> {
    nix::fcntl::fcntl(fd, nix::fcntl::FcntlArg::F_SETFD(nix::fcntl::FdFlag::FD_CLOEXEC))
        .context("cannot set descriptor flags")?;
    Ok(())
}

/// What every child gets of the leader's environment: the user who started it may hold secrets there.
const ENVIRONMENT: [&str; 4] = ["PATH", "HOME", "TERM", "LANG"];

fn own_environment(extra: &BTreeMap<String, String>) -> Vec<CString> {
    let mut all: BTreeMap<String, String> =
        ENVIRONMENT.iter().filter_map(|key| Some(((*key).to_owned(), std::env::var(key).ok()?))).collect();
    all.extend(extra.clone());
    all.into_iter().filter_map(|(key, value)| CString::new(format!("{key}={value}")).ok()).collect()
}

/// Forks, moves the child where it belongs, and executes. A failure before the execution comes back through a pipe.
fn start(world: &mut World, placement: &Placement, plan: &Start) -> anyhow::Result<Pid> {
    let mounts = world.namespace(&placement.namespace)?.disk.as_ref().and_then(Folder::mounts);
    let network = world.namespace(placement.network.as_ref().unwrap_or(&placement.namespace))?.raw_fd();
    let (report, their_report) = unistd::pipe2(nix::fcntl::OFlag::O_CLOEXEC).context("no pipe")?;
    let leader = unistd::getpid();
    // SAFETY: other threads of the leader serve disks, and hold no lock but the allocator's, which `fork` hands on
    // free. So the child may do what any process may.
    match unsafe { fork() }.context("cannot fork")? {
        ForkResult::Child => {
            drop(report);
            let error = match become_child(leader, (network, mounts), placement, plan, &their_report) {
                Ok(never) => match never {},
                Err(error) => error,
            };
            let _ = unistd::write(&their_report, format!("{error:#}").as_bytes());
            // SAFETY: _exit ends the child at once, without the parent's exit handlers.
            unsafe { libc::_exit(127) }
        }
        ForkResult::Parent { child } => {
            drop(their_report);
            let mut text = Vec::new();
            let mut chunk = [0; 1024];
            loop {
                match unistd::read(&report, &mut chunk) {
                    Ok(0) => break,
                    Ok(n) => text.extend_from_slice(&chunk[..n]),
                    Err(Errno::EINTR) => {}
                    Err(error) => return Err(error).context("cannot hear from a child"),
                }
            }
            if text.is_empty() {
                return Ok(child);
            }
            let _ = nix::sys::wait::waitpid(child, None);
            bail!("{}", String::from_utf8_lossy(&text))
        }
    }
}

enum Never {}

fn become_child(
    leader: Pid,
    (network, mounts): (RawFd, Option<RawFd>),
    placement: &Placement,
    plan: &Start,
    report: &OwnedFd,
) -> anyhow::Result<Never> {
    // SAFETY: the descriptor of the namespace stays open in the parent's books during this call.
    let network = unsafe { BorrowedFd::borrow_raw(network) };
    namespaces::enter(network).context("cannot enter the network namespace")?;
    if let Some(mounts) = mounts {
        folder::enter(mounts)?;
    }
    let name = placement.namespace.rsplit(':').next().unwrap_or_default();
    if unshare(CloneFlags::CLONE_NEWUTS).is_ok() {
        // A courtesy to the user who opens a shell: the prompt names the guest.
        let _ = unistd::sethostname(name);
    }
    for tasks in &placement.cgroups {
        std::fs::write(tasks, "0").with_context(|| format!("cannot join the control group of {tasks}"))?;
    }
    pin(&placement.cpus)?;
    if let Some(priority) = placement.fifo_priority {
        let parameters = libc::sched_param { sched_priority: priority };
        // SAFETY: the parameters live during the call, and pid 0 is the caller.
        let code = unsafe {
            libc::sched_setscheduler(0, libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK, &raw const parameters)
        };
        Errno::result(code).context("cannot take a real-time priority")?;
    }
    sigprocmask(SigmaskHow::SIG_SETMASK, Some(&SigSet::empty()), None)
        .context("cannot clear the signal mask")?;
    // SAFETY: restoring the default action installs no handler.
    unsafe { nix::sys::signal::signal(Signal::SIGPIPE, nix::sys::signal::SigHandler::SigDfl) }
        .context("cannot restore SIGPIPE")?;
    unistd::setsid().context("cannot begin a session")?;
    // A session of its own hears of no one's end, and not every leader is the first of a PID namespace. The
    // kernel's signal comes with the end of the thread that forked: a leader forks in but one.
    prctl::set_pdeathsig(Signal::SIGKILL).context("cannot tie its life to the leader's")?;
    if unistd::getppid() != leader {
        bail!("the leader is gone");
    }
    // Sources first move out of the way of their targets, then into place without close-on-exec.
    let report_fd = report.as_raw_fd();
    let above = 1 + plan.descriptors.iter().map(|(_, to)| *to).max().unwrap_or(2);
    let mut moved = Vec::new();
    for (from, to) in &plan.descriptors {
        moved.push((duplicate_above(*from, above)?, *to));
    }
    let report_moved = duplicate_above(report_fd, above)?;
    let executable = match plan.executable {
        Executable::Descriptor(fd) => Some(duplicate_above(fd, above)?),
        Executable::Search => None,
    };
    for (from, to) in &moved {
        // SAFETY: dup2 replaces descriptors of this child only, which is about to execute something else.
        Errno::result(unsafe { libc::dup2(from.as_raw_fd(), *to) }).context("cannot place a descriptor")?;
    }
    let mut tell = report_moved.as_raw_fd();
    let user = placement.user.as_deref().map(User::find).transpose()?;
    if placement.confined {
        let last = moved.iter().map(|(_, to)| *to).max().unwrap_or(2);
        tell = confined::confine(last, &report_moved, user, mounts.is_some())
            .context("a command cannot be confined here")?;
    } else if let Some(user) = user {
        user.become_it()?;
    }
    if let (Some(folder), false) = (&placement.folder, placement.confined) {
        unistd::chdir(folder.as_str()).with_context(|| format!("cannot begin in '{folder}'"))?;
    }
    if let Some(path) = plan.environment.iter().find(|each| each.to_bytes().starts_with(b"PATH=")) {
        // SAFETY: this process has one thread; the text lives until it executes something else. It is searched by its
        // own.
        unsafe { libc::putenv(path.as_ptr().cast_mut()) };
    }
    if plan.terminal {
        // SAFETY: TIOCSCTTY takes a number; descriptor 0 is the terminal.
        Errno::result(unsafe { libc::ioctl(0, libc::TIOCSCTTY, 0) }).context("cannot take the terminal")?;
    }
    let failed = match &executable {
        Some(fd) => unistd::fexecve(fd, &plan.argv, &plan.environment).unwrap_err(),
        None => unistd::execvpe(&plan.argv[0], &plan.argv, &plan.environment).unwrap_err(),
    };
    let text = format!("cannot execute '{}': {}", plan.argv[0].to_string_lossy(), failed.desc());
    // SAFETY: the descriptor is the report's, wherever it was moved to; nothing closes it before the process ends.
    let _ = unistd::write(unsafe { BorrowedFd::borrow_raw(tell) }, text.as_bytes());
    // SAFETY: as in `start`.
    unsafe { libc::_exit(127) }
}

/// Keeps the calling process, and what it starts, on these CPUs; on all it may use when none is named.
///
/// # Errors
/// When a CPU does not exist or is not allowed.
pub fn pin(cpus: &[usize]) -> anyhow::Result<()> {
    if cpus.is_empty() {
        return Ok(());
    }
    let mut set = CpuSet::new();
    for cpu in cpus {
        set.set(*cpu).with_context(|| format!("there is no CPU {cpu}"))?;
    }
    sched_setaffinity(Pid::from_raw(0), &set).context("cannot pin to the CPUs")
}

fn duplicate_above(fd: RawFd, least: RawFd) -> anyhow::Result<OwnedFd> {
    // SAFETY: the descriptor is open in this process; the duplicate is owned by what is returned.
    let copy = unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, least) };
    let copy = Errno::result(copy).context("cannot duplicate a descriptor")?;
    // SAFETY: fcntl just made this descriptor for us.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}
