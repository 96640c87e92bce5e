//! Packet sockets with memory-mapped rings: frames in and out without a copy per system call.
//!
//! Transmit: TPACKET_V2, a ring of equal slots; user space fills slots and marks them, one `send` hands all marked
//! slots to the interface's queue discipline (which is not bypassed), and the kernel marks each free again once its
//! frame is gone. A slot begins with a virtio-net header that has the kernel copy the whole front of the frame:
//! where a guest on the way forwards, the kernel frees the slot while the frame still waits in a queue, and a front
//! that stayed in the slot would be overwritten by a later frame's. Receive: TPACKET_V3, a ring of blocks that the
//! kernel fills with as many frames as fit and hands over when full or after a time; each frame has its kernel
//! stamp, so a late hand-over costs no accuracy. Frames that found no room in the ring are counted by the kernel.

use crate::probe::socket;
use anyhow::Context;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use virtlab_wire::Nanos;

/// EtherType for local experiments (IEEE 802), which raw streams use.
pub const ETHERTYPE: u16 = 0x88B5;
/// Frames that wait in a transmit ring at most; below the 1000 of a default queue, so the ring fills before it does.
pub const TRANSMIT_SLOTS: u32 = 512;
/// Bytes of each received frame that are kept.
pub const SNAP_BYTES: u32 = 64;
const PACKET_VNET_HDR: i32 = 15;
const BLOCK_BYTES: u32 = 256 << 10;
const LARGEST_RECEIVE_RING_BYTES: u32 = 64 << 20;
const SMALLEST_RECEIVE_RING_BYTES: u32 = 1 << 20;
/// A block that is not full is handed over after this.
const RETIRE_MS: u32 = 4;
const TRANSMIT_OFFSET: usize = size_of::<libc::tpacket2_hdr>().next_multiple_of(16);
/// `struct virtio_net_hdr`: flags u8, gso type u8, header length u16, gso size u16, checksum start u16 and offset u16.
const VNET_BYTES: usize = 10;
/// Bytes of a frame that the kernel copies out of the slot: all headers and the probe's.
const COPIED_BYTES: usize = 96;

/// Memory that the kernel shares.
struct Mapping {
    start: *mut u8,
    length: usize,
}

// SAFETY: the mapping is plain memory, owned by one ring; its address does not belong to a thread.
unsafe impl Send for Mapping {}

impl Mapping {
    fn new(fd: &OwnedFd, length: usize) -> io::Result<Self> {
        // SAFETY: maps a ring of that length, which the kernel checks; the result is checked below.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            Err(io::Error::last_os_error())
        } else {
            Ok(Self { start: start.cast(), length })
        }
    }

    /// The status word at a byte offset, which the kernel reads and writes too.
    fn status(&self, offset: usize) -> &AtomicU32 {
        assert!(offset + 4 <= self.length && offset.is_multiple_of(4));
        // SAFETY: inside the mapping and aligned; the kernel treats the word as shared, and so does AtomicU32.
        unsafe { AtomicU32::from_ptr(self.start.add(offset).cast()) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made by `new` with this length and nothing refers into it any more.
        unsafe { libc::munmap(self.start.cast(), self.length) };
    }
}

fn packet_socket(version: i32) -> anyhow::Result<OwnedFd> {
    let fd = socket::open(libc::AF_PACKET, libc::SOCK_RAW, 0)
        .context("packet sockets are not allowed here; give the guest CAP_NET_RAW")?;
    socket::set_option(&fd, libc::SOL_PACKET, libc::PACKET_VERSION, version)?;
    Ok(fd)
}

fn bind(fd: &OwnedFd, interface: i32, protocol: u16) -> io::Result<()> {
    // SAFETY: all-zero bytes are a valid sockaddr_ll.
    let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
    address.sll_family = libc::AF_PACKET as u16;
    address.sll_protocol = protocol.to_be();
    address.sll_ifindex = interface;
    // SAFETY: the address and its length are valid during the call.
    let result = unsafe {
        libc::bind(
            fd.as_raw_fd(),
            (&raw const address).cast(),
            size_of::<libc::sockaddr_ll>() as libc::socklen_t,
        )
    };
    socket::check(result).map(|_| ())
}

