//! `udp_stream`: datagrams one way, at a rate or as fast as the sender can.
//!
//! Each datagram carries its number and the instant at which it was handed to the kernel; the receiver keeps a row per
//! datagram with the kernel's and its own instant. What the receiver's socket buffer dropped is counted apart: that is
//! the probe's loss, not the network's. As fast as possible means that datagrams are handed over by the piece where the
//! kernel cuts it in front of the vNIC ([`segmentation`]): per datagram, that costs less than half.

use super::arrivals::Arrivals;
use super::paced::{BATCH, Batch, Numbered, Stream};
use super::{Arming, Kind, Prepared, Side, Workload, meters, parse};
use crate::probe::batch::ReceiveBatch;
use crate::probe::endpoint::version_of;
use crate::probe::pacing::{Pacer, Pacing};
use crate::probe::parameters::{Idle, Meter};
use crate::probe::report::Report;
use crate::probe::run::Run;
use crate::probe::segmentation;
use crate::probe::socket::{self, Trouble, trouble};
use anyhow::{Context, bail};
use serde_json::Value;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use virtlab_load::parameters::udp_stream::{NAME, UdpStream as Parameters};
use virtlab_load::schedule::Schedule;
use virtlab_load::{PacketSize, Split};
use virtlab_system::clock;
use virtlab_wire::Nanos;
use virtlab_wire::probe_header::{ProbeHeader, Purpose};

/// Receive buffer of a role that does not set one: the meter is not to be what loses.
const RECEIVE_BUFFER_BYTES: usize = 64 << 20;
/// Send buffer of a role that does not set one, of which Linux grants twice as much: the simulator's 1 MiB.
const SEND_BUFFER_BYTES: usize = 1 << 19;

/// In the table of workloads.
pub const KIND: Kind =
    Kind { meters: &[(Meter::Iperf3, meters::iperf3::prepare_udp)], ..Kind::of(NAME, prepare) };

/// Prepares either end.
pub fn prepare(arming: Arming<'_>) -> anyhow::Result<Prepared> {
    let parameters: Parameters = parse(&arming.own)?;
    let peer = arming.peer.ip("peer")?;
    parameters.check().context("parameters")?;
    let size = parameters.size(version_of(peer), arming.local.mtu_bytes).context("parameters")?;
    match arming.side {
        Side::Client => Ok(Prepared {
            workload: Box::new(Sender::prepare(&arming, &parameters, size)?),
            check: Box::new(check_value),
        }),
        Side::Server => Ok(Prepared {
            workload: Box::new(Receiver::prepare(&arming, &parameters, size)?),
            check: Box::new(check_value),
        }),
    }
}

fn check_value(parameter: &str, value: &Value) -> anyhow::Result<()> {
    match (parameter, value.as_u64()) {
        ("rate_bit_per_s", Some(rate)) => Ok(Parameters::check_rate(rate)?),
        ("rate_bit_per_s", None) => bail!("rate_bit_per_s must be a whole number above 0, not {value}"),
        _ => bail!("parameter '{parameter}' cannot be changed while the role runs; rate_bit_per_s can"),
    }
}

struct Sender {
    stream: Stream,
    batch: SendBatch,
    buffer_bytes: usize,
}

impl Sender {
    fn prepare(arming: &Arming<'_>, parameters: &Parameters, size: PacketSize) -> anyhow::Result<Self> {
        let (local, peer) = arming.ends()?;
        let socket = socket::udp(local, false).with_context(|| format!("cannot bind UDP {local}"))?;
        socket::connect(&socket, peer).with_context(|| format!("cannot reach {peer}"))?;
        let buffer_bytes = buffer(&socket, false, parameters.send_buffer_bytes, SEND_BUFFER_BYTES)?;
        let (own, seed) = (*parameters, arming.seed);
        let paced = move |rate_bit_per_s| own.paced(size, rate_bit_per_s, seed);
        let schedule = parameters.rate_bit_per_s.map_or(Schedule::Flood, paced);
        let stream = Stream {
            schedule,
            tune: ("rate_bit_per_s", Box::new(paced)),
            duration: parameters.duration_ns.map_or(Nanos::MAX, Nanos),
            pacer: Pacer::new(arming.common.pacing.unwrap_or(Pacing::Sleep)),
            split: Split::even(1)?,
            packet_bytes: u64::from(size.payload_bytes),
            keep_sent: parameters.keep_sent,
            leads: true,
        };
        // At a rate, every datagram goes by itself, as it is due.
        let flood = parameters.rate_bit_per_s.is_none();
        let whole = size.ip_packet_bytes <= arming.local.mtu_bytes;
        let vnic = arming.local.vnic.as_deref();
        let payload_bytes = size.payload_bytes as usize;
        let cut = flood
            && whole
            && vnic.is_some_and(segmentation::is_cut_before)
            && segmentation::cut(&socket, payload_bytes).is_ok();
        Ok(Self { stream, batch: SendBatch::new(socket, payload_bytes, cut), buffer_bytes })
    }
}

/// Sets a socket's buffer and returns what the kernel granted. A wish of the file is granted or refused.
fn buffer(socket: &OwnedFd, receive: bool, wanted: Option<u64>, usual: usize) -> anyhow::Result<usize> {
    match wanted {
        Some(bytes) => socket::require_buffer(socket, receive, bytes),
        None => Ok(socket::set_buffer(socket, receive, usual)?),
    }
}

