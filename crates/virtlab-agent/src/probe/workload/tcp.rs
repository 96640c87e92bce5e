//! TCP connections as the measuring workloads need them: buffers set before the handshake, bounded waits, TCP_INFO.
//!
//! Socket buffers are set as netperf sets them: SO_SNDBUF and SO_RCVBUF before `connect` and `listen`, so that the
//! window scale of the handshake fits; the kernel doubles the value for its own bookkeeping. Absent means the
//! system's own sizes, with autotuning. A connection begins with 18 bytes that say which flow it is; they are not
//! counted.

use super::Arming;
use crate::probe::expected::{Otherwise, known, only_from};
use crate::probe::pacing::sleep;
use crate::probe::run::Run;
use crate::probe::socket::{self, Trouble, trouble};
use anyhow::Context;
use std::io;
use std::mem::MaybeUninit;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use virtlab_load::parameters::{Buffers, CongestionControl};
use virtlab_system::clock;
use virtlab_wire::Nanos;
use virtlab_wire::probe_header::{COMPACT_BYTES, ProbeHeader, Purpose};

/// A connection that does not come about within this fails the role.
const CONNECT_PATIENCE: Nanos = Nanos(5_000_000_000);
/// A blocked call returns after this, to see whether it should stop.
const TIMEOUT_US: i64 = 20_000;

/// Sets it and reads it back.
fn set_congestion_control(fd: &OwnedFd, wanted: CongestionControl) -> anyhow::Result<()> {
    let name = wanted.kernel_name();
    let mut applied = [0u8; 16]; // TCP_CA_NAME_MAX
    let mut length = applied.len() as libc::socklen_t;
    // SAFETY: pointers and lengths describe `name`, which the kernel copies, and `applied`, which it fills.
    let result = unsafe {
        let set = libc::setsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_CONGESTION,
            name.as_ptr().cast(),
            name.len() as libc::socklen_t,
        );
        if set < 0 {
            set
        } else {
            libc::getsockopt(
                fd.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_CONGESTION,
                applied.as_mut_ptr().cast(),
                &raw mut length,
            )
        }
    };
    socket::check(result).with_context(|| {
        format!("parameters.congestion_control: this kernel does not give '{name}'; load tcp_{name} or name another")
    })?;
    let applied = applied.split(|byte| *byte == 0).next().unwrap_or_default();
    anyhow::ensure!(
        applied == name.as_bytes(),
        "parameters.congestion_control: '{name}' was requested and '{}' is in force",
        String::from_utf8_lossy(applied)
    );
    Ok(())
}

/// Tells a socket what it has to know before its handshake.
fn apply(buffers: Buffers, fd: &OwnedFd) -> anyhow::Result<()> {
    if let Some(congestion_control) = buffers.congestion_control {
        set_congestion_control(fd, congestion_control)?;
    }
    for (receive, bytes) in [(false, buffers.send_bytes), (true, buffers.receive_bytes)] {
        if let Some(bytes) = bytes {
            socket::require_buffer(fd, receive, bytes)?;
        }
    }
    Ok(())
}

/// A listening socket of a server, and of a role's the peer whose connections alone it takes.
#[derive(Debug)]
pub struct Listener {
    fd: OwnedFd,
    peer: Option<IpAddr>,
}

/// Listens for the role's peer.
///
/// # Errors
/// When the address cannot be bound or a buffer is not granted.
pub fn listen(arming: &Arming<'_>, buffers: Buffers) -> anyhow::Result<(Listener, u16)> {
    let (address, peer) = (arming.local.socket_address("local")?, arming.peer.ip("peer")?);
    let fd = socket::open(socket::family(&address), libc::SOCK_STREAM, 0)?;
    match only_from(&fd, peer, Otherwise::Drop) {
        Err(error) if error.raw_os_error() == Some(libc::EPERM) => {} // `accept` looks at the peer
        filtered => filtered?,
    }
    listen_at(&fd, address, buffers)?;
    arming.run.wakes(&fd)?;
    let port = socket::local_address(&fd)?.port();
    Ok((Listener { fd, peer: Some(peer) }, port))
}

/// Listens for all clients that come, at a port of every address; of IPv4 alone where the kernel has no IPv6.
///
/// # Errors
/// When the port cannot be bound or a buffer is not granted.
pub fn listen_to_all(port: u16, buffers: Buffers) -> anyhow::Result<Listener> {
    let listen = |address: IpAddr| {
        let address = SocketAddr::new(address, port);
        let fd = socket::open(socket::family(&address), libc::SOCK_STREAM, 0)?;
        if address.is_ipv6() {
            socket::set_option(&fd, libc::IPPROTO_IPV6, libc::IPV6_V6ONLY, 0i32)?;
        }
        listen_at(&fd, address, buffers)?;
        Ok(Listener { fd, peer: None })
    };
    listen(Ipv6Addr::UNSPECIFIED.into()).or_else(|_: anyhow::Error| listen(Ipv4Addr::UNSPECIFIED.into()))
}