/// Index of an interface of this guest.
///
/// # Errors
/// If the name is unknown.
pub fn interface_index(name: &str) -> anyhow::Result<i32> {
    nix::net::if_::if_nametoindex(name)
        .map(|index| index as i32)
        .with_context(|| format!("no interface '{name}' here"))
}

/// How long a call that sends may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Patience {
    /// Until every frame of the ring is gone: out of the last queue on its way to another machine or to a process,
    /// as a frame keeps its slot through veths, bridges and queues. So no receiver is overrun, and what is sent
    /// follows what is taken.
    UntilGone,
    /// Not at all: what queues do with the frames is theirs, until all slots are taken.
    None,
}

/// Frames out.
pub struct TransmitRing {
    fd: OwnedFd,
    memory: Mapping,
    slot_bytes: usize,
    next: usize,
}

impl TransmitRing {
    /// A ring on an interface for frames of at most `frame_bytes` (no FCS).
    ///
    /// # Errors
    /// When the guest does not allow packet sockets or has no memory for the ring.
    pub fn open(interface: i32, frame_bytes: usize) -> anyhow::Result<Self> {
        let fd = packet_socket(libc::tpacket_versions::TPACKET_V2 as i32)?;
        // A malformed slot is skipped instead of stopping the ring.
        socket::set_option(&fd, libc::SOL_PACKET, libc::PACKET_LOSS, 1i32)?;
        socket::set_option(&fd, libc::SOL_PACKET, PACKET_VNET_HDR, 1i32)?;
        let slot_bytes = (TRANSMIT_OFFSET + VNET_BYTES + frame_bytes).next_power_of_two().max(128);
        let block_bytes = slot_bytes.max(4096) as u32;
        let per_block = block_bytes / slot_bytes as u32;
        let request = libc::tpacket_req {
            tp_block_size: block_bytes,
            tp_block_nr: TRANSMIT_SLOTS / per_block,
            tp_frame_size: slot_bytes as u32,
            tp_frame_nr: TRANSMIT_SLOTS / per_block * per_block,
        };
        socket::set_option(&fd, libc::SOL_PACKET, libc::PACKET_TX_RING, request)
            .context("no memory for a transmit ring")?;
        socket::set_buffer(&fd, false, 4 << 20)?;
        socket::set_timeout(&fd, libc::SO_SNDTIMEO, socket::SEND_TIMEOUT_US)?;
        let memory = Mapping::new(&fd, (request.tp_block_size * request.tp_block_nr) as usize)?;
        bind(&fd, interface, 0)?;
        let mut ring = Self { fd, memory, slot_bytes, next: 0 };
        let mut vnet = [0; VNET_BYTES];
        vnet[2..4].copy_from_slice(&(frame_bytes.min(COPIED_BYTES) as u16).to_ne_bytes());
        for slot in 0..ring.slots() {
            ring.bytes(slot, VNET_BYTES + frame_bytes)[..VNET_BYTES].copy_from_slice(&vnet);
        }
        Ok(ring)
    }

    fn slots(&self) -> usize {
        self.memory.length / self.slot_bytes
    }

    /// Bytes of a slot behind its header; the kernel must not have it.
    fn bytes(&mut self, slot: usize, length: usize) -> &mut [u8] {
        assert!(TRANSMIT_OFFSET + length <= self.slot_bytes && slot < self.slots());
        let offset = slot * self.slot_bytes + TRANSMIT_OFFSET;
        // SAFETY: the bytes lie inside the mapping, and the kernel does not touch a slot that is not marked.
        unsafe { std::slice::from_raw_parts_mut(self.memory.start.add(offset), length) }
    }

    /// The same content into all slots, before the first is sent.
    pub fn fill(&mut self, frame: &[u8]) {
        for slot in 0..self.slots() {
            self.bytes(slot, VNET_BYTES + frame.len())[VNET_BYTES..].copy_from_slice(frame);
        }
    }

