//! `udp_stream`: datagrams one way, at a rate or as fast as the sender can.
//!
//! Each datagram carries its number and the instant at which it was handed to the kernel; the receiver keeps a row per
//! datagram with the kernel's and its own instant. What the receiver's socket buffer dropped is counted apart: that is the
//! probe's loss, not the network's. Several datagrams go in one system call when several are due; a call that turns out
//! slow makes the next batch smaller, so that instants stay near the truth where the network pushes back.

use super::{Arming, Prepared, Side, Workload, parse};
use crate::clock;
use crate::probe::endpoint::version_of;
use crate::probe::pacing::{Pacer, Pacing};
use crate::probe::parameters::{Idle, positive};
use crate::probe::report::{Report, STALL};
use crate::probe::run::Run;
use crate::probe::socket::{self, Trouble, trouble};
use crate::probe::spool::{PacketRow, SentRow, Spool};
use crate::probe::stamps::StampClock;
use anyhow::{Context, bail};
use serde::Deserialize;
use serde_json::Value;
use std::mem::MaybeUninit;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use virtlab_load::meters::{Jitter, Sequence, Throughput};
use virtlab_load::schedule::Schedule;
use virtlab_load::{PacketSize, SizeRequest, Transport};
use virtlab_wire::Nanos;
use virtlab_wire::probe_header::{COMPACT_BYTES, ProbeHeader, Purpose};

/// Most datagrams in one system call.
const BATCH: usize = 64;
/// A send call longer than this halves the batch.
const SLOW_CALL: Nanos = Nanos(150_000);
const RECEIVE_BUFFER_BYTES: usize = 64 << 20;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Parameters {
    rate_bit_per_s: Option<u64>,
    frame_bytes: Option<u32>,
    ip_packet_bytes: Option<u32>,
    payload_bytes: Option<u32>,
    /// Absent: until stopped.
    duration_ns: Option<u64>,
}

/// Prepares either end.
pub fn prepare(arming: Arming<'_>) -> anyhow::Result<Prepared> {
    let parameters: Parameters = parse(arming.own.clone())?;
    let peer = arming.peer.ip("peer")?;
    let request = SizeRequest {
        frame_bytes: parameters.frame_bytes,
        ip_packet_bytes: parameters.ip_packet_bytes,
        payload_bytes: parameters.payload_bytes,
    };
    let size =
        request.resolve(Transport::Udp, version_of(peer), arming.local.mtu_bytes).context("parameters")?;
    anyhow::ensure!(
        size.payload_bytes as usize >= COMPACT_BYTES,
        "parameters: {} B of payload cannot hold a number and an instant; at least {COMPACT_BYTES} B",
        size.payload_bytes
    );
    match arming.side {
        Side::Client => Ok(Prepared {
            workload: Box::new(Sender::prepare(&arming, &parameters, size)?),
            check: Box::new(check_value),
        }),
        Side::Server => Ok(Prepared {
            workload: Box::new(Receiver::prepare(&arming, size)?),
            check: Box::new(check_value),
        }),
    }
}

fn check_value(parameter: &str, value: &Value) -> anyhow::Result<()> {
    match (parameter, value.as_u64()) {
        ("rate_bit_per_s", Some(rate)) => positive("rate_bit_per_s", rate).map(|_| ()),
        ("rate_bit_per_s", None) => bail!("rate_bit_per_s must be a whole number above 0, not {value}"),
        _ => bail!("parameter '{parameter}' cannot be changed while the role runs; rate_bit_per_s can"),
    }
}

struct Sender {
    socket: OwnedFd,
    size: PacketSize,
    schedule: Schedule,
    duration: Nanos,
    pacer: Pacer,
    keep_sent: bool,
}

impl Sender {
    fn prepare(arming: &Arming<'_>, parameters: &Parameters, size: PacketSize) -> anyhow::Result<Self> {
        let port = arming.peer.port.context("peer.port is missing; arm the server first")?;
        let peer = SocketAddr::new(arming.peer.ip("peer")?, port);
        let local = SocketAddr::new(arming.local.ip("local")?, 0);
        let socket = socket::udp(local, false).with_context(|| format!("cannot bind UDP {local}"))?;
        socket::connect(&socket, peer).with_context(|| format!("cannot reach {peer}"))?;
        socket::set_buffer(&socket, false, 1 << 20)?;
        let schedule = match parameters.rate_bit_per_s {
            Some(rate) => paced(size, positive("rate_bit_per_s", rate)?),
            None => Schedule::Flood,
        };
        Ok(Self {
            socket,
            size,
            schedule,
            duration: parameters.duration_ns.map_or(Nanos::MAX, Nanos),
            pacer: Pacer::new(arming.common.pacing.unwrap_or(Pacing::Sleep)),
            keep_sent: arming.common.keep_sent,
        })
    }
}

