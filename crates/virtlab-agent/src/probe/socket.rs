//! Sockets with kernel packet stamps: the few system calls that the standard library does not have.
//!
//! Receive stamps are taken when the kernel gets the packet from the interface; transmit stamps when it hands the
//! packet to the interface's queue discipline (`TX_SCHED`), so a wait in the sender's own queue belongs to the
//! path. Both are CLOCK_REALTIME. The transmit stamp is in the socket's error queue before `sendmsg` returns,
//! unless the neighbour was unknown; a socket that only sends keeps it away from the threads that sleep in a
//! receive.

use super::expected::{Otherwise, connect_to, only_from};
use anyhow::Context;
use std::cell::Cell;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use virtlab_wire::Nanos;

/// Largest datagram that can be received.
pub const MAXIMUM_DATAGRAM_BYTES: usize = 65_536;
/// A blocked send returns after this long, to see whether it should stop.
pub const SEND_TIMEOUT_US: i64 = 40_000;

/// A socket address as the kernel wants it.
pub struct RawAddress {
    pub storage: libc::sockaddr_storage,
    pub length: libc::socklen_t,
}

impl From<SocketAddr> for RawAddress {
    fn from(address: SocketAddr) -> Self {
        // SAFETY: all-zero bytes are a valid sockaddr_storage.
        let mut storage: libc::sockaddr_storage = unsafe { MaybeUninit::zeroed().assume_init() };
        let length = match address {
            SocketAddr::V4(v4) => {
                // SAFETY: sockaddr_storage is large enough and aligned for every sockaddr.
                let raw = unsafe { &mut *(&raw mut storage).cast::<libc::sockaddr_in>() };
                raw.sin_family = libc::AF_INET as u16;
                raw.sin_port = v4.port().to_be();
                raw.sin_addr.s_addr = u32::from_ne_bytes(v4.ip().octets());
                size_of::<libc::sockaddr_in>()
            }
            SocketAddr::V6(v6) => {
                // SAFETY: as above.
                let raw = unsafe { &mut *(&raw mut storage).cast::<libc::sockaddr_in6>() };
                raw.sin6_family = libc::AF_INET6 as u16;
                raw.sin6_port = v6.port().to_be();
                raw.sin6_addr.s6_addr = v6.ip().octets();
                raw.sin6_scope_id = v6.scope_id();
                size_of::<libc::sockaddr_in6>()
            }
        };
        Self { storage, length: length as libc::socklen_t }
    }
}

impl RawAddress {
    /// Back to an address; `None` for another family.
    pub fn to_address(storage: &libc::sockaddr_storage) -> Option<SocketAddr> {
        match i32::from(storage.ss_family) {
            libc::AF_INET => {
                // SAFETY: the family says which sockaddr the storage holds.
                let raw = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in>() };
                let ip = Ipv4Addr::from(raw.sin_addr.s_addr.to_ne_bytes());
                Some(SocketAddr::V4(SocketAddrV4::new(ip, u16::from_be(raw.sin_port))))
            }
            libc::AF_INET6 => {
                // SAFETY: as above.
                let raw = unsafe { &*(&raw const *storage).cast::<libc::sockaddr_in6>() };
                let ip = Ipv6Addr::from(raw.sin6_addr.s6_addr);
                Some(SocketAddr::V6(SocketAddrV6::new(ip, u16::from_be(raw.sin6_port), 0, raw.sin6_scope_id)))
            }
            _ => None,
        }
    }
}

/// Turns -1 into the system's error.
pub fn check(result: impl Into<i64>) -> io::Result<i64> {
    let result = result.into();
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

thread_local! {
    static CODE_POINT: Cell<u8> = const { Cell::new(0) };
}

/// IP sockets that `prepare` opens on this thread send with this code point (RFC 2474).
pub fn with_code_point<T>(dscp: u8, prepare: impl FnOnce() -> T) -> T {
    let before = CODE_POINT.replace(dscp);
    let prepared = prepare();
    CODE_POINT.set(before);
    prepared
}

/// The kernel also derives the socket's priority from it, for disciplines that choose a band by that.
fn write_code_point(fd: &OwnedFd, domain: i32) -> io::Result<()> {
    let tos = i32::from(CODE_POINT.get()) << 2;
    match domain {
        _ if tos == 0 => Ok(()),
        libc::AF_INET => set_option(fd, libc::IPPROTO_IP, libc::IP_TOS, tos),
        libc::AF_INET6 => set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_TCLASS, tos),
        _ => Ok(()),
    }
}

