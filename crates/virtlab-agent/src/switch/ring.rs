//! A receive ring of one physical port: frames with the kernel's arrival stamps, in memory shared with the kernel.
//!
//! TPACKET_V2, because it hands over frame by frame (V3 hands over blocks, a millisecond later). Stamps are
//! CLOCK_REALTIME, taken where the frame enters the interface (SO_TIMESTAMPNS turns that on), before the ring is
//! filled.

use anyhow::{Context, bail};
use nix::errno::Errno;
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};
use virtlab_wire::Nanos;
use virtlab_wire::ethernet::HEADER_BYTES;

/// Frames that a ring holds: 6 ms of full-size frames at 1 Gbit/s.
pub const RING_FRAMES: usize = 512;
/// Room for two VLAN tags behind the MTU.
const TAGS_BYTES: usize = 8;
const PACKET_IGNORE_OUTGOING: libc::c_int = 23;
const TP_STATUS_VLAN_TPID_VALID: u32 = 1 << 6;

/// A frame in the ring, valid until the callback that sees it returns.
pub struct Received<'a> {
    /// From the Ethernet header on; a tag that the kernel took out is not in it, see `tag`.
    pub bytes: &'a [u8],
    /// Whole length; more than `bytes` has when the frame did not fit.
    pub length: usize,
    /// Protocol identifier and control information of a tag that the kernel took out.
    pub tag: Option<(u16, u16)>,
    /// Its transport checksum is not finished: the sender relies on an offload that no wire has.
    pub checksum_missing: bool,
    /// Arrival on CLOCK_REALTIME.
    pub stamp: Nanos,
}

/// A TPACKET_V2 ring bound to one interface.
pub struct Ring {
    fd: OwnedFd,
    map: NonNull<u8>,
    map_bytes: usize,
    slot_bytes: usize,
    head: usize,
    /// Index of the interface.
    pub ifindex: libc::c_int,
    drops: u64,
}

impl Ring {
    /// Opens a ring on `ifname` in the network namespace of this process.
    ///
    /// # Errors
    /// When the interface does not exist, or packet sockets are not allowed.
    pub fn open(ifname: &str, mtu_bytes: usize) -> anyhow::Result<Self> {
        let ifindex = interface_index(ifname)?;
        let fd = packet_socket()?;
        set_option(&fd, libc::SOL_PACKET, libc::PACKET_VERSION, &libc::tpacket_versions::TPACKET_V2)
            .context("the kernel has no TPACKET_V2 rings")?;
        set_option(&fd, libc::SOL_PACKET, PACKET_IGNORE_OUTGOING, &1i32)
            .context("the kernel has no PACKET_IGNORE_OUTGOING (Linux 4.20 or newer has)")?;
        set_option(&fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &1i32)?;
        let headroom = libc::TPACKET2_HDRLEN + 16 + libc::TPACKET_ALIGNMENT;
        let slot_bytes = (headroom + HEADER_BYTES as usize + TAGS_BYTES + mtu_bytes).next_power_of_two();
        let block_bytes = slot_bytes.max(1 << 16);
        let map_bytes = slot_bytes * RING_FRAMES;
        let request = libc::tpacket_req {
            tp_block_size: block_bytes as u32,
            tp_block_nr: (map_bytes / block_bytes) as u32,
            tp_frame_size: slot_bytes as u32,
            tp_frame_nr: RING_FRAMES as u32,
        };
        set_option(&fd, libc::SOL_PACKET, libc::PACKET_RX_RING, &request)
            .with_context(|| format!("no memory for a receive ring of {map_bytes} bytes"))?;
        // SAFETY: a fresh shared mapping of the socket's ring, of the size just requested.
        let map = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                map_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if map == libc::MAP_FAILED {
            return Err(io::Error::last_os_error()).context("the receive ring cannot be mapped");
        }
        let map = NonNull::new(map.cast()).expect("a mapping is not at address zero");
        let ring = Self { fd, map, map_bytes, slot_bytes, head: 0, ifindex, drops: 0 };
        bind(&ring.fd, ifindex, libc::ETH_P_ALL as u16)
            .with_context(|| format!("cannot listen on '{ifname}'"))?;
        Ok(ring)
    }

    /// The socket, to wait on it.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Whether a frame waits.
    pub fn ready(&self) -> bool {
        self.status().load(Ordering::Acquire) & libc::TP_STATUS_USER != 0
    }

