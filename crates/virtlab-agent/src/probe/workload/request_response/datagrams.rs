//! Messages in datagrams: each is one message, whole or not at all, and what is to leave at one instant leaves
//! together.

use super::message::{HEAD, Head, Kind};
use crate::probe::batch::{MOST, ReceiveBatch};
use crate::probe::socket::{self, RawAddress, Trouble, trouble};
use anyhow::Context;
use std::collections::VecDeque;
use std::mem::{MaybeUninit, size_of};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};
use virtlab_load::parameters::Buffers;
use virtlab_load::parameters::request_response::RequestResponse as Parameters;
use virtlab_load::requests::Tries;

/// Of a socket without a wish of the file: the meter is not to be what loses.
const BUFFER_BYTES: usize = 8 << 20;
/// Octets that are kept of a message; of its body none has a meaning.
const KEPT_BYTES: usize = 2048;
/// Room for a control message that says from which address an answer goes.
const CONTROL_BYTES: usize = 64;

/// Prepares a socket for either end.
///
/// # Errors
/// When a buffer is not granted.
pub fn ready(fd: &OwnedFd, buffers: Buffers) -> anyhow::Result<()> {
    for (receive, wanted) in [(false, buffers.send_bytes), (true, buffers.receive_bytes)] {
        match wanted {
            Some(bytes) => socket::require_buffer(fd, receive, bytes)?,
            None => socket::set_buffer(fd, receive, BUFFER_BYTES)?,
        };
    }
    socket::set_option(fd, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1i32)?;
    Ok(())
}

/// Where an answer goes: to whom, and from which of this guest's addresses, if it has several to choose from.
#[derive(Clone, Copy, Debug)]
pub struct Return {
    to: SocketAddr,
    from: Option<IpAddr>,
}

/// A message that is to leave.
#[derive(Clone, Copy)]
struct Letter {
    head: Head,
    /// Absent: the socket is connected.
    back: Option<Return>,
}

/// Control octets of one message, aligned as the kernel wants them.
#[derive(Clone, Copy)]
#[repr(align(8))]
struct Control([u8; CONTROL_BYTES]);

/// Messages that are to leave, and room for one call of sendmmsg(2).
pub struct Outbox {
    waiting: VecDeque<Letter>,
    /// Of the longest message: what follows its head.
    body: Vec<u8>,
    heads: Vec<[u8; HEAD]>,
    names: Vec<RawAddress>,
    controls: Vec<Control>,
    vectors: Vec<[libc::iovec; 2]>,
    messages: Vec<libc::mmsghdr>,
}

impl Outbox {
    /// Of messages of at most so many octets, which are full of that one.
    pub fn new(most_bytes: u64, octet: u8) -> Self {
        // SAFETY: all-zero bytes are valid iovec and mmsghdr values.
        let (vector, message): (libc::iovec, libc::mmsghdr) =
            unsafe { (MaybeUninit::zeroed().assume_init(), MaybeUninit::zeroed().assume_init()) };
        Self {
            waiting: VecDeque::new(),
            body: vec![octet; (most_bytes as usize).saturating_sub(HEAD)],
            heads: vec![[0; HEAD]; MOST],
            names: Vec::with_capacity(MOST),
            controls: vec![Control([0; CONTROL_BYTES]); MOST],
            vectors: vec![[vector; 2]; MOST],
            messages: vec![message; MOST],
        }
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether as many wait as leave in one call.
    pub fn is_full(&self) -> bool {
        self.waiting.len() >= MOST
    }

    /// A message is to leave.
    pub fn push(&mut self, head: Head, back: Option<Return>) {
        self.waiting.push_back(Letter { head, back });
    }

    /// Passes over the message that is to leave next.
    pub fn pass_over(&mut self) {
        self.waiting.pop_front();
    }

    /// Hands over what the kernel takes in one call; which those were.
    ///
    /// # Errors
    /// When it takes none, as sendmmsg(2).
    pub fn send(&mut self, fd: &OwnedFd, mut gone: impl FnMut(Head)) -> std::io::Result<()> {
        let count = self.waiting.len().min(MOST);
        self.names.clear();
        for (index, letter) in self.waiting.iter().take(count).enumerate() {
            self.heads[index] = letter.head.octets();
            let [head, body] = &mut self.vectors[index];
            (head.iov_base, head.iov_len) = (self.heads[index].as_mut_ptr().cast(), HEAD);
            (body.iov_base, body.iov_len) =
                (self.body.as_mut_ptr().cast(), letter.head.bytes as usize - HEAD);
            let header = &mut self.messages[index].msg_hdr;
            header.msg_iov = self.vectors[index].as_mut_ptr();
            header.msg_iovlen = 1 + usize::from(letter.head.bytes as usize > HEAD);
            let Some(back) = letter.back else { continue };
            self.names.push(RawAddress::from(back.to));
            let name = &mut self.names[index]; // room for all was made before, so none moves
            (header.msg_name, header.msg_namelen) = ((&raw mut name.storage).cast(), name.length);
            let control = &mut self.controls[index];
            header.msg_control = control.0.as_mut_ptr().cast();
            header.msg_controllen = back.from.map_or(0, |from| control.says_source(from)) as _;
        }
        // SAFETY: the first `count` headers describe live buffers of this outbox.
        let taken = unsafe {
            libc::sendmmsg(
                fd.as_raw_fd(),
                self.messages.as_mut_ptr(),
                count as u32,
                libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
            )
        };
        let taken = socket::check(taken)? as usize;
        self.waiting.drain(..taken).for_each(|letter| gone(letter.head));
        Ok(())
    }
}

impl Control {
    /// Has the answer go from that address; how many octets say so.
    fn says_source(&mut self, from: IpAddr) -> usize {
        match from {
            IpAddr::V4(address) => {
                let source = libc::in_addr { s_addr: u32::from_ne_bytes(address.octets()) };
                let any = libc::in_addr { s_addr: 0 };
                let info = libc::in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: source, ipi_addr: any };
                self.write(libc::IPPROTO_IP, libc::IP_PKTINFO, info)
            }
            IpAddr::V6(address) => {
                let source = libc::in6_addr { s6_addr: address.octets() };
                let info = libc::in6_pktinfo { ipi6_addr: source, ipi6_ifindex: 0 };
                self.write(libc::IPPROTO_IPV6, libc::IPV6_PKTINFO, info)
            }
        }
    }