    /// Number of the slot `index` after the next one to be sent.
    pub fn place(&self, index: usize) -> usize {
        (self.next + index) % self.slots()
    }

    /// The frame in the slot `index` after the next one to be sent; `None` while the kernel still has it.
    pub fn slot(&mut self, index: usize, frame_bytes: usize) -> Option<&mut [u8]> {
        let slot = self.place(index);
        let status = self.memory.status(slot * self.slot_bytes).load(Ordering::Acquire);
        if status & (libc::TP_STATUS_SEND_REQUEST | libc::TP_STATUS_SENDING) != 0 {
            return None;
        }
        Some(&mut self.bytes(slot, VNET_BYTES + frame_bytes)[VNET_BYTES..])
    }

    /// Marks the next `count` slots and has the kernel send them.
    ///
    /// # Errors
    /// As send(2); slots that it did not take stay marked and go with the next call.
    pub fn send(&mut self, count: usize, frame_bytes: usize, patience: Patience) -> io::Result<()> {
        for index in 0..count {
            let offset = (self.next + index) % self.slots() * self.slot_bytes;
            // SAFETY: the header stands at the slot's start, inside the mapping; the kernel does not touch it yet.
            unsafe {
                let header = self.memory.start.add(offset).cast::<libc::tpacket2_hdr>();
                (*header).tp_len = (VNET_BYTES + frame_bytes) as u32;
                (*header).tp_snaplen = (VNET_BYTES + frame_bytes) as u32;
            }
            self.memory.status(offset).store(libc::TP_STATUS_SEND_REQUEST, Ordering::Release);
        }
        self.next = (self.next + count) % self.slots();
        self.flush(patience)
    }

    /// Has the kernel send what is marked.
    ///
    /// # Errors
    /// As send(2).
    pub fn flush(&mut self, patience: Patience) -> io::Result<()> {
        let flags = match patience {
            Patience::UntilGone => libc::MSG_NOSIGNAL,
            Patience::None => libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT,
        };
        // SAFETY: no buffer is passed; the kernel reads the ring.
        let taken = unsafe { libc::send(self.fd.as_raw_fd(), std::ptr::null(), 0, flags) };
        socket::check(taken as i64)?;
        Ok(())
    }

    /// Waits until a slot may be free, at most so long.
    pub fn wait_for_slot(&self, most_ms: u8) {
        let _ = poll(&mut [PollFd::new(self.fd.as_fd(), PollFlags::POLLOUT)], PollTimeout::from(most_ms));
    }

    /// Slots marked but not yet taken by the kernel, after a failed call.
    pub fn waiting(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.slots()).filter(|slot| {
            self.memory.status(slot * self.slot_bytes).load(Ordering::Acquire) & libc::TP_STATUS_SEND_REQUEST
                != 0
        })
    }
}

/// A received frame.
#[derive(Debug)]
pub struct Frame<'a> {
    /// Its first bytes.
    pub bytes: &'a [u8],
    /// Its whole length, without FCS.
    pub length: usize,
    /// When the kernel got it (CLOCK_REALTIME).
    pub stamp: Nanos,
}

/// Frames in.
pub struct ReceiveRing {
    fd: OwnedFd,
    memory: Mapping,
    blocks: usize,
    next: usize,
    /// Bytes of the ring.
    pub ring_bytes: u32,
}