impl Workload for Sender {
    fn run(mut self: Box<Self>, run: &Run) -> Report {
        let mut report = self.stream.send(run, &mut self.batch);
        report.add("cut_batches", self.batch.cut_batches);
        report.add("socket_buffer_bytes", self.buffer_bytes as u64);
        report
    }
}

/// Buffers for one call.
struct SendBatch {
    socket: OwnedFd,
    payload_bytes: usize,
    buffer: Vec<u8>,
    /// Whether the kernel cuts one large piece into datagrams; else each is a message of its own.
    cut: bool,
    /// Pieces that it cut so far.
    cut_batches: u64,
}

impl SendBatch {
    fn new(socket: OwnedFd, payload_bytes: usize, cut: bool) -> Self {
        let buffer = (0..payload_bytes * BATCH).map(|at| (at % payload_bytes) as u8).collect();
        Self { socket, payload_bytes, buffer, cut, cut_batches: 0 }
    }

    /// The first `count` datagrams, or as many of them as one piece holds.
    fn send_piece(&mut self, count: usize) -> std::io::Result<usize> {
        let count = count.min(segmentation::MOST_BYTES / self.payload_bytes);
        let sent = socket::send(self.socket.as_fd(), &self.buffer[..count * self.payload_bytes], None);
        match sent {
            Ok(_) => {
                self.cut_batches += u64::from(count > 1);
                Ok(count)
            }
            // A kernel that cuts only where the interface also adds checksums (before Linux 6.11).
            Err(error)
                if matches!(error.raw_os_error(), Some(libc::EIO | libc::EINVAL | libc::EOPNOTSUPP)) =>
            {
                segmentation::cut_no_more(&self.socket)?;
                self.cut = false;
                Ok(0)
            }
            Err(error) => Err(error),
        }
    }
}

impl Batch for SendBatch {
    fn send(&mut self, packets: &[Numbered]) -> std::io::Result<usize> {
        let count = packets.len();
        for (packet, payload) in packets.iter().zip(self.buffer.chunks_exact_mut(self.payload_bytes)) {
            let Numbered { flow, seq, sent, intended } = *packet;
            ProbeHeader { purpose: Purpose::Data, flow, seq, sent, intended }.write(payload);
        }
        if self.cut {
            return self.send_piece(count);
        }
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
            libc::sendmmsg(self.socket.as_raw_fd(), messages.as_mut_ptr(), count as u32, libc::MSG_NOSIGNAL)
        };
        socket::check(taken).map(|taken| taken as usize)
    }
}

struct Receiver {
    socket: OwnedFd,
    port: u16,
    idle: Idle,
    payload_bytes: usize,
    buffer_bytes: usize,
    buffer_as_asked: bool,
}

impl Receiver {
    fn prepare(arming: &Arming<'_>, parameters: &Parameters, size: PacketSize) -> anyhow::Result<Self> {
        let address = arming.local.socket_address("local")?;
        let socket = socket::udp_from(address, arming.peer.ip("peer")?)
            .with_context(|| format!("cannot bind UDP {address}"))?;
        socket::stamp_receives(&socket)?;
        let buffer_bytes = buffer(&socket, true, parameters.receive_buffer_bytes, RECEIVE_BUFFER_BYTES)?;
        arming.run.wakes(&socket)?;
        let port = socket::local_address(&socket)?.port();
        Ok(Self {
            socket,
            port,
            idle: arming.common.idle,
            payload_bytes: size.payload_bytes as usize,
            buffer_bytes,
            buffer_as_asked: parameters.receive_buffer_bytes.is_some(),
        })
    }
}

impl Workload for Receiver {
    fn port(&self) -> Option<u16> {
        Some(self.port)
    }

    fn run(self: Box<Self>, run: &Run) -> Report {
        // One byte more than is expected shows a datagram that is too long.
        let mut batch = ReceiveBatch::new(self.payload_bytes + 1);
        let mut arrivals = Arrivals::new(run, 1, true);
        let mut drops = 0u32;
        let mut report = Report { buffer_as_asked: self.buffer_as_asked, ..Report::default() };
        let waiting = if self.idle == Idle::Poll { libc::MSG_DONTWAIT } else { libc::MSG_WAITFORONE };
        // A stop ends the waiting, not the reading: what is in the buffer was delivered.
        loop {
            let stopped = run.stopped();
            let count = match batch.receive(&self.socket, if stopped { libc::MSG_DONTWAIT } else { waiting })
            {
                Ok(count) => count,
                Err(error) if trouble(&error) == Trouble::Fatal => {
                    report.failure = Some(format!("cannot receive: {error}"));
                    break;
                }
                Err(_) if stopped => break,
                Err(_) => continue,
            };
            let user = clock::raw();
            arrivals.awake(user);
            let mut ours = 0;
            for index in 0..count {
                let (payload, _) = batch.octets(index);
                let notes = batch.notes(index);
                drops = notes.drops.unwrap_or(drops);
                ours += usize::from(arrivals.take(payload, payload.len(), notes.stamp, user));
            }
            // A socket that was shut down gives empty messages for ever.
            if ours == 0 && stopped {
                break;
            }
        }
        report.add("socket_drops", u64::from(drops));
        report.add("socket_buffer_bytes", self.buffer_bytes as u64);
        arrivals.close(&mut report);
        report
    }
}