    fn write<T>(&mut self, level: i32, kind: i32, info: T) -> usize {
        // SAFETY: CMSG_SPACE and CMSG_LEN only compute; the asserted room holds one message of this length, and a
        // header is aligned to 8 octets as these are.
        unsafe {
            let space = libc::CMSG_SPACE(size_of::<T>() as u32) as usize;
            assert!(space <= CONTROL_BYTES, "a control message has room");
            let header = self.0.as_mut_ptr().cast::<libc::cmsghdr>();
            (*header).cmsg_len = libc::CMSG_LEN(size_of::<T>() as u32) as _;
            (*header).cmsg_level = level;
            (*header).cmsg_type = kind;
            libc::CMSG_DATA(header).cast::<T>().write_unaligned(info);
            space
        }
    }
}

/// A message that has come.
pub enum Came {
    Whole(Head, Option<Return>),
    /// No message of this protocol.
    Garbled,
}

/// Room for one call of recvmmsg(2), and what its socket dropped so far.
pub struct Inbox {
    batch: ReceiveBatch,
    pub drops: u32,
}

impl Inbox {
    /// Of a connected socket.
    pub fn of_one() -> Self {
        Self { batch: ReceiveBatch::new(KEPT_BYTES), drops: 0 }
    }

    /// Of a socket that hears several, and answers each.
    pub fn of_many() -> Self {
        Self { batch: ReceiveBatch::with_senders(KEPT_BYTES), drops: 0 }
    }

    /// Takes what has come, in one call; whether there may be more. Octets of strangers, of which the kernel leaves
    /// none, are passed over.
    ///
    /// # Errors
    /// When the socket can be read no more.
    pub fn receive(
        &mut self,
        fd: &OwnedFd,
        mut came: impl FnMut(Came) -> anyhow::Result<()>,
    ) -> anyhow::Result<bool> {
        let count = match self.batch.receive(fd, libc::MSG_DONTWAIT | libc::MSG_TRUNC) {
            Ok(count) => count,
            Err(error) => {
                return match trouble(&error) {
                    Trouble::Again | Trouble::NoRoom => Ok(false),
                    Trouble::Refused => Ok(true), // of something that was sent before; nothing was taken
                    Trouble::Fatal => Err(error).context("cannot receive"),
                };
            }
        };
        for index in 0..count {
            let (octets, length) = self.batch.octets(index);
            if length == 0 {
                continue;
            }
            let head = Head::of_datagram(octets, length);
            let Some(head) = head else {
                came(Came::Garbled)?;
                continue;
            };
            let back = self.batch.sender(index).map(|to| Return { to, from: self.batch.notes(index).to });
            came(Came::Whole(head, back))?;
        }
        if count > 0 {
            self.drops = self.batch.notes(count - 1).drops.unwrap_or(self.drops);
        }
        Ok(count == MOST)
    }
}

/// The socket of a client, and what goes and comes by it.
pub struct Datagrams {
    pub fd: OwnedFd,
    pub outbox: Outbox,
    pub inbox: Inbox,
    pub tries: Tries,
}

impl Datagrams {
    /// From there to there.
    ///
    /// # Errors
    /// When a socket cannot be had.
    pub fn new([local, peer]: [SocketAddr; 2], own: &Parameters) -> anyhow::Result<Self> {
        let fd = socket::udp(local, false).with_context(|| format!("cannot bind UDP {local}"))?;
        socket::connect(&fd, peer).with_context(|| format!("cannot reach {peer}"))?;
        ready(&fd, own.buffers())?;
        let outbox = Outbox::new(own.request_bytes, 0x52);
        Ok(Self { fd, outbox, inbox: Inbox::of_one(), tries: Tries::new(own.connections) })
    }

    /// A request is to leave; the number of this try.
    pub fn put(&mut self, place: usize, own: &Parameters) -> u64 {
        let number = self.tries.next(place);
        let head = Head { bytes: own.request_bytes as u32, kind: Kind::Request, server: 0, number };
        self.outbox.push(head, None);
        number
    }

    /// Answers that the socket's buffer had no room for.
    pub const fn drops(&self) -> u32 {
        self.inbox.drops
    }
}