/// A new socket, closed in children.
pub fn open(domain: i32, kind: i32, protocol: i32) -> io::Result<OwnedFd> {
    // SAFETY: socket takes three numbers.
    let fd = check(unsafe { libc::socket(domain, kind | libc::SOCK_CLOEXEC, protocol) })?;
    // SAFETY: the descriptor was just opened and no other owns it.
    let fd = unsafe { OwnedFd::from_raw_fd(fd as RawFd) };
    write_code_point(&fd, domain)?;
    Ok(fd)
}

/// Address family of an address.
pub fn family(address: &SocketAddr) -> i32 {
    if address.is_ipv4() { libc::AF_INET } else { libc::AF_INET6 }
}

/// Sets an option that is any plain value.
pub fn set_option<T: Copy>(fd: &impl AsFd, level: i32, name: i32, value: T) -> io::Result<()> {
    // SAFETY: the pointer and length describe `value`, which the kernel copies.
    let result = unsafe {
        libc::setsockopt(
            fd.as_fd().as_raw_fd(),
            level,
            name,
            (&raw const value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    check(result).map(|_| ())
}

/// Binds to an address.
pub fn bind(fd: &impl AsFd, address: SocketAddr) -> io::Result<()> {
    let raw = RawAddress::from(address);
    // SAFETY: storage and length describe a valid socket address.
    check(unsafe { libc::bind(fd.as_fd().as_raw_fd(), (&raw const raw.storage).cast(), raw.length) })
        .map(|_| ())
}

/// Connects to an address.
pub fn connect(fd: &impl AsFd, address: SocketAddr) -> io::Result<()> {
    let raw = RawAddress::from(address);
    // SAFETY: as in `bind`.
    check(unsafe { libc::connect(fd.as_fd().as_raw_fd(), (&raw const raw.storage).cast(), raw.length) })
        .map(|_| ())
}

/// The address that a socket is bound to.
pub fn local_address(fd: &impl AsFd) -> io::Result<SocketAddr> {
    address(fd, libc::getsockname)
}

/// The address at the other end of a connection.
pub fn peer_address(fd: &impl AsFd) -> io::Result<SocketAddr> {
    address(fd, libc::getpeername)
}

type AddressCall = unsafe extern "C" fn(RawFd, *mut libc::sockaddr, *mut libc::socklen_t) -> libc::c_int;

fn address(fd: &impl AsFd, call: AddressCall) -> io::Result<SocketAddr> {
    let mut raw = RawAddress::from(SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), 0));
    raw.length = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
    // SAFETY: storage and length describe writable memory of that size.
    check(unsafe { call(fd.as_fd().as_raw_fd(), (&raw mut raw.storage).cast(), &raw mut raw.length) })?;
    RawAddress::to_address(&raw.storage).ok_or_else(|| io::Error::other("the socket has no IP address"))
}

/// Asks for a buffer of `bytes`, beyond the system's limit where that is allowed; returns what the kernel grants.
pub fn set_buffer(fd: &impl AsFd, receive: bool, bytes: usize) -> io::Result<usize> {
    let (forced, plain) = if receive {
        (libc::SO_RCVBUFFORCE, libc::SO_RCVBUF)
    } else {
        (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)
    };
    let value = i32::try_from(bytes).unwrap_or(i32::MAX);
    if set_option(fd, libc::SOL_SOCKET, forced, value).is_err() {
        set_option(fd, libc::SOL_SOCKET, plain, value)?;
    }
    get_option::<i32>(fd, libc::SOL_SOCKET, plain).map(|granted| granted as usize)
}

/// Gives a socket a buffer that the file requests, or refuses: where this process may not go beyond the system's limit,
/// the kernel would cut the buffer to it without a word. Of what it grants, half is for its own bookkeeping.
pub fn require_buffer(fd: &impl AsFd, receive: bool, bytes: u64) -> anyhow::Result<usize> {
    let (name, limit) =
        if receive { ("receive_buffer_bytes", "rmem_max") } else { ("send_buffer_bytes", "wmem_max") };
    let granted =
        set_buffer(fd, receive, usize::try_from(bytes)?).with_context(|| format!("parameters.{name}"))?;
    anyhow::ensure!(
        granted as u64 / 2 >= bytes,
        "parameters.{name}: {bytes} B were requested and {} B granted; raise net.core.{limit} on the machine, or \
         request less",
        granted / 2
    );
    Ok(granted)
}

/// Reads an option that is any plain value.
pub fn get_option<T: Copy + Default>(fd: &impl AsFd, level: i32, name: i32) -> io::Result<T> {
    let mut value = T::default();
    let mut length = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer and length describe `value`.
    check(unsafe {
        libc::getsockopt(fd.as_fd().as_raw_fd(), level, name, (&raw mut value).cast(), &raw mut length)
    })?;
    Ok(value)
}

/// Stamps on receive, and drops of the socket's own buffer counted in each message.
pub fn stamp_receives(fd: &impl AsFd) -> io::Result<()> {
    let flags = libc::SOF_TIMESTAMPING_RX_SOFTWARE | libc::SOF_TIMESTAMPING_SOFTWARE;
    set_option(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags)?;
    set_option(fd, libc::SOL_SOCKET, libc::SO_RXQ_OVFL, 1i32)
}

/// Has the kernel stamp from now on, for as long as this process lives. It begins to stamp a moment after the first
/// socket asks for it; the first packets of a role would go unstamped. A packet to itself over loopback shows when it
/// does; where loopback is down, the wait is over after 20 ms.
pub fn keep_stamping() {
    static STAMPING: std::sync::OnceLock<Option<OwnedFd>> = std::sync::OnceLock::new();
    STAMPING.get_or_init(|| {
        let socket = udp(SocketAddr::new(Ipv4Addr::LOCALHOST.into(), 0), false).ok()?;
        stamp_receives(&socket).ok()?;
        let itself = RawAddress::from(local_address(&socket).ok()?);
        let mut inbox = Inbox::new();
        for _ in 0..20 {
            let _ = send(socket.as_fd(), b"?", Some(&itself));
            let received = inbox.receive(socket.as_fd(), libc::MSG_DONTWAIT);
            if received.is_ok_and(|message| message.stamp.is_some()) {
                break;
            }
            super::pacing::sleep(Nanos(1_000_000));
        }
        Some(socket)
    });
}

/// Stamps on transmit, in the error queue, each with the number of its send call.
pub fn stamp_transmits(fd: &impl AsFd, also_receives: bool) -> io::Result<()> {
    let receives = if also_receives { libc::SOF_TIMESTAMPING_RX_SOFTWARE } else { 0 };
    let flags = libc::SOF_TIMESTAMPING_TX_SCHED
        | libc::SOF_TIMESTAMPING_SOFTWARE
        | libc::SOF_TIMESTAMPING_OPT_ID
        | libc::SOF_TIMESTAMPING_OPT_TSONLY
        | receives;
    set_option(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, flags)
}

/// No stamps any more.
pub fn stamp_nothing(fd: &impl AsFd) -> io::Result<()> {
    set_option(fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPING, 0i32)
}

/// A blocked send or receive returns after so long.
pub fn set_timeout(fd: &impl AsFd, option: i32, microseconds: i64) -> io::Result<()> {
    let value = libc::timeval { tv_sec: microseconds / 1_000_000, tv_usec: microseconds % 1_000_000 };
    set_option(fd, libc::SOL_SOCKET, option, value)
}

/// Lets IP fragment, in the sender and in routers: no DF bit.
pub fn allow_fragments(fd: &impl AsFd, version6: bool) -> io::Result<()> {
    if version6 {
        set_option(fd, libc::IPPROTO_IPV6, libc::IPV6_MTU_DISCOVER, libc::IPV6_PMTUDISC_DONT)
    } else {
        set_option(fd, libc::IPPROTO_IP, libc::IP_MTU_DISCOVER, libc::IP_PMTUDISC_DONT)
    }
}

/// A UDP socket bound to `address`, ready for measuring: fragments allowed, blocked sends bounded, large buffers.
pub fn udp(address: SocketAddr, share_port: bool) -> io::Result<OwnedFd> {
    let fd = open(family(&address), libc::SOCK_DGRAM, 0)?;
    if share_port {
        set_option(&fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1i32)?;
    }
    ready(fd, address)
}

/// The same for a server, which hears `peer` and no other.
pub fn udp_from(address: SocketAddr, peer: IpAddr) -> io::Result<OwnedFd> {
    let fd = open(family(&address), libc::SOCK_DGRAM, 0)?;
    only_from(&fd, peer, Otherwise::Empty)?;
    let fd = ready(fd, address)?;
    connect_to(&fd, peer)?;
    Ok(fd)
}

/// The same for a server that hears everybody, at a port of every address (of IPv4 alone where the kernel has no IPv6),
/// and is told to which of them each datagram came.
pub fn udp_from_all(port: u16) -> io::Result<OwnedFd> {
    let open_at = |address: IpAddr, (level, name): (i32, i32)| {
        let address = SocketAddr::new(address, port);
        let fd = open(family(&address), libc::SOCK_DGRAM, 0)?;
        if address.is_ipv6() {
            set_option(&fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 0i32)?;
            allow_fragments(&fd, false)?; // of IPv4, which it speaks, too
        }
        set_option(&fd, level, name, 1i32)?;
        ready(fd, address)
    };
    open_at(Ipv6Addr::UNSPECIFIED.into(), (libc::IPPROTO_IPV6, libc::IPV6_RECVPKTINFO))
        .or_else(|_| open_at(Ipv4Addr::UNSPECIFIED.into(), (libc::IPPROTO_IP, libc::IP_PKTINFO)))
}

fn ready(fd: OwnedFd, address: SocketAddr) -> io::Result<OwnedFd> {
    allow_fragments(&fd, address.is_ipv6())?;
    set_timeout(&fd, libc::SO_SNDTIMEO, SEND_TIMEOUT_US)?;
    bind(&fd, address)?;
    Ok(fd)
}

/// A message as received.
#[derive(Debug)]
pub struct Message<'a> {
    /// Its bytes.
    pub bytes: &'a [u8],
    /// The kernel's receive stamp (CLOCK_REALTIME).
    pub stamp: Option<Nanos>,
    /// Packets that the socket's buffer has dropped so far.
    pub drops: Option<u32>,
    from: &'a libc::sockaddr_storage,
}