fn paced(size: PacketSize, rate_bit_per_s: u64) -> Schedule {
    Schedule::Paced { packet_bits: u64::from(size.ip_packet_bytes) * 8, rate_bit_per_s }
}

impl Workload for Sender {
    fn run(mut self: Box<Self>, run: &Run) -> Report {
        let payload_bytes = self.size.payload_bytes as usize;
        let mut batch = SendBatch::new(payload_bytes);
        let mut sent_rows = Spool::new(&run.budget);
        let mut report = Report::default();
        let Some(start) = run.wait_for_start(self.pacer) else {
            return report;
        };
        // Numbers go on when the rate is changed; the schedule then counts from `base` on.
        let (mut sent, mut base, mut origin) = (0u64, 0u64, start);
        let (mut limit, mut tuned) = (BATCH, 0);
        let mut free = start;
        let end = start + self.duration;
        let flooding = matches!(self.schedule, Schedule::Flood);
        while !run.stopped() {
            let changes = run.tuned_count.load(std::sync::atomic::Ordering::Acquire);
            if changes != tuned {
                tuned = changes;
                if let Some(rate) = run.tuned("rate_bit_per_s").and_then(|value| value.as_u64()) {
                    self.schedule = paced(self.size, rate);
                    (base, origin) = (sent, clock::raw());
                }
            }
            let now = clock::raw();
            let due = self.schedule.due(now.since(origin)).unwrap_or(0).saturating_sub(sent - base);
            if now >= end {
                report.complete = true;
                break;
            }
            let intended = origin + self.schedule.offset(sent - base);
            if due == 0 {
                let until = intended.min(end);
                if self.pacer.wait_until(until, &run.stop) && until == intended {
                    free = until;
                }
                continue;
            }
            let count = (due.min(limit as u64)) as usize;
            batch.fill(count, sent, |k| {
                if flooding { None } else { Some(origin + self.schedule.offset(k - base)) }
            });
            let before = clock::raw();
            if !flooding {
                // Later than intended, and later than this sender was free: its own fault, not the network's.
                report.pacing.record(before.since(intended.max(free)));
            }
            match batch.send(&self.socket, count) {
                Ok(taken) => {
                    if self.keep_sent {
                        batch.rows(taken, sent, start).for_each(|row| sent_rows.push(row));
                    }
                    sent += taken as u64;
                }
                Err(error) => match trouble(&error) {
                    Trouble::Again => report.add("blocked_sends", 1),
                    Trouble::NoRoom => report.add("no_buffer_sends", 1),
                    Trouble::Refused => report.add("refused", 1),
                    Trouble::Fatal => {
                        report.add("send_errors", 1);
                        report.failure = Some(format!("cannot send: {error}"));
                        break;
                    }
                },
            }
            free = clock::raw();
            limit = if free.since(before) > SLOW_CALL { (count / 2).max(1) } else { (limit * 2).min(BATCH) };
        }
        let ended = clock::raw();
        report.add("sent_packets", sent);
        report.add("sent_bytes", sent * payload_bytes as u64);
        report.add("sending_ns", ended.since(start).0);
        report.add("send_errors", 0);
        if !flooding && report.complete {
            let intended = self.schedule.due(end.since(origin)).unwrap_or(0) + base;
            report.add("unsent_packets", intended.saturating_sub(sent + 1));
        }
        if self.keep_sent {
            report.table(sent_rows);
        }
        report
    }
}

/// Buffers for one `sendmmsg`.
struct SendBatch {
    payload_bytes: usize,
    buffer: Vec<u8>,
    stamps: Vec<(Nanos, Option<Nanos>)>,
}

impl SendBatch {
    fn new(payload_bytes: usize) -> Self {
        let buffer = (0..payload_bytes * BATCH).map(|at| (at % payload_bytes) as u8).collect();
        Self { payload_bytes, buffer, stamps: vec![(Nanos::ZERO, None); BATCH] }
    }

