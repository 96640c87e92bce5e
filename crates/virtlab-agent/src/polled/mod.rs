//! A program of a role, beside which something is polled: a page over HTTP, or a file that it writes.
//!
//! The agent stands where the program would, starts it as its child, and polls from there: with the program's own
//! rights, files and network. What is polled and what the program prints both go to the standard output, in frames: a
//! line of words, then so many octets as its last word says.
//!
//! | frame | octets |
//! |---|---|
//! | `output LENGTH` | of the program's output |
//! | `found SOURCE NS LENGTH` | what was polled, at an instant of CLOCK_MONOTONIC_RAW |
//! | `missed SOURCE NS LENGTH` | why nothing was |
//!
//! It ends as the program does. Signals that ask it to end are handed on.

mod sources;

use anyhow::{Context, anyhow};
use clap::Args;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::prctl::set_dumpable;
use nix::sys::resource::{Resource, setrlimit};
use nix::sys::signal::{SigHandler, SigSet, Signal, kill};
use nix::unistd::Pid;
use sources::Source;
use std::convert::Infallible;
use std::io::{self, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;
use virtlab_system::clock;

/// Between looks whether the program has ended, while what it left behind still holds its output.
const LOOK_MS: u8 = 20;

/// What is polled, and beside what.
#[derive(Args, Debug)]
pub struct Options {
    /// Nanoseconds between polls, and what is polled: `http://ADDRESS[:PORT]/PATH` or a file.
    #[arg(long, num_args = 2, value_names = ["EVERY_NS", "WHAT"])]
    source: Vec<String>,
    /// The program and its arguments.
    #[arg(last = true, required = true)]
    argv: Vec<String>,
}

/// Runs the program, and ends as it does.
///
/// # Errors
/// When it cannot be started, or its output is not read any more.
pub fn main(options: &Options) -> anyhow::Result<()> {
    let sources: Vec<Source> = options
        .source
        .chunks(2)
        .map(|words| Source::parse(&words[0], &words[1]))
        .collect::<anyhow::Result<_>>()?;
    let heard: SigSet = [Signal::SIGTERM, Signal::SIGINT, Signal::SIGCHLD].into_iter().collect();
    heard.thread_block().context("cannot hold signals back")?; // before any thread is there
    // The program has this process's user and rights. It must not reach through /proc what only this process has: the
    // machine's file of this binary, which is not on the read-only root of the program.
    set_dumpable(false).context("cannot be shut off from the program")?;
    let mut child = started(&options.argv)?;
    let output = child.stdout.take().context("the program has no output")?;
    let frames: &Mutex<io::Stdout> = Box::leak(Box::new(Mutex::new(io::stdout())));
    for (number, source) in sources.into_iter().enumerate() {
        thread::spawn(move || never(polled(number, &source, frames)));
    }
    let over: &AtomicBool = Box::leak(Box::new(AtomicBool::new(false)));
    let printing = thread::spawn(move || printed(output, over, frames));
    let status = end_of(&mut child, &heard)?;
    over.store(true, Ordering::Relaxed);
    printing.join().map_err(|_| anyhow!("its output was not read"))??;
    // Held to the end, so that no frame is cut.
    let _whole = frames.lock();
    leave(status)
}

fn started(argv: &[String]) -> anyhow::Result<Child> {
    let mut command = Command::new(&argv[0]);
    command.args(&argv[1..]).stdout(Stdio::piped()).process_group(0);
    // SAFETY: both calls are async-signal-safe and touch no memory of the parent.
    unsafe {
        command.pre_exec(|| {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL, 0, 0, 0);
            SigSet::empty().thread_set_mask().map_err(io::Error::from)
        });
    }
    command.spawn().with_context(|| format!("cannot execute {}", argv[0]))
}

/// Waits for the end of the program; hands on what asks it to end.
fn end_of(child: &mut Child, heard: &SigSet) -> anyhow::Result<ExitStatus> {
    loop {
        if let Some(status) = child.try_wait().context("cannot wait for the program")? {
            return Ok(status);
        }
        let signal = heard.wait().context("cannot wait for signals")?;
        if signal != Signal::SIGCHLD {
            let group = Pid::from_raw(-i32::try_from(child.id())?);
            let _ = kill(group, signal); // it may just have ended
        }
    }
}

/// Ends as the program did.
fn leave(status: ExitStatus) -> anyhow::Result<()> {
    if let Some(signal) = status.signal().and_then(|number| Signal::try_from(number).ok()) {
        let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
        // SAFETY: the default action installs no handler.
        let _ = unsafe { nix::sys::signal::signal(signal, SigHandler::SigDfl) };
        let _ = SigSet::empty().thread_set_mask();
        let _ = kill(Pid::this(), signal);
    }
    std::process::exit(status.code().unwrap_or(1))
}

/// Hands on what the program prints, until it closes its output, or has ended and no more is there.
fn printed(mut output: ChildStdout, over: &AtomicBool, frames: &Mutex<io::Stdout>) -> anyhow::Result<()> {
    let mut octets = vec![0; 64 << 10];
    loop {
        let ended = over.load(Ordering::Relaxed);
        let mut waited = [PollFd::new(output.as_fd(), PollFlags::POLLIN)];
        if poll(&mut waited, PollTimeout::from(LOOK_MS)).unwrap_or(0) == 0 {
            if ended {
                return Ok(());
            }
            continue;
        }
        match output.read(&mut octets) {
            Ok(0) => return Ok(()),
            Ok(count) => write(frames, format_args!("output {count}\n"), &octets[..count])?,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error).context("cannot read the program's output"),
        }
    }
}

/// Polls at every multiple of its interval from now on; one that takes longer skips those that it missed.
fn polled(number: usize, source: &Source, frames: &Mutex<io::Stdout>) -> anyhow::Result<Infallible> {
    let mut next = Instant::now();
    loop {
        thread::sleep(next.saturating_duration_since(Instant::now()));
        let before = clock::raw();
        let found = source.poll();
        let at = before.0 + clock::raw().since(before).0 / 2;
        match found {
            Ok(octets) => {
                write(frames, format_args!("found {number} {at} {}\n", octets.len()), &octets)?;
            }
            Err(error) => {
                let text = format!("{error:#}");
                write(frames, format_args!("missed {number} {at} {}\n", text.len()), text.as_bytes())?;
            }
        }
        let late = Instant::now().saturating_duration_since(next).as_nanos();
        let steps = late / source.every.as_nanos() + 1;
        next += source.every * u32::try_from(steps).unwrap_or(u32::MAX);
    }
}

/// What this writes is not read any more: it has no use.
fn never(outcome: anyhow::Result<Infallible>) {
    let Err(error) = outcome;
    eprintln!("virtlab-agent: {error:#}");
    std::process::exit(1);
}

fn write(frames: &Mutex<io::Stdout>, head: std::fmt::Arguments<'_>, octets: &[u8]) -> anyhow::Result<()> {
    let mut to = frames.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let mut frame = head.to_string().into_bytes();
    frame.extend_from_slice(octets);
    to.write_all(&frame).and_then(|()| to.flush()).context("its output is read no more")
}