impl Message<'_> {
    /// Who sent it.
    pub fn from(&self) -> Option<SocketAddr> {
        RawAddress::to_address(self.from)
    }
}

/// Room for one message.
pub struct Inbox {
    buffer: Vec<u8>,
    control: [u64; 32],
    from: libc::sockaddr_storage,
}

impl Inbox {
    /// Room for the largest datagram with its headers.
    pub fn new() -> Self {
        let RawAddress { storage, .. } = SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0).into();
        Self { buffer: vec![0; MAXIMUM_DATAGRAM_BYTES + 64], control: [0; 32], from: storage }
    }

    /// Receives one message into this room; blocks unless `flags` say otherwise.
    ///
    /// # Errors
    /// As recvmsg(2). An ICMP error that an earlier send caused arrives here too.
    pub fn receive(&mut self, fd: BorrowedFd<'_>, flags: i32) -> io::Result<Message<'_>> {
        let mut vector =
            libc::iovec { iov_base: self.buffer.as_mut_ptr().cast(), iov_len: self.buffer.len() };
        // SAFETY: all-zero bytes are a valid msghdr.
        let mut header: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
        header.msg_name = (&raw mut self.from).cast();
        header.msg_namelen = size_of::<libc::sockaddr_storage>() as libc::socklen_t;
        header.msg_iov = &raw mut vector;
        header.msg_iovlen = 1;
        header.msg_control = self.control.as_mut_ptr().cast();
        header.msg_controllen = size_of_val(&self.control) as _;
        // SAFETY: every pointer of the header describes memory of this Inbox, alive during the call.
        let length = check(unsafe { libc::recvmsg(fd.as_raw_fd(), &raw mut header, flags) } as i64)?;
        // SAFETY: the kernel filled the control buffer that the header describes.
        let notes = unsafe { notes_of(&header) };
        Ok(Message {
            bytes: &self.buffer[..length as usize],
            stamp: notes.stamp,
            drops: notes.drops,
            from: &self.from,
        })
    }

    /// The next transmit stamp in the error queue: number of the send call, and when (CLOCK_REALTIME).
    pub fn transmit_stamp(&mut self, fd: BorrowedFd<'_>) -> Option<(u32, Nanos)> {
        loop {
            let mut vector =
                libc::iovec { iov_base: self.buffer.as_mut_ptr().cast(), iov_len: self.buffer.len() };
            // SAFETY: all-zero bytes are a valid msghdr.
            let mut header: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
            header.msg_iov = &raw mut vector;
            header.msg_iovlen = 1;
            header.msg_control = self.control.as_mut_ptr().cast();
            header.msg_controllen = size_of_val(&self.control) as _;
            // SAFETY: as in `receive`.
            let result = unsafe {
                libc::recvmsg(fd.as_raw_fd(), &raw mut header, libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT)
            };
            if result < 0 {
                return None;
            }
            // SAFETY: as in `receive`.
            let notes = unsafe { notes_of(&header) };
            if let (Some(id), Some(stamp)) = (notes.send_number, notes.stamp) {
                return Some((id, stamp));
            }
        }
    }
}

