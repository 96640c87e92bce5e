//! A guest that is reached through its console: the terminal that a hypervisor gives it carries frames and the kernel's
//! words alike.
//!
//! What comes out of the terminal and belongs to no frame is what the guest says, and goes to standard output;
//! frames go to the descriptor. Nothing is written to the terminal before the guest said its word: until then its
//! end is a line editor that would swallow frames, or echo them. The terminal ends with the guest.
//!
//! Linux listens on a console for ^O, after which a byte is a request to the kernel itself
//! (drivers/tty/hvc/hvc_console.c); twice ^O is one. So it is written twice.

use anyhow::{Context, bail};
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{SetArg, cfmakeraw, tcgetattr, tcsetattr};
use nix::unistd;
use std::collections::VecDeque;
use std::fs::OpenOptions;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use virtlab_wire::frame::{Decoder, HEADER_BYTES, MOST_NOISE_BYTES};

/// Bytes that may wait in one direction; then the other side waits.
const WAITING_BYTES: usize = 256 << 10;
const CHUNK_BYTES: usize = 16 << 10;
const REQUEST_TO_THE_KERNEL: u8 = 0x0f;

/// Command-line options.
#[derive(clap::Args)]
pub struct Options {
    /// Open descriptor of the byte stream to the control plane.
    #[arg(long, default_value_t = 3)]
    control_fd: i32,
    /// The terminal.
    #[arg(long)]
    tty: PathBuf,
    /// What the guest says once it takes frames.
    #[arg(long)]
    ready: String,
}

/// Passes frames on in both directions until one side ends.
///
/// # Errors
/// When the descriptor or the terminal cannot be had.
pub fn main(options: &Options) -> anyhow::Result<()> {
    if fcntl(borrow(options.control_fd), FcntlArg::F_GETFD).is_err() {
        bail!(
            "descriptor {} is not open; this program is started by virtlab, not by hand",
            options.control_fd
        );
    }
    // SAFETY: the descriptor is open (checked above), and no other in this process uses it.
    let control = unsafe { OwnedFd::from_raw_fd(options.control_fd) };
    let tty: OwnedFd = OpenOptions::new()
        .read(true)
        .write(true)
        .custom_flags(libc::O_NOCTTY | libc::O_CLOEXEC)
        .open(&options.tty)
        .with_context(|| format!("cannot open {}", options.tty.display()))?
        .into();
    let mut mode = tcgetattr(&tty).with_context(|| format!("{} is not a terminal", options.tty.display()))?;
    cfmakeraw(&mut mode);
    tcsetattr(&tty, SetArg::TCSANOW, &mode).context("cannot set the terminal's mode")?;
    for fd in [control.as_fd(), tty.as_fd()] {
        let flags =
            OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL).context("cannot read descriptor flags")?);
        fcntl(fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).context("cannot set descriptor flags")?;
    }
    relay(control.as_fd(), tty.as_fd(), std::io::stdout().as_fd(), Sorter::new(&options.ready))
}

fn borrow<'a>(fd: i32) -> BorrowedFd<'a> {
    // SAFETY: used for one fcntl that reports a closed descriptor as an error.
    unsafe { BorrowedFd::borrow_raw(fd) }
}

fn relay(
    control: BorrowedFd<'_>,
    tty: BorrowedFd<'_>,
    said: BorrowedFd<'_>,
    mut sorter: Sorter,
) -> anyhow::Result<()> {
    let (mut up, mut down) = (VecDeque::new(), VecDeque::new());
    loop {
        let wanted = |reads: bool, writes: bool| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::POLLIN, reads);
            flags.set(PollFlags::POLLOUT, writes);
            flags
        };
        let mut polled = [
            PollFd::new(control, wanted(down.len() < WAITING_BYTES, !up.is_empty())),
            PollFd::new(tty, wanted(up.len() < WAITING_BYTES, sorter.ready && !down.is_empty())),
        ];
        match poll(&mut polled, PollTimeout::NONE) {
            Err(Errno::EINTR) => continue,
            other => other.context("cannot poll")?,
        };
        let events = polled.map(|fd| fd.revents().unwrap_or(PollFlags::empty()));
        let over = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLIN;
        if events[1].intersects(over) {
            let mut chunk = vec![0; CHUNK_BYTES];
            let ended = match unistd::read(tty, &mut chunk) {
                Ok(n) => {
                    sorter.feed(&chunk[..n]);
                    n == 0
                }
                Err(Errno::EINTR | Errno::EAGAIN) => false,
                Err(_) => true,
            };
            let words = if ended { sorter.rest() } else { sorter.sort(&mut up) };
            write_all(said, &words);
            if sorter.decoder.vain_noise_bytes() > MOST_NOISE_BYTES {
                bail!("the guest writes what looks like frames, and no frame of it is valid");
            }
            if ended {
                write_some(control, &mut up);
                return Ok(());
            }
        }
        if events[0].intersects(over) {
            let mut chunk = vec![0; CHUNK_BYTES];
            match unistd::read(control, &mut chunk) {
                Ok(0) => return Ok(()),
                Ok(n) => down.extend(chunk[..n].iter().flat_map(as_typed)),
                Err(Errno::EINTR | Errno::EAGAIN) => {}
                Err(_) => return Ok(()),
            }
        }
        let written = write_some(control, &mut up) && (!sorter.ready || write_some(tty, &mut down));
        if !written {
            return Ok(());
        }
    }
}

/// A byte as a console has to be told it.
fn as_typed(byte: &u8) -> impl Iterator<Item = u8> {
    std::iter::repeat_n(*byte, if *byte == REQUEST_TO_THE_KERNEL { 2 } else { 1 })
}