impl ReceiveRing {
    /// A ring on an interface for frames of [`ETHERTYPE`], or for UDP over IPv4 to one port (no options, no fragments).
    ///
    /// # Errors
    /// When the guest does not allow packet sockets or has no memory for the ring.
    pub fn open(interface: i32, udp_port: Option<u16>) -> anyhow::Result<Self> {
        let fd = packet_socket(libc::tpacket_versions::TPACKET_V3 as i32)?;
        // The filter keeps the first bytes only; the frame's length is told beside them.
        let instruction = |code: u32, k: u32, jf: u8| libc::sock_filter { code: code as u16, jt: 0, jf, k };
        let keep = instruction(libc::BPF_RET | libc::BPF_K, SNAP_BYTES, 0);
        let equal = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
        let filter = match udp_port {
            None => vec![keep],
            Some(port) => vec![
                // Version 4 and 20 B of header; protocol; destination port; else nothing is kept.
                instruction(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 14, 0),
                instruction(equal, 0x45, 5),
                instruction(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 23, 0),
                instruction(equal, libc::IPPROTO_UDP as u32, 3),
                instruction(libc::BPF_LD | libc::BPF_H | libc::BPF_ABS, 36, 0),
                instruction(equal, u32::from(port), 1),
                keep,
                instruction(libc::BPF_RET | libc::BPF_K, 0, 0),
            ],
        };
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
        socket::set_option(&fd, libc::SOL_SOCKET, libc::SO_ATTACH_FILTER, program)?;
        let mut ring_bytes = LARGEST_RECEIVE_RING_BYTES;
        loop {
            let request = libc::tpacket_req3 {
                tp_block_size: BLOCK_BYTES,
                tp_block_nr: ring_bytes / BLOCK_BYTES,
                tp_frame_size: 2048,
                tp_frame_nr: ring_bytes / 2048,
                tp_retire_blk_tov: RETIRE_MS,
                tp_sizeof_priv: 0,
                tp_feature_req_word: 0,
            };
            match socket::set_option(&fd, libc::SOL_PACKET, libc::PACKET_RX_RING, request) {
                Ok(()) => break,
                Err(error) if ring_bytes <= SMALLEST_RECEIVE_RING_BYTES => {
                    return Err(error).context("no memory for a receive ring");
                }
                Err(_) => ring_bytes /= 2,
            }
        }
        let memory = Mapping::new(&fd, ring_bytes as usize)?;
        bind(&fd, interface, if udp_port.is_some() { libc::ETH_P_IP as u16 } else { ETHERTYPE })?;
        let blocks = (ring_bytes / BLOCK_BYTES) as usize;
        Ok(Self { fd, memory, blocks, next: 0, ring_bytes })
    }

    /// The descriptor, to wait for frames.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Hands the frames of the next whole block to `take`; false when there is no whole block yet.
    pub fn next_block(&mut self, mut take: impl FnMut(Frame<'_>)) -> bool {
        let start = self.next * BLOCK_BYTES as usize;
        let status_at = start + std::mem::offset_of!(libc::tpacket_block_desc, hdr);
        if self.memory.status(status_at).load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
            return false;
        }
        // SAFETY: the block belongs to user space now; header and offsets were written by the kernel and are checked to
        // stay inside the block.
        unsafe {
            let block = self.memory.start.add(start);
            let header = (*block.cast::<libc::tpacket_block_desc>()).hdr.bh1;
            let mut offset = header.offset_to_first_pkt as usize;
            for _ in 0..header.num_pkts {
                assert!(offset + size_of::<libc::tpacket3_hdr>() <= BLOCK_BYTES as usize);
                let packet = block.add(offset).cast::<libc::tpacket3_hdr>().read();
                let (from, length) = (offset + usize::from(packet.tp_mac), packet.tp_snaplen as usize);
                assert!(from + length <= BLOCK_BYTES as usize);
                take(Frame {
                    bytes: std::slice::from_raw_parts(block.add(from), length),
                    length: packet.tp_len as usize,
                    stamp: Nanos(u64::from(packet.tp_sec) * 1_000_000_000 + u64::from(packet.tp_nsec)),
                });
                offset += packet.tp_next_offset as usize;
            }
        }
        self.memory.status(status_at).store(libc::TP_STATUS_KERNEL, Ordering::Release);
        self.next = (self.next + 1) % self.blocks;
        true
    }

    /// Frames that found no room since the last call.
    pub fn drops(&self) -> u64 {
        #[derive(Clone, Copy, Default)]
        #[repr(C)]
        struct Statistics {
            packets: u32,
            drops: u32,
            freezes: u32,
        }
        let read = socket::get_option::<Statistics>(&self.fd, libc::SOL_PACKET, libc::PACKET_STATISTICS);
        read.map_or(0, |statistics| u64::from(statistics.drops))
    }
}
