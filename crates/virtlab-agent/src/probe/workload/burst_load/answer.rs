//! The end that answers bursts: counts requests, sends replies, and knows who registered.

use crate::probe::pacing::sleep;
use crate::probe::parameters::Idle;
use crate::probe::report::Report;
use crate::probe::run::Run;
use crate::probe::socket::{self, Inbox, RawAddress, Trouble, trouble};
use crate::probe::waits::Waits;
use anyhow::Context;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, Ordering};
use virtlab_load::meters::{Arrival, Sequence};
use virtlab_system::clock;
use virtlab_wire::Nanos;
use virtlab_wire::probe_header::{COMPACT_BYTES, ProbeHeader, Purpose};

const REGISTER_EVERY: Nanos = Nanos(20_000_000);
const REGISTER_PATIENCE: Nanos = Nanos(5_000_000_000);

/// What the answering thread shares with the originating one.
pub struct Answering {
    replies: bool,
    idle: Idle,
    acknowledged: AtomicBool,
    registered: Mutex<Option<SocketAddr>>,
}

impl Answering {
    /// Answers requests with replies, or only counts them.
    pub fn new(replies: bool, idle: Idle) -> Self {
        Self { replies, idle, acknowledged: AtomicBool::new(false), registered: Mutex::new(None) }
    }

    /// Waits until the far end has said where its answering socket is; `None` when the role is stopped before.
    pub fn wait_for_registration(&self, run: &Run) -> Option<SocketAddr> {
        while !run.stopped() {
            let registered = *self.registered.lock().unwrap_or_else(PoisonError::into_inner);
            if registered.is_some() {
                return registered;
            }
            sleep(Nanos(1_000_000));
        }
        None
    }
}

/// The answering socket.
pub struct Responder {
    socket: OwnedFd,
    /// Its port.
    pub port: u16,
}

impl Responder {
    /// Binds at `address`; hears `peer` alone.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub fn open(run: &Run, address: SocketAddr, peer: IpAddr) -> anyhow::Result<Self> {
        let socket = socket::udp_from(address, peer).with_context(|| format!("cannot bind UDP {address}"))?;
        socket::set_buffer(&socket, true, 16 << 20)?;
        socket::stamp_receives(&socket)?;
        run.wakes(&socket)?;
        let port = socket::local_address(&socket)?.port();
        Ok(Self { socket, port })
    }

    /// Registers this socket at the far end's; false when it is not acknowledged in time.
    pub fn register(&self, run: &Run, answering: &Answering, server: SocketAddr) -> bool {
        let to = RawAddress::from(server);
        let begun = clock::raw();
        let mut payload = [0; COMPACT_BYTES];
        while !run.stopped() && clock::raw().since(begun) < REGISTER_PATIENCE {
            let header = ProbeHeader {
                purpose: Purpose::Register,
                flow: 0,
                seq: 0,
                sent: clock::raw(),
                intended: None,
            };
            header.write(&mut payload);
            let _ = socket::send(self.socket.as_fd(), &payload, Some(&to));
            let asked = clock::raw();
            while clock::raw().since(asked) < REGISTER_EVERY {
                if answering.acknowledged.load(Ordering::Acquire) {
                    return true;
                }
                sleep(Nanos(500_000));
            }
        }
        false
    }

    /// Answers until the role is stopped.
    pub fn serve(&self, run: &Run, answering: &Answering) -> Report {
        let mut report = Report::default();
        let mut inbox = Inbox::new();
        let mut flows: BTreeMap<(SocketAddr, u16), Sequence> = BTreeMap::new();
        let (mut packets, mut bytes, mut answered, mut answered_bytes) = (0u64, 0u64, 0u64, 0u64);
        let (mut errors, mut drops) = (0u64, 0u32);
        let flags = if answering.idle == Idle::Poll { libc::MSG_DONTWAIT } else { 0 };
        let mut reply = Vec::new();
        let tally = run.tally();
        let mut waits = Waits::new();
        while !run.stopped() {
            let message = match inbox.receive(self.socket.as_fd(), flags) {
                Ok(message) => message,
                Err(error) if trouble(&error) == Trouble::Fatal => {
                    report.failure = Some(format!("cannot receive: {error}"));
                    break;
                }
                Err(_) => continue,
            };
            let taken = clock::raw();
            drops = message.drops.unwrap_or(drops);
            let (Some(header), Some(from)) = (ProbeHeader::read(message.bytes), message.from()) else {
                continue;
            };
            match header.purpose {
                Purpose::Register => {
                    // Number 0 asks, number 1 acknowledges.
                    if header.seq == 1 {
                        answering.acknowledged.store(true, Ordering::Release);
                        continue;
                    }
                    *answering.registered.lock().unwrap_or_else(PoisonError::into_inner) = Some(from);
                    let mut acknowledgement = [0; COMPACT_BYTES];
                    ProbeHeader { seq: 1, ..header }.write(&mut acknowledgement);
                    let _ = socket::answer(self.socket.as_fd(), &acknowledgement, Some(&from.into()));
                }
                Purpose::Reply => {}
                Purpose::Data => {
                    if flows.entry((from, header.flow)).or_default().record(header.seq) != Arrival::Duplicate
                    {
                        packets += 1;
                        bytes += message.bytes.len() as u64;
                        tally.seen(message.bytes.len() as u64);
                    }
                    if answering.replies {
                        reply.clear();
                        reply.extend_from_slice(message.bytes);
                        ProbeHeader { purpose: Purpose::Reply, ..header }.write(&mut reply);
                        match send_whole(&self.socket, &reply, &from.into(), run) {
                            Ok(()) => {
                                answered += 1;
                                answered_bytes += reply.len() as u64;
                            }
                            Err(_) => errors += 1,
                        }
                    }
                    waits.dealt_with_datagram(taken, message.stamp);
                }
            }
        }
        report.add("requests_received_packets", packets);
        report.add("requests_received_bytes", bytes);
        report.add("replies_sent_packets", answered);
        report.add("replies_sent_bytes", answered_bytes);
        report.add("received_packets", packets);
        report.add("received_bytes", bytes);
        report.add("sent_packets", answered);
        report.add("sent_bytes", answered_bytes);
        report.add("send_errors", errors);
        report.add("socket_drops", u64::from(drops));
        report.add("duplicate_packets", flows.values().map(|flow| flow.duplicates).sum());
        report.add("reordered_packets", flows.values().map(|flow| flow.reordered).sum());
        waits.close(&mut report);
        report
    }
}

/// Sends, waiting for room where the network pushes back.
fn send_whole(socket: &OwnedFd, bytes: &[u8], to: &RawAddress, run: &Run) -> std::io::Result<()> {
    loop {
        match socket::answer(socket.as_fd(), bytes, Some(to)) {
            Err(error) if trouble(&error) == Trouble::Again && !run.stopped() => {}
            other => return other,
        }
    }
}
