//! Datagrams that have come, by the batch: one call of recvmmsg(2) takes up to 64.

use super::socket::{self, Notes, RawAddress};
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::SocketAddr;
use std::os::fd::{AsRawFd, OwnedFd};

/// Most datagrams in one system call.
pub const MOST: usize = 64;

/// Room for one call.
pub struct ReceiveBatch {
    slot_bytes: usize,
    buffer: Vec<u8>,
    control: Vec<[u64; 16]>,
    names: Vec<libc::sockaddr_storage>,
    messages: Vec<libc::mmsghdr>,
    vectors: Vec<libc::iovec>,
}

// SAFETY: the raw pointers in the headers point into the vectors beside them and are set again before each call.
unsafe impl Send for ReceiveBatch {}

impl ReceiveBatch {
    /// Of datagrams that are kept up to that length.
    pub fn new(kept_bytes: usize) -> Self {
        let slot_bytes = kept_bytes.next_multiple_of(64);
        // SAFETY: all-zero bytes are valid iovec and mmsghdr values.
        let (vector, message): (libc::iovec, libc::mmsghdr) =
            unsafe { (MaybeUninit::zeroed().assume_init(), MaybeUninit::zeroed().assume_init()) };
        Self {
            slot_bytes,
            buffer: vec![0; slot_bytes * MOST],
            control: vec![[0; 16]; MOST],
            names: Vec::new(),
            messages: vec![message; MOST],
            vectors: vec![vector; MOST],
        }
    }

    /// The same, and it is known who sent each.
    pub fn with_senders(kept_bytes: usize) -> Self {
        let RawAddress { storage, .. } = SocketAddr::from(([0, 0, 0, 0], 0)).into();
        Self { names: vec![storage; MOST], ..Self::new(kept_bytes) }
    }

    /// Takes what has come; how many.
    ///
    /// # Errors
    /// As recvmmsg(2). An ICMP error that an earlier send caused arrives here, too.
    pub fn receive(&mut self, socket: &OwnedFd, flags: i32) -> io::Result<usize> {
        let slots = self.buffer.chunks_exact_mut(self.slot_bytes).zip(&mut self.control);
        for ((slot, control), (vector, message)) in slots.zip(self.vectors.iter_mut().zip(&mut self.messages))
        {
            vector.iov_base = slot.as_mut_ptr().cast();
            vector.iov_len = slot.len();
            message.msg_hdr.msg_iov = vector;
            message.msg_hdr.msg_iovlen = 1;
            message.msg_hdr.msg_control = control.as_mut_ptr().cast();
            message.msg_hdr.msg_controllen = size_of_val(control) as _;
        }
        for (name, message) in self.names.iter_mut().zip(&mut self.messages) {
            message.msg_hdr.msg_name = (&raw mut *name).cast();
            message.msg_hdr.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        }
        // SAFETY: every header describes live buffers of this batch.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_raw_fd(),
                self.messages.as_mut_ptr(),
                MOST as u32,
                flags,
                std::ptr::null_mut(),
            )
        };
        socket::check(count).map(|count| count as usize)
    }

    /// What was kept of one, and how long it is; longer than what was kept only with MSG_TRUNC among the flags.
    pub fn octets(&self, index: usize) -> (&[u8], usize) {
        let (start, length) = (index * self.slot_bytes, self.messages[index].msg_len as usize);
        (&self.buffer[start..start + length.min(self.slot_bytes)], length)
    }

    /// What the kernel wrote beside it.
    pub fn notes(&self, index: usize) -> Notes {
        // SAFETY: the kernel filled this header's control buffer, which is 8-byte aligned and alive.
        unsafe { socket::notes_of(&self.messages[index].msg_hdr) }
    }

    /// Who sent it.
    pub fn sender(&self, index: usize) -> Option<SocketAddr> {
        self.names.get(index).and_then(RawAddress::to_address)
    }
}