    fn fill(&mut self, count: usize, first_seq: u64, mut intended: impl FnMut(u64) -> Option<Nanos>) {
        let payloads = self.buffer.chunks_exact_mut(self.payload_bytes);
        for ((payload, stamp), seq) in payloads.zip(&mut self.stamps).take(count).zip(first_seq..) {
            let (sent, intended) = (clock::raw(), intended(seq));
            ProbeHeader { purpose: Purpose::Data, flow: 0, seq, sent, intended }.write(payload);
            *stamp = (sent, intended);
        }
    }

    /// Sends the first `count`; how many the kernel took.
    fn send(&mut self, socket: &OwnedFd, count: usize) -> std::io::Result<usize> {
        // SAFETY: all-zero bytes are valid iovec and mmsghdr arrays.
        let (mut vectors, mut messages): ([libc::iovec; BATCH], [libc::mmsghdr; BATCH]) =
            unsafe { (MaybeUninit::zeroed().assume_init(), MaybeUninit::zeroed().assume_init()) };
        let payloads = self.buffer.chunks_exact_mut(self.payload_bytes);
        for ((vector, message), payload) in vectors.iter_mut().zip(&mut messages).zip(payloads) {
            vector.iov_base = payload.as_mut_ptr().cast();
            vector.iov_len = payload.len();
            message.msg_hdr.msg_iov = vector;
            message.msg_hdr.msg_iovlen = 1;
        }
        // SAFETY: the first `count` messages describe live buffers.
        let taken = unsafe {
            libc::sendmmsg(socket.as_raw_fd(), messages.as_mut_ptr(), count as u32, libc::MSG_NOSIGNAL)
        };
        socket::check(taken).map(|taken| taken as usize)
    }

    fn rows(&self, taken: usize, first_seq: u64, start: Nanos) -> impl Iterator<Item = SentRow> {
        self.stamps[..taken].iter().zip(first_seq..).map(move |((sent, intended), seq)| SentRow {
            seq: seq as i64,
            flow: 0,
            intended_ns: intended.unwrap_or(start).0 as i64,
            sent_ns: sent.0 as i64,
            payload_bytes: self.payload_bytes as i32,
        })
    }
}

struct Receiver {
    socket: OwnedFd,
    port: u16,
    idle: Idle,
    payload_bytes: usize,
    buffer_bytes: usize,
}

impl Receiver {
    fn prepare(arming: &Arming<'_>, size: PacketSize) -> anyhow::Result<Self> {
        let address = arming.local.socket_address("local")?;
        let socket = socket::udp(address, false).with_context(|| format!("cannot bind UDP {address}"))?;
        socket::stamp_receives(&socket)?;
        let buffer_bytes = socket::set_buffer(&socket, true, RECEIVE_BUFFER_BYTES)?;
        arming.run.wakes(&socket)?;
        let port = socket::local_address(&socket)?.port();
        Ok(Self {
            socket,
            port,
            idle: arming.common.idle,
            payload_bytes: size.payload_bytes as usize,
            buffer_bytes,
        })
    }
}

impl Workload for Receiver {
    fn port(&self) -> Option<u16> {
        Some(self.port)
    }