/// What the kernel wrote beside a message.
#[derive(Clone, Copy, Debug, Default)]
pub struct Notes {
    /// Packet stamp.
    pub stamp: Option<Nanos>,
    /// Drops of the socket's buffer so far.
    pub drops: Option<u32>,
    /// Number of the send call that a transmit stamp is for.
    pub send_number: Option<u32>,
    /// The address of this guest to which it came, where the socket is told.
    pub to: Option<IpAddr>,
}

/// Reads the control messages of a received message.
///
/// # Safety
/// `header` describes a control buffer that the kernel has filled, 8-byte aligned and alive.
pub unsafe fn notes_of(header: &libc::msghdr) -> Notes {
    let mut notes = Notes::default();
    // SAFETY: the caller vouches for the buffer; the CMSG functions stay inside it.
    unsafe {
        let mut at = libc::CMSG_FIRSTHDR(header);
        while !at.is_null() {
            let data = libc::CMSG_DATA(at);
            match ((*at).cmsg_level, (*at).cmsg_type) {
                (libc::SOL_SOCKET, libc::SO_TIMESTAMPING) => {
                    let time = data.cast::<libc::timespec>().read_unaligned();
                    if time.tv_sec != 0 {
                        notes.stamp = Some(Nanos(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64));
                    }
                }
                (libc::SOL_SOCKET, libc::SO_RXQ_OVFL) => {
                    notes.drops = Some(data.cast::<u32>().read_unaligned())
                }
                (libc::IPPROTO_IP, libc::IP_RECVERR) | (libc::IPPROTO_IPV6, libc::IPV6_RECVERR) => {
                    let error = data.cast::<libc::sock_extended_err>().read_unaligned();
                    if error.ee_origin == libc::SO_EE_ORIGIN_TIMESTAMPING {
                        notes.send_number = Some(error.ee_data);
                    }
                }
                (libc::IPPROTO_IPV6, libc::IPV6_PKTINFO) => {
                    let info = data.cast::<libc::in6_pktinfo>().read_unaligned();
                    notes.to = Some(Ipv6Addr::from(info.ipi6_addr.s6_addr).into());
                }
                (libc::IPPROTO_IP, libc::IP_PKTINFO) => {
                    let info = data.cast::<libc::in_pktinfo>().read_unaligned();
                    notes.to = Some(Ipv4Addr::from(info.ipi_addr.s_addr.to_ne_bytes()).into());
                }
                _ => {}
            }
            at = libc::CMSG_NXTHDR(header, at);
        }
    }
    notes
}