/// Writes what the other side takes now; false when it is gone.
fn write_some(fd: BorrowedFd<'_>, waiting: &mut VecDeque<u8>) -> bool {
    while !waiting.is_empty() {
        let (front, _) = waiting.as_slices();
        match unistd::write(fd, front) {
            Ok(n) => drop(waiting.drain(..n)),
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => return true,
            Err(_) => return false,
        }
    }
    true
}

/// Words of a guest are few; their keeper reads on. A reader that is gone wants no more.
fn write_all(fd: BorrowedFd<'_>, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        match unistd::write(fd, bytes) {
            Ok(n) => bytes = &bytes[n..],
            Err(Errno::EINTR) => {}
            Err(_) => return,
        }
    }
}

/// Tells frames from words in what a terminal says.
struct Sorter {
    word: Vec<u8>,
    ready: bool,
    before: Vec<u8>,
    decoder: Decoder,
    fed: VecDeque<u8>,
}

impl Sorter {
    fn new(word: &str) -> Self {
        Self {
            word: word.as_bytes().to_vec(),
            ready: false,
            before: Vec::new(),
            decoder: Decoder::new(),
            fed: VecDeque::new(),
        }
    }

    fn feed(&mut self, bytes: &[u8]) {
        self.decoder.feed(bytes);
        self.fed.extend(bytes);
    }

    /// Appends whole frames to `frames`, as they came, and returns the words before and between them.
    fn sort(&mut self, frames: &mut VecDeque<u8>) -> Vec<u8> {
        let mut words = Vec::new();
        loop {
            let before = self.decoder.stray_bytes();
            let frame = self.decoder.next_frame();
            let stray = (self.decoder.stray_bytes() - before) as usize;
            words.extend(self.fed.drain(..stray));
            let Some(frame) = frame else { break };
            frames.extend(self.fed.drain(..HEADER_BYTES + frame.body.len()));
        }
        if !self.ready {
            self.before.extend(&words);
            self.ready = self.before.windows(self.word.len()).any(|part| part == self.word);
            let surplus = self.before.len().saturating_sub(self.word.len());
            self.before.drain(..surplus);
        }
        words
    }

    /// What is left when the terminal ends: no frame will be whole any more.
    fn rest(&mut self) -> Vec<u8> {
        self.fed.drain(..).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
    use virtlab_wire::frame::{Kind, encode};

    fn frame(channel: u16) -> Vec<u8> {
        let mut out = Vec::new();
        encode(channel, Kind::Control, b"{\"n\":1}", &mut out).unwrap();
        out
    }

    #[test]
    fn frames_and_words_that_come_in_pieces_are_told_apart() {
        let stream = [b"Linux\r\nready: now\r\n".to_vec(), frame(1), b"panic!".to_vec(), frame(2)].concat();
        for size in [1, 7, stream.len()] {
            let mut sorter = Sorter::new("ready: now");
            let (mut frames, mut words) = (VecDeque::new(), Vec::new());
            for piece in stream.chunks(size) {
                sorter.feed(piece);
                words.extend(sorter.sort(&mut frames));
            }
            assert_eq!(Vec::from(frames), [frame(1), frame(2)].concat());
            assert_eq!(String::from_utf8(words).unwrap(), "Linux\r\nready: now\r\npanic!");
            assert!(sorter.ready);
        }
    }

    #[test]
    fn a_frame_cut_off_by_the_end_counts_among_the_words() {
        let mut sorter = Sorter::new("ready");
        sorter.feed(&frame(1)[..5]);
        assert!(sorter.sort(&mut VecDeque::new()).is_empty() && !sorter.ready);
        assert_eq!(sorter.rest(), frame(1)[..5]);
    }

    #[test]
    fn a_byte_that_the_kernel_would_take_for_a_request_is_written_twice() {
        let typed: Vec<u8> = [1, 0x0f, 2, 0x0f].iter().flat_map(as_typed).collect();
        assert_eq!(typed, [1, 0x0f, 0x0f, 2, 0x0f, 0x0f]);
    }

    #[test]
    fn nothing_reaches_a_guest_before_it_said_its_word() {
        let pair =
            || socketpair(AddressFamily::Unix, SockType::Stream, None, SockFlag::SOCK_NONBLOCK).unwrap();
        let ((control, ours), (tty, guest), (said, words)) = (pair(), pair(), pair());
        unistd::write(&ours, &frame(1)).unwrap();
        let relaying = std::thread::spawn(move || {
            relay(control.as_fd(), tty.as_fd(), said.as_fd(), Sorter::new("ready")).unwrap();
        });
        let mut heard = [0; 256];
        let hear = |fd: &OwnedFd, buffer: &mut [u8]| {
            poll(&mut [PollFd::new(fd.as_fd(), PollFlags::POLLIN)], PollTimeout::from(5000_u16)).unwrap();
            unistd::read(fd, buffer)
        };
        unistd::write(&guest, b"booting\n").unwrap();
        assert_eq!(hear(&words, &mut heard).unwrap(), 8);
        assert_eq!(unistd::read(&guest, &mut heard), Err(Errno::EAGAIN), "the guest is not ready");
        unistd::write(&guest, b"ready\n").unwrap();
        let n = hear(&guest, &mut heard).unwrap();
        assert_eq!(heard[..n], frame(1).iter().flat_map(as_typed).collect::<Vec<_>>());
        unistd::write(&guest, &frame(2)).unwrap();
        let n = hear(&ours, &mut heard).unwrap();
        assert_eq!(heard[..n], frame(2));
        drop(guest);
        relaying.join().unwrap();
    }
}
