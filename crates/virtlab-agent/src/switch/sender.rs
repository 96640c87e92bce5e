//! Frames out: one packet socket for all ports, one `sendmmsg` per batch, past the egress queue disciplines, because
//! the fabric has played the queue already. Sending over a veth runs the receiver's stack on this core.

use super::ring::{link_address, packet_socket, set_option};
use nix::errno::Errno;
use std::os::fd::{AsRawFd, OwnedFd};

/// Most frames per call: more would let frames that arrive meanwhile wait too long.
pub const BATCH_FRAMES: usize = 32;

/// Sends frames through interfaces.
pub struct Sender {
    fd: OwnedFd,
    addresses: Vec<libc::sockaddr_ll>,
}

impl Sender {
    /// For the interfaces with these indexes; a port is named by its position here.
    ///
    /// # Errors
    /// When packet sockets are not allowed.
    pub fn new(ifindexes: &[libc::c_int]) -> anyhow::Result<Self> {
        let fd = packet_socket()?;
        set_option(&fd, libc::SOL_PACKET, libc::PACKET_QDISC_BYPASS, &1i32)?;
        // As much as an ordinary user may have; frames wait here only while a receiver's backlog is full.
        set_option(&fd, libc::SOL_SOCKET, libc::SO_SNDBUF, &(4i32 << 20))?;
        let addresses = ifindexes.iter().map(|&ifindex| link_address(ifindex, 0)).collect();
        Ok(Self { fd, addresses })
    }

    /// Sends `frames`, at most [`BATCH_FRAMES`], each through a port. `failed` hears of each that the kernel refused.
    pub fn send<'a>(
        &mut self,
        frames: impl Iterator<Item = (usize, &'a [u8])>,
        mut failed: impl FnMut(usize, Errno),
    ) {
        // SAFETY: all-zero message headers and vectors are valid values.
        let mut messages: [libc::mmsghdr; BATCH_FRAMES] = unsafe { std::mem::zeroed() };
        // SAFETY: as above.
        let mut vectors: [libc::iovec; BATCH_FRAMES] = unsafe { std::mem::zeroed() };
        let mut count = 0;
        for (at, (port, bytes)) in frames.take(BATCH_FRAMES).enumerate() {
            vectors[at] = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
            let header = &mut messages[at].msg_hdr;
            header.msg_name = (&raw mut self.addresses[port]).cast();
            header.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            header.msg_iov = &raw mut vectors[at];
            header.msg_iovlen = 1;
            count = at + 1;
        }
        let mut sent = 0;
        while sent < count {
            // SAFETY: `messages[sent..count]` point to addresses, vectors and frames that outlive the call; the kernel
            // only reads what they point to.
            let result = unsafe {
                libc::sendmmsg(
                    self.fd.as_raw_fd(),
                    messages[sent..].as_mut_ptr(),
                    (count - sent) as libc::c_uint,
                    libc::MSG_DONTWAIT,
                )
            };
            if result > 0 {
                sent += result as usize;
                continue;
            }
            let error = Errno::last();
            if error != Errno::EINTR {
                failed(sent, error);
                sent += 1;
            }
        }
    }
}