/// Sends one datagram; `to` is needed where the socket is not connected. True when the kernel took it.
///
/// # Errors
/// As sendto(2).
pub fn send(fd: BorrowedFd<'_>, bytes: &[u8], to: Option<&RawAddress>) -> io::Result<()> {
    let (address, length) = to.map_or((std::ptr::null(), 0), |raw| (&raw const raw.storage, raw.length));
    // SAFETY: bytes and address are alive during the call.
    check(unsafe {
        libc::sendto(
            fd.as_raw_fd(),
            bytes.as_ptr().cast(),
            bytes.len(),
            libc::MSG_NOSIGNAL,
            address.cast(),
            length,
        )
    } as i64)
    .map(|_| ())
}

/// Sends an answer. The socket of a server is connected, so a call may report that an earlier answer found a closed
/// port; it has then sent nothing itself, and is repeated.
///
/// # Errors
/// As sendto(2).
pub fn answer(fd: BorrowedFd<'_>, bytes: &[u8], to: Option<&RawAddress>) -> io::Result<()> {
    match send(fd, bytes, to) {
        Err(error) if trouble(&error) == Trouble::Refused => send(fd, bytes, to),
        other => other,
    }
}

/// What an error of a send or receive means for a role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Nothing there, or a signal: try again.
    Again,
    /// The network said no to an earlier packet (port or host unreachable): count it.
    Refused,
    /// The send buffer or queue was full: the packet was not sent.
    NoRoom,
    /// Anything else: the role cannot continue.
    Fatal,
}