    fn run(self: Box<Self>, run: &Run) -> Report {
        let mut batch = ReceiveBatch::new(self.payload_bytes);
        let mut rows: Spool<PacketRow> = Spool::new(&run.budget);
        let mut stamps = StampClock::new();
        let (mut sequence, mut jitter, mut throughput) =
            (Sequence::default(), Jitter::default(), Throughput::default());
        let (mut strangers, mut stalls, mut unstamped, mut drops) = (0u64, 0u64, 0u64, 0u32);
        let mut report = Report::default();
        let flags = if self.idle == Idle::Poll { libc::MSG_DONTWAIT } else { libc::MSG_WAITFORONE };
        // A stop ends the waiting, not the reading: what is in the buffer was delivered.
        loop {
            let flags = if run.stopped() { libc::MSG_DONTWAIT } else { flags };
            let count = match batch.receive(&self.socket, flags) {
                Ok(0) if run.stopped() => break,
                Ok(count) => count,
                Err(error) => match trouble(&error) {
                    Trouble::Fatal => {
                        report.failure = Some(format!("cannot receive: {error}"));
                        break;
                    }
                    _ if run.stopped() => break,
                    _ => continue,
                },
            };
            let user = clock::raw();
            stamps.refresh(user);
            let mut nothing = true;
            for index in 0..count {
                let (payload, notes) = batch.message(index);
                drops = notes.drops.unwrap_or(drops);
                let Some(header) =
                    ProbeHeader::read(payload).filter(|header| header.purpose == Purpose::Data)
                else {
                    strangers += u64::from(!payload.is_empty());
                    continue;
                };
                nothing = false;
                let received_ns = notes.stamp.map_or_else(
                    || {
                        unstamped += 1;
                        user.0 as i64
                    },
                    |stamp| stamps.raw_ns(stamp),
                );
                stalls += u64::from(user.0 as i64 - received_ns > STALL.0 as i64);
                sequence.record(header.seq);
                jitter.record(header.sent.0 as i64, received_ns);
                throughput.record(Nanos(received_ns.max(0) as u64), payload.len() as u64);
                rows.push(PacketRow {
                    seq: header.seq as i64,
                    flow: i32::from(header.flow),
                    sent_ns: header.sent.0 as i64,
                    received_ns,
                    user_ns: user.0 as i64,
                    payload_bytes: payload.len() as i32,
                });
            }
            if nothing && run.stopped() {
                break;
            }
        }
        report.add("received_packets", sequence.received);
        report.add("received_bytes", throughput.bytes);
        report.add("duplicate_packets", sequence.duplicates);
        report.add("reordered_packets", sequence.reordered);
        report.add("missing_packets", sequence.lost(sequence.next_expected()));
        report.add("socket_drops", u64::from(drops));
        report.add("socket_buffer_bytes", self.buffer_bytes as u64);
        report.add("stranger_packets", strangers);
        report.add("unstamped_packets", unstamped);
        report.add("receive_stalls", stalls);
        if let Some(jitter) = jitter.ns() {
            report.add("jitter_rfc3550_ns", jitter as u64);
        }
        if stamps.steps > 0 {
            report
                .taints
                .push("clock_step: the wall clock was set while packets were stamped with it".to_owned());
        }
        report.table(rows);
        report
    }
}

/// Buffers for one `recvmmsg`.
struct ReceiveBatch {
    slot_bytes: usize,
    buffer: Vec<u8>,
    control: Vec<[u64; 16]>,
    messages: Vec<libc::mmsghdr>,
    vectors: Vec<libc::iovec>,
}

// SAFETY: the raw pointers in the headers point into the vectors beside them and are set again before each call.
unsafe impl Send for ReceiveBatch {}

impl ReceiveBatch {
    fn new(payload_bytes: usize) -> Self {
        // One byte more than is expected shows a datagram that is too long.
        let slot_bytes = (payload_bytes + 1).next_multiple_of(64);
        // SAFETY: all-zero bytes are valid iovec and mmsghdr values.
        let (vector, message): (libc::iovec, libc::mmsghdr) =
            unsafe { (MaybeUninit::zeroed().assume_init(), MaybeUninit::zeroed().assume_init()) };
        Self {
            slot_bytes,
            buffer: vec![0; slot_bytes * BATCH],
            control: vec![[0; 16]; BATCH],
            messages: vec![message; BATCH],
            vectors: vec![vector; BATCH],
        }
    }

    fn receive(&mut self, socket: &OwnedFd, flags: i32) -> std::io::Result<usize> {
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
        // SAFETY: every header describes live buffers of this batch.
        let count = unsafe {
            libc::recvmmsg(
                socket.as_fd().as_raw_fd(),
                self.messages.as_mut_ptr(),
                BATCH as u32,
                flags,
                std::ptr::null_mut(),
            )
        };
        socket::check(count).map(|count| count as usize)
    }

    fn message(&self, index: usize) -> (&[u8], socket::Notes) {
        let message = &self.messages[index];
        let start = index * self.slot_bytes;
        let length = (message.msg_len as usize).min(self.slot_bytes);
        // SAFETY: the kernel filled this header's control buffer, which is 8-byte aligned and alive.
        (&self.buffer[start..start + length], unsafe { socket::notes_of(&message.msg_hdr) })
    }
}