fn listen_at(fd: &OwnedFd, address: SocketAddr, buffers: Buffers) -> anyhow::Result<()> {
    socket::set_option(fd, libc::SOL_SOCKET, libc::SO_REUSEADDR, 1i32)?;
    apply(buffers, fd)?;
    socket::bind(fd, address).with_context(|| format!("cannot bind TCP {address}"))?;
    // SAFETY: listen takes a descriptor and a number.
    socket::check(unsafe { libc::listen(fd.as_raw_fd(), 1024) })?;
    Ok(())
}

impl AsFd for Listener {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// The next connection, with these flags of accept4(2); `None` for one that does not come from the role's peer.
///
/// # Errors
/// As accept(2).
pub fn accept_one(listener: &Listener, flags: i32) -> io::Result<Option<OwnedFd>> {
    // SAFETY: no address is requested; the new descriptor is owned below.
    let accepted = socket::check(unsafe {
        libc::accept4(
            listener.fd.as_raw_fd(),
            std::ptr::null_mut(),
            std::ptr::null_mut(),
            flags | libc::SOCK_CLOEXEC,
        )
    })?;
    // SAFETY: accept4 just opened it and no other owns it.
    let fd = unsafe { <OwnedFd as std::os::fd::FromRawFd>::from_raw_fd(accepted as i32) };
    if let Some(peer) = listener.peer {
        if !socket::peer_address(&fd).is_ok_and(|from| from.ip().to_canonical() == peer) {
            return Ok(None);
        }
        known(&fd);
    }
    Ok(Some(fd))
}

/// The next connection and the flow that it says it is; `None` when the role is stopped.
///
/// # Errors
/// When no more connections can be accepted.
pub fn accept(run: &Run, listener: &Listener) -> anyhow::Result<Option<(OwnedFd, u16)>> {
    while !run.stopped() {
        let fd = match accept_one(listener, 0) {
            Ok(Some(fd)) => fd,
            Ok(None) => continue,
            Err(_) if run.stopped() => break,
            Err(error) if trouble(&error) == Trouble::Again => continue,
            Err(error) => return Err(error).context("cannot accept a connection"),
        };
        bound_waits(&fd)?;
        let mut head = [0; COMPACT_BYTES];
        // One that says nothing, or breaks before, is no flow and keeps none waiting for long.
        let late = clock::raw() + CONNECT_PATIENCE;
        if matches!(fill(run, &fd, &mut head, 0, Some(late)), Ok(true))
            && let Some(header) = ProbeHeader::read(&head)
        {
            return Ok(Some((fd, header.flow)));
        }
    }
    Ok(None)
}

/// Begins a connection that says nothing of itself, without waiting: it is there when it can be written to.
///
/// # Errors
/// When a buffer is not granted or the kernel has no way there.
pub fn dial(local: SocketAddr, peer: SocketAddr, buffers: Buffers) -> anyhow::Result<OwnedFd> {
    let fd = socket::open(socket::family(&peer), libc::SOCK_STREAM | libc::SOCK_NONBLOCK, 0)?;
    apply(buffers, &fd)?;
    // A port is chosen with the peer, so that as many connections may end within a minute as there are pairs of ports.
    socket::set_option(&fd, libc::IPPROTO_IP, libc::IP_BIND_ADDRESS_NO_PORT, 1i32)?;
    socket::bind(&fd, local).with_context(|| format!("cannot bind TCP {local}"))?;
    set_no_delay(&fd)?;
    match socket::connect(&fd, peer) {
        Err(error) if error.raw_os_error() != Some(libc::EINPROGRESS) => {
            Err(error).with_context(|| format!("cannot connect to {peer}"))
        }
        _ => Ok(fd),
    }
}

/// Connects flow `flow`.
///
/// # Errors
/// When a buffer is not granted or the peer does not answer in time.
pub fn connect(
    run: &Run,
    local: SocketAddr,
    peer: SocketAddr,
    buffers: Buffers,
    no_delay: bool,
    flow: u16,
) -> anyhow::Result<OwnedFd> {
    let begun = clock::raw();
    let fd = loop {
        let fd = socket::open(socket::family(&peer), libc::SOCK_STREAM, 0)?;
        apply(buffers, &fd)?;
        socket::bind(&fd, local).with_context(|| format!("cannot bind TCP {local}"))?;
        // The kernel's own patience is minutes; SO_SNDTIMEO bounds connect(2), too.
        socket::set_timeout(&fd, libc::SO_SNDTIMEO, 1_000_000)?;
        match socket::connect(&fd, peer) {
            Ok(()) => break fd,
            Err(error) if run.stopped() || clock::raw().since(begun) > CONNECT_PATIENCE => {
                return Err(error).with_context(|| format!("cannot connect to {peer}"));
            }
            Err(_) => sleep(Nanos(20_000_000)),
        }
    };
    bound_waits(&fd)?;
    if no_delay {
        set_no_delay(&fd)?;
    }
    let mut head = [0; COMPACT_BYTES];
    ProbeHeader { purpose: Purpose::Register, flow, seq: 0, sent: begun, intended: None }.write(&mut head);
    anyhow::ensure!(write_whole(run, &fd, &head)?, "the connection to {peer} ended at once");
    Ok(fd)
}

/// Switches Nagle's algorithm off.
///
/// # Errors
/// As setsockopt(2).
pub fn set_no_delay(fd: &OwnedFd) -> io::Result<()> {
    socket::set_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1i32)
}