/// Sorts an error.
pub fn trouble(error: &io::Error) -> Trouble {
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EINTR | libc::ETIMEDOUT) => Trouble::Again,
        Some(libc::ECONNREFUSED | libc::EHOSTUNREACH | libc::ENETUNREACH | libc::EHOSTDOWN | libc::EPERM) => {
            Trouble::Refused
        }
        Some(libc::ENOBUFS | libc::ENOMEM) => Trouble::NoRoom,
        _ => Trouble::Fatal,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_survive_the_kernels_form() {
        for text in ["10.0.0.1:7", "[fd00::1]:9"] {
            let address: SocketAddr = text.parse().unwrap();
            assert_eq!(RawAddress::to_address(&RawAddress::from(address).storage), Some(address));
        }
    }

    #[test]
    fn sockets_opened_for_a_role_carry_its_code_point_and_later_ones_none() {
        let anywhere: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let marked = with_code_point(46, || udp(anywhere, false).unwrap());
        let tos = |fd| get_option::<i32>(fd, libc::IPPROTO_IP, libc::IP_TOS).unwrap();
        assert_eq!((tos(&marked), tos(&udp(anywhere, false).unwrap())), (46 << 2, 0));
    }

    #[test]
    fn a_datagram_over_loopback_carries_both_stamps() {
        let anywhere: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let (sender, receiver) = (udp(anywhere, false).unwrap(), udp(anywhere, false).unwrap());
        stamp_receives(&receiver).unwrap();
        stamp_transmits(&sender, false).unwrap();
        let to = RawAddress::from(local_address(&receiver).unwrap());
        let mut inbox = Inbox::new();
        // The kernel begins to stamp a moment after the first socket has requested it.
        for number in 0..1000 {
            send(sender.as_fd(), b"stamp me", Some(&to)).unwrap();
            let transmitted = inbox.transmit_stamp(sender.as_fd());
            let message = inbox.receive(receiver.as_fd(), 0).unwrap();
            assert_eq!((message.bytes, message.from()), (&b"stamp me"[..], local_address(&sender).ok()));
            if let (Some((id, transmitted)), Some(received)) = (transmitted, message.stamp) {
                assert_eq!(id, number);
                assert!(transmitted <= received);
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        panic!("the kernel never stamped");
    }
}
