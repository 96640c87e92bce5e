//! A disk of a virtual machine whose blocks are objects of a store: requests come over a descriptor by the protocol of
//! network block devices, to the store's client (`blocks`) on a thread of its own in the network of the machine's host.

use super::blocks::{Blocks, Words};
use anyhow::Context;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, setns};
use nix::unistd;
use serde_json::Value;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use virtlab_leader::Account;
use virtlab_leader::nbd::{Asked as Wanted, Connection, EIO};

const CHUNK_BYTES: usize = 256 << 10;

struct Serving {
    connection: Connection,
    fd: OwnedFd,
    blocks: Blocks,
    requests: u64,
    /// By request: the machine's name of it.
    handles: BTreeMap<u64, u64>,
}

/// Serves such a disk, on a thread of its own.
///
/// # Errors
/// When its words are of no disk on a store, or there is no thread.
pub fn serve(words: &Value, fd: OwnedFd, network: OwnedFd, account: Account) -> anyhow::Result<()> {
    let words = Words::read(words)?;
    let thread = std::thread::Builder::new().name("disk".to_owned());
    thread
        .spawn(move || {
            if let Err(error) = setns(&network, CloneFlags::CLONE_NEWNET) {
                eprintln!("virtlab-agent: a disk cannot enter its host's network: {error}");
                return;
            }
            drop(network);
            let connection = Connection::new(words.size_bytes, false);
            match Blocks::new(&words, account) {
                Ok(blocks) => {
                    Serving { connection, fd, blocks, requests: 0, handles: BTreeMap::new() }.serve();
                }
                Err(error) => eprintln!("virtlab-agent: a disk cannot reach its store: {error:#}"),
            }
        })
        .context("cannot start a thread for a disk")?;
    Ok(())
}

impl Serving {
    fn serve(mut self) {
        while self.flush() && self.go_on() {
            self.blocks.settle();
            while let Some(done) = self.blocks.take_done() {
                if let Some(handle) = self.handles.remove(&done.number) {
                    self.connection.answer(handle, done.read.as_deref().ok_or(EIO));
                }
            }
        }
    }

    /// Waits until something comes, and takes it; false at the end of the connection.
    fn go_on(&mut self) -> bool {
        match self.blocks.wait(Some(self.fd.as_fd())) {
            Ok(ready) => !ready || self.hear(),
            Err(_) => false,
        }
    }

    /// Reads requests of the machine; false at their end.
    fn hear(&mut self) -> bool {
        let mut chunk = vec![0; CHUNK_BYTES];
        match unistd::read(&self.fd, &mut chunk) {
            Ok(0) => return false,
            Ok(count) => self.connection.feed(&chunk[..count]),
            Err(nix::errno::Errno::EINTR | nix::errno::Errno::EAGAIN) => return true,
            Err(_) => return false,
        }
        loop {
            match self.connection.next_asked() {
                Ok(None) => return true,
                Ok(Some(Wanted::Impossible { handle, error })) => self.connection.answer(handle, Err(error)),
                Ok(Some(Wanted::Request { handle, request, written })) => {
                    self.requests += 1;
                    self.handles.insert(self.requests, handle);
                    self.blocks.submit(self.requests, request, written);
                }
                Err(_) => {
                    self.flush();
                    return false;
                }
            }
        }
    }

    /// Sends what was answered; false at the end of the connection.
    fn flush(&mut self) -> bool {
        let outbox = &mut self.connection.outbox;
        let mut sent = 0;
        while sent < outbox.len() {
            match unistd::write(&self.fd, &outbox[sent..]) {
                Ok(count) => sent += count,
                Err(nix::errno::Errno::EINTR) => {}
                Err(nix::errno::Errno::EAGAIN) => {
                    let mut polled = [PollFd::new(self.fd.as_fd(), PollFlags::POLLOUT)];
                    let _ = poll(&mut polled, PollTimeout::NONE);
                }
                Err(_) => return false,
            }
        }
        outbox.clear();
        true
    }
}