fn bound_waits(fd: &OwnedFd) -> io::Result<()> {
    socket::set_timeout(fd, libc::SO_SNDTIMEO, TIMEOUT_US)?;
    socket::set_timeout(fd, libc::SO_RCVTIMEO, TIMEOUT_US)
}

/// One read; 0 at the end of the connection.
///
/// # Errors
/// As recv(2).
pub fn read(fd: &OwnedFd, buffer: &mut [u8], flags: i32) -> io::Result<usize> {
    // SAFETY: the buffer is valid for its length.
    let count =
        unsafe { libc::recv(fd.as_fd().as_raw_fd(), buffer.as_mut_ptr().cast(), buffer.len(), flags) };
    socket::check(count as i64).map(|count| count as usize)
}

/// One write.
///
/// # Errors
/// As send(2).
pub fn write(fd: &OwnedFd, bytes: &[u8]) -> io::Result<usize> {
    write_with(fd, bytes, 0)
}

/// The same with flags.
///
/// # Errors
/// As send(2).
pub fn write_with(fd: &OwnedFd, bytes: &[u8], flags: i32) -> io::Result<usize> {
    let flags = flags | libc::MSG_NOSIGNAL;
    // SAFETY: the bytes are valid for their length.
    let count = unsafe { libc::send(fd.as_fd().as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), flags) };
    socket::check(count as i64).map(|count| count as usize)
}

/// Fills `buffer`, with these flags for each read; false when the connection or the role ends before.
///
/// # Errors
/// When the connection breaks.
pub fn read_whole_with(run: &Run, fd: &OwnedFd, buffer: &mut [u8], flags: i32) -> io::Result<bool> {
    fill(run, fd, buffer, flags, None)
}

/// The same; false after `late`, too.
fn fill(run: &Run, fd: &OwnedFd, buffer: &mut [u8], flags: i32, late: Option<Nanos>) -> io::Result<bool> {
    let mut filled = 0;
    while filled < buffer.len() {
        match read(fd, &mut buffer[filled..], flags) {
            Ok(0) => return Ok(false),
            Ok(count) => filled += count,
            Err(error) if trouble(&error) == Trouble::Again => {}
            Err(error) => return Err(error),
        }
        let over = run.stopped() || late.is_some_and(|late| clock::raw() > late);
        if over && filled < buffer.len() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Writes all bytes; false when the role ends before.
///
/// # Errors
/// When the connection breaks.
pub fn write_whole(run: &Run, fd: &OwnedFd, mut bytes: &[u8]) -> io::Result<bool> {
    while !bytes.is_empty() {
        match write(fd, bytes) {
            Ok(count) => bytes = &bytes[count..],
            Err(error) if trouble(&error) == Trouble::Again => {
                if run.stopped() {
                    return Ok(false);
                }
            }
            Err(error) => return Err(error),
        }
    }
    Ok(true)
}

/// How long ago the newest data of a connection came; what may be less than a tick of the kernel is nothing.
pub fn since_data(fd: &OwnedFd) -> Option<Nanos> {
    const TICK: Nanos = Nanos(10_000_000);
    let since = info(fd).ok()?.since_data;
    Some(if since > TICK { since } else { Nanos::ZERO })
}

/// What TCP knows of a connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct Info {
    /// Segments sent again, so far.
    pub retransmits: u64,
    /// Smoothed round-trip time.
    pub srtt: Nanos,
    /// Congestion window in segments.
    pub cwnd_packets: u64,
    /// Since the newest data came, in the kernel's ticks of up to 10 ms.
    pub since_data: Nanos,
}

/// Reads TCP_INFO.
///
/// # Errors
/// As getsockopt(2).
pub fn info(fd: &OwnedFd) -> io::Result<Info> {
    // SAFETY: all-zero bytes are a valid tcp_info.
    let mut raw: libc::tcp_info = unsafe { MaybeUninit::zeroed().assume_init() };
    let mut length = size_of::<libc::tcp_info>() as libc::socklen_t;
    // SAFETY: pointer and length describe `raw`.
    socket::check(unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            (&raw mut raw).cast(),
            &raw mut length,
        )
    })?;
    Ok(Info {
        retransmits: u64::from(raw.tcpi_total_retrans),
        srtt: Nanos(u64::from(raw.tcpi_rtt) * 1000),
        cwnd_packets: u64::from(raw.tcpi_snd_cwnd),
        since_data: Nanos(u64::from(raw.tcpi_last_data_recv) * 1_000_000),
    })
}
