//! One byte stream of frames, never blocking: what cannot be written yet waits in a buffer.
//!
//! The leader stands between the control plane and its agents. Would it block on one of them, two full sockets could
//! wait for each other for ever.

use anyhow::Context;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::unistd;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use virtlab_system::transport;
use virtlab_wire::frame::{Decoder, Frame, Kind, MOST_NOISE_BYTES, encode};

/// A stream of frames in both directions.
#[derive(Debug)]
pub struct Peer {
    fd: OwnedFd,
    decoder: Decoder,
    out: VecDeque<u8>,
    chunk: Vec<u8>,
}

/// Makes reads and writes return at once.
pub fn set_nonblocking(fd: BorrowedFd<'_>) -> anyhow::Result<()> {
    let flags =
        OFlag::from_bits_retain(fcntl(fd, FcntlArg::F_GETFL).context("cannot read descriptor flags")?);
    fcntl(fd, FcntlArg::F_SETFL(flags | OFlag::O_NONBLOCK)).context("cannot set descriptor flags")?;
    Ok(())
}

impl Peer {
    /// Takes over a stream.
    ///
    /// # Errors
    /// When it cannot be made non-blocking.
    pub fn new(fd: OwnedFd) -> anyhow::Result<Self> {
        set_nonblocking(fd.as_fd())?;
        Ok(Self { fd, decoder: Decoder::new(), out: VecDeque::new(), chunk: vec![0; 64 << 10] })
    }

    /// The descriptor to poll.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Bytes that wait to be written.
    pub fn waiting_bytes(&self) -> usize {
        self.out.len()
    }

    /// Reads what is there; false at the end of the stream.
    pub fn fill(&mut self) -> bool {
        loop {
            match unistd::read(&self.fd, &mut self.chunk) {
                Ok(0) => return false,
                Ok(n) => {
                    self.decoder.feed(&self.chunk[..n]);
                    return true;
                }
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return true,
                Err(_) => return false,
            }
        }
    }

    /// Continues on another stream, behind what is left to be read on this one.
    ///
    /// # Errors
    /// When the other one cannot be made non-blocking.
    pub fn succeed(&mut self, fd: OwnedFd) -> anyhow::Result<()> {
        set_nonblocking(fd.as_fd())?;
        loop {
            match unistd::read(&self.fd, &mut self.chunk) {
                Ok(n) if n > 0 => self.decoder.feed(&self.chunk[..n]),
                Err(Errno::EINTR) => {}
                Ok(_) | Err(_) => break,
            }
        }
        self.fd = fd;
        Ok(())
    }

    /// Whether what comes is no stream of frames: too little of it belongs to any.
    pub fn noisy(&self) -> bool {
        self.decoder.noise_bytes() > MOST_NOISE_BYTES
    }

    /// The next whole frame.
    pub fn next_frame(&mut self) -> Option<Frame> {
        self.decoder.next_frame()
    }

    /// Queues a frame. A body beyond the limit is a defect of the caller.
    pub fn queue(&mut self, channel: u16, kind: Kind, body: &[u8]) {
        let mut bytes = Vec::new();
        if encode(channel, kind, body, &mut bytes).is_ok() {
            self.out.extend(bytes);
        }
    }

    /// Queues a frame and writes what the stream takes now.
    pub fn send(&mut self, channel: u16, kind: Kind, body: &[u8]) {
        self.queue(channel, kind, body);
        self.flush();
    }

    /// Queues a JSON message of the leader itself.
    pub fn message(&mut self, message: &serde_json::Value) {
        self.send(0, Kind::Control, &transport::body(message));
    }

    /// Writes what the stream takes now; false when the other side is gone.
    pub fn flush(&mut self) -> bool {
        while !self.out.is_empty() {
            let (front, _) = self.out.as_slices();
            match unistd::write(&self.fd, front) {
                Ok(n) => drop(self.out.drain(..n)),
                Err(Errno::EINTR) => {}
                Err(Errno::EAGAIN) => return true,
                Err(_) => {
                    self.out.clear();
                    return false;
                }
            }
        }
        true
    }
}