    /// Shows the next frame to `see` and gives its place back to the kernel; `None` when none waits.
    pub fn take<R>(&mut self, see: impl FnOnce(Received<'_>) -> R) -> Option<R> {
        let status = self.status().load(Ordering::Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the slot belongs to us while TP_STATUS_USER is set; the kernel wrote a tpacket2_hdr at its beginning.
        let header = unsafe { self.slot().cast::<libc::tpacket2_hdr>().read() };
        let captured = (header.tp_snaplen as usize).min(self.slot_bytes.saturating_sub(header.tp_mac.into()));
        // SAFETY: the frame's bytes begin `tp_mac` into the slot and end inside it, as bounded above.
        let bytes =
            unsafe { std::slice::from_raw_parts(self.slot().add(header.tp_mac.into()).as_ptr(), captured) };
        let tag = (status & libc::TP_STATUS_VLAN_VALID != 0).then(|| {
            let known = status & TP_STATUS_VLAN_TPID_VALID != 0;
            (if known { header.tp_vlan_tpid } else { 0x8100 }, header.tp_vlan_tci)
        });
        let result = see(Received {
            bytes,
            length: header.tp_len as usize,
            tag,
            checksum_missing: status & libc::TP_STATUS_CSUMNOTREADY != 0,
            stamp: Nanos(u64::from(header.tp_sec) * 1_000_000_000 + u64::from(header.tp_nsec)),
        });
        self.status().store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.head = (self.head + 1) % RING_FRAMES;
        Some(result)
    }

    /// Frames so far that found the ring full.
    pub fn drops(&mut self) -> u64 {
        let mut statistics = libc::tpacket_stats { tp_packets: 0, tp_drops: 0 };
        let mut length = size_of_val(&statistics) as libc::socklen_t;
        // SAFETY: the kernel writes at most `length` bytes into `statistics`; reading resets its counters.
        let result = unsafe {
            libc::getsockopt(
                self.fd.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut statistics).cast(),
                &raw mut length,
            )
        };
        if result == 0 {
            self.drops += u64::from(statistics.tp_drops);
        }
        self.drops
    }

    /// Counts drops from zero again.
    pub fn forget_drops(&mut self) {
        self.drops();
        self.drops = 0;
    }

    fn slot(&self) -> NonNull<u8> {
        // SAFETY: `head` is below RING_FRAMES, so the slot lies inside the mapping.
        unsafe { self.map.add(self.head * self.slot_bytes) }
    }

    fn status(&self) -> &AtomicU32 {
        // SAFETY: a slot begins with its 32-bit status, aligned, shared with the kernel, alive as long as the mapping.
        unsafe { AtomicU32::from_ptr(self.slot().as_ptr().cast()) }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours and nothing borrows from it any more.
        unsafe { libc::munmap(self.map.as_ptr().cast(), self.map_bytes) };
    }
}

/// A raw packet socket that receives nothing until it is bound.
pub fn packet_socket() -> anyhow::Result<OwnedFd> {
    // SAFETY: a plain system call; the descriptor that it gives is owned from here on.
    let fd = unsafe {
        libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK, 0)
    };
    if fd < 0 {
        let error = Errno::last();
        if error == Errno::EPERM {
            bail!(
                "packet sockets are not allowed here; run the switch in a network namespace of its own user namespace"
            );
        }
        return Err(error).context("cannot open a packet socket");
    }
    // SAFETY: `fd` was just opened and no other owns it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Sets a socket option to a plain value.
pub fn set_option<T>(fd: &OwnedFd, level: libc::c_int, name: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: the kernel reads `size_of::<T>()` bytes of a plain C value that outlives the call.
    let result = unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            name,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// The link-layer address of an interface, for `bind` and `sendmmsg`.
pub fn link_address(ifindex: libc::c_int, protocol: u16) -> libc::sockaddr_ll {
    // SAFETY: an all-zero sockaddr_ll is a valid value.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = ifindex;
    address.sll_halen = 6;
    address
}

fn bind(fd: &OwnedFd, ifindex: libc::c_int, protocol: u16) -> io::Result<()> {
    let address = link_address(ifindex, protocol);
    // SAFETY: the kernel reads one sockaddr_ll.
    let result = unsafe {
        libc::bind(
            fd.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn interface_index(ifname: &str) -> anyhow::Result<libc::c_int> {
    let name = CString::new(ifname).context("an interface name has no zero byte")?;
    // SAFETY: `name` is a C string that outlives the call.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => bail!(
            "there is no interface '{ifname}' in the switch's network namespace; create it before configure"
        ),
        index => Ok(index as libc::c_int),
    }
}
