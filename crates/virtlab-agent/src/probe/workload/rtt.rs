//! `rtt`: round trips of ICMP or UDP echoes, open loop.
//!
//! Request k is meant for `start + k interval`, whatever happened to the ones before. Two delays are kept for each
//! reply: the user's, from just before the send call to just after the receive call, and the path's, from the
//! kernel's transmit stamp to its receive stamp, which no wake-up of this process lengthens. The sender and the
//! receiver are two threads, so a late reply never delays a request and a request never delays a reply; a receiver
//! that polls shares one thread with the sender instead, and an interval of 0 sends each request when the reply
//! before it has come (closed loop, as a ping-pong benchmark does).

use super::echo::{self, Format, Packet};
use super::{Arming, Kind, Prepared, Side, StandBy, Workload, meters, parse};
use crate::probe::endpoint::version_of;
use crate::probe::icmp;
use crate::probe::live::Tally;
use crate::probe::pacing::{Pacer, Pacing, sleep};
use crate::probe::parameters::{Idle, Meter};
use crate::probe::report::{Report, STALL};
use crate::probe::run::Run;
use crate::probe::socket::{self, Inbox, Message, RawAddress, Trouble, trouble};
use crate::probe::spool::Spool;
use crate::probe::stamps::StampClock;
use crate::probe::taint;
use crate::probe::waits::Waits;
use anyhow::Context;
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use virtlab_load::meters::{Arrival, Sequence};
use virtlab_load::parameters::Carrier;
use virtlab_load::parameters::rtt::{NAME, Rtt as Parameters};
use virtlab_load::schedule::Schedule;
use virtlab_system::clock;
use virtlab_wire::Nanos;
use virtlab_wire::probe_header::{COMPACT_BYTES, ProbeHeader, Purpose};
use virtlab_wire::rows::{RttRow, SentRow};

/// Replies still on their way when the role is stopped are awaited this long.
const GRACE: Nanos = Nanos(30_000_000);
/// Send calls whose stamp has not come yet, at most.
const PENDING_STAMPS: usize = 1024;

/// In the table of workloads.
pub const KIND: Kind = Kind { meters: &[(Meter::Ping, meters::ping::prepare)], ..Kind::of(NAME, prepare) };

/// Prepares either end.
pub fn prepare(arming: Arming<'_>) -> anyhow::Result<Prepared> {
    let parameters: Parameters = parse(&arming.own)?;
    parameters.check().context("parameters")?;
    match (arming.side, parameters.protocol) {
        (Side::Client, _) => Ok(Prepared::fixed(Client::prepare(&arming, parameters)?)),
        (Side::Server, Carrier::Icmp) => Ok(Prepared::fixed(StandBy)),
        (Side::Server, Carrier::Udp) => Ok(Prepared::fixed(Reflector::prepare(&arming, None)?)),
    }
}

/// An echo identifier that no other role of this process has.
pub fn fresh_identifier() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    (std::process::id() << 4).wrapping_add(NEXT.fetch_add(1, Ordering::Relaxed)) as u16
}

struct Client {
    packet: Packet,
    format: Format,
    payload_bytes: usize,
    sender: OwnedFd,
    receiver: OwnedFd,
    to: RawAddress,
    interval: Nanos,
    schedule: Schedule,
    count: u64,
    timeout: Nanos,
    idle: Idle,
    pacer: Pacer,
}

impl Client {
    fn prepare(arming: &Arming<'_>, parameters: Parameters) -> anyhow::Result<Self> {
        let (local, peer) = (arming.local.ip("local")?, arming.peer.ip("peer")?);
        let size = parameters.size(version_of(peer), arming.local.mtu_bytes).context("parameters")?;
        let payload_bytes = size.payload_bytes as usize;
        let (sender, receiver, format, to) = match parameters.protocol {
            Carrier::Icmp => {
                let sockets =
                    icmp::open(local, peer, fresh_identifier()).context("cannot open ICMP sockets")?;
                let format = Format::of(&sockets, peer.is_ipv6());
                (sockets.sender, sockets.receiver, format, SocketAddr::new(peer, 0))
            }
            Carrier::Udp => {
                let port = arming.peer_port()?;
                let (sender, receiver) = udp_pair(SocketAddr::new(local, 0), SocketAddr::new(peer, port))?;
                (sender, receiver, Format::Udp, SocketAddr::new(peer, port))
            }
        };
        Ok(Self {
            packet: Packet::new(format, payload_bytes),
            format,
            payload_bytes,
            sender,
            receiver,
            to: to.into(),
            interval: Nanos(parameters.interval_ns),
            schedule: Schedule::Fixed { interval: Nanos(parameters.interval_ns) }
                .with(parameters.arrivals, arming.seed),
            count: parameters.count.unwrap_or(u64::MAX),
            timeout: Nanos(parameters.timeout_ns),
            idle: arming.common.idle,
            pacer: Pacer::new(arming.common.pacing.unwrap_or(Pacing::Spin)),
        })
    }
}

/// A socket that sends with transmit stamps, and one on the same port that is connected, so that replies reach it and
/// transmit stamps do not wake a thread that sleeps there.
fn udp_pair(local: SocketAddr, peer: SocketAddr) -> anyhow::Result<(OwnedFd, OwnedFd)> {
    let receiver = socket::udp(local, true).with_context(|| format!("cannot bind UDP {local}"))?;
    let bound = socket::local_address(&receiver)?;
    socket::connect(&receiver, peer).with_context(|| format!("cannot reach {peer}"))?;
    let sender = socket::udp(bound, true).with_context(|| format!("cannot bind UDP {bound} again"))?;
    socket::stamp_receives(&receiver)?;
    socket::stamp_transmits(&sender, false)?;
    socket::set_buffer(&receiver, true, 8 << 20)?;
    socket::set_buffer(&sender, false, 4 << 20)?;
    Ok((sender, receiver))
}

/// What the sender keeps of each request, beside its row.
struct Sending {
    rows: Spool<SentRow>,
    /// Transmit stamp of each kept row, 0 where none came.
    stamps: Vec<u64>,
    /// The last call that was stamped.
    stamped_call: Option<u32>,
    /// Send calls whose stamp is still to come: number of the call, row.
    pending: VecDeque<(u32, usize)>,
    next_call: u32,
    inbox: Inbox,
    report: Report,
    last_sent: Nanos,
}

/// A reply as received.
#[derive(Clone, Copy, Debug)]
struct Reply {
    seq: u64,
    user: Nanos,
    stamp: Option<Nanos>,
}

/// What the receiver keeps.
struct Receiving {
    replies: Spool<Reply>,
    tally: Arc<Tally>,
    sequence: Sequence,
    drops: u32,
    strangers: u64,
    stalls: u64,
    waits: Waits,
    stamps: StampClock,
    failure: Option<String>,
}

/// What both threads read.
struct Shared {
    sent: AtomicU64,
    received: AtomicU64,
    over: AtomicBool,
}

impl Workload for Client {
    fn run(mut self: Box<Self>, run: &Run) -> Report {
        let mut sending = Sending {
            rows: Spool::new(&run.budget),
            stamps: Vec::new(),
            pending: VecDeque::new(),
            stamped_call: None,
            next_call: 0,
            inbox: Inbox::new(),
            report: Report::default(),
            last_sent: Nanos::ZERO,
        };
        let mut receiving = Receiving {
            replies: Spool::new(&run.budget),
            tally: run.tally(),
            sequence: Sequence::default(),
            drops: 0,
            strangers: 0,
            stalls: 0,
            waits: Waits::new(),
            stamps: StampClock::new(),
            failure: None,
        };
        let shared =
            Shared { sent: AtomicU64::new(0), received: AtomicU64::new(0), over: AtomicBool::new(false) };
        let Some(start) = run.wait_for_start(self.pacer) else {
            return Report::default();
        };
        if self.idle == Idle::Poll || self.interval == Nanos::ZERO {
            self.alternate(run, start, &shared, &mut sending, &mut receiving);
        } else {
            let (format, receiver) = (self.format, self.receiver.as_fd().try_clone_to_owned());
            match receiver {
                Ok(receiver) => std::thread::scope(|scope| {
                    let (shared, receiving) = (&shared, &mut receiving);
                    scope.spawn(move || receive_until_over(format, &receiver, shared, receiving));
                    self.send_all(run, start, shared, &mut sending);
                    shared.over.store(true, Ordering::Relaxed);
                    // SAFETY: shutting down an open descriptor; this wakes the receiver.
                    unsafe { libc::shutdown(self.receiver.as_raw_fd(), libc::SHUT_RDWR) };
                }),
                Err(error) => sending.report.failure = Some(error.to_string()),
            }
        }
        self.join(run, sending, receiving)
    }
}

impl Client {
    /// Sends every request at its instant, then waits for the last replies.
    fn send_all(&mut self, run: &Run, start: Nanos, shared: &Shared, sending: &mut Sending) {
        for k in 0..self.count {
            let intended = start + self.schedule.offset(k);
            // The stamp of the send before is fetched while there is time, never between a packet and its echo.
            if !self.pacer.wait_near(intended, &run.stop) {
                break;
            }
            sending.collect_stamps(&self.sender);
            if !self.pacer.wait_until(intended, &run.stop) || !self.send_one(k, intended, sending) {
                break;
            }
            shared.sent.store(k + 1, Ordering::Release);
        }
        sending.report.complete = !run.stopped() && sending.report.failure.is_none();
        let mut until = sending.last_sent + self.timeout;
        let mut awaited = |now: Nanos| {
            if run.stopped() {
                until = until.min(now + GRACE);
            }
            now < until && shared.received.load(Ordering::Acquire) < shared.sent.load(Ordering::Relaxed)
        };
        while sending.report.failure.is_none() && awaited(clock::raw()) {
            sleep(Nanos(500_000));
        }
    }

    /// Sends request `k`; false when the role cannot continue.
    fn send_one(&mut self, k: u64, intended: Nanos, sending: &mut Sending) -> bool {
        let mut sent;
        loop {
            sent = clock::raw();
            let header =
                ProbeHeader { purpose: Purpose::Data, flow: 0, seq: k, sent, intended: Some(intended) };
            match socket::send(self.sender.as_fd(), self.packet.fill(&header, k as u16), Some(&self.to)) {
                Ok(()) => break,
                Err(error) => match trouble(&error) {
                    Trouble::Again => sending.report.add("blocked_sends", 1),
                    // A raw socket does not wait for room by itself.
                    Trouble::NoRoom => {
                        sending.report.add("blocked_sends", 1);
                        sleep(Nanos(100_000));
                    }
                    Trouble::Refused => sending.report.add("refused", 1),
                    Trouble::Fatal => {
                        sending.report.add("send_errors", 1);
                        sending.report.failure = Some(format!("cannot send: {error}"));
                        return false;
                    }
                },
            }
            if clock::raw().since(intended) > self.timeout {
                sending.report.add("send_errors", 1);
                sending.next_call = u32::MAX;
                return true;
            }
        }
        sending.last_sent = sent;
        if self.interval > Nanos::ZERO {
            sending.report.pacing.record(sent.since(intended));
        }
        sending.keep(k, intended, sent, self.payload_bytes);
        true
    }

    /// Sends and receives on one thread: polls, or waits for each reply before the next request.
    fn alternate(
        &mut self,
        run: &Run,
        start: Nanos,
        shared: &Shared,
        sending: &mut Sending,
        receiving: &mut Receiving,
    ) {
        let closed = self.interval == Nanos::ZERO;
        let flags = if self.idle == Idle::Poll { libc::MSG_DONTWAIT } else { 0 };
        if flags == 0 {
            let wait = self.timeout.0.min(GRACE.0) as i64 / 1000;
            if let Err(error) = socket::set_timeout(&self.receiver, libc::SO_RCVTIMEO, wait.max(1)) {
                sending.report.failure = Some(error.to_string());
                return;
            }
        }
        let mut inbox = Inbox::new();
        let mut k = 0;
        loop {
            let now = clock::raw();
            let expired = now.since(sending.last_sent) >= self.timeout;
            let newest_answered = receiving.sequence.next_expected() >= k;
            let answered = expired || if closed { newest_answered } else { receiving.sequence.received >= k };
            if run.stopped() || (k == self.count && answered) {
                break;
            }
            let intended = if closed { now } else { start + self.schedule.offset(k) };
            let due = if closed { answered } else { now >= intended };
            if k < self.count && due {
                if !self.send_one(k, intended, sending) {
                    break;
                }
                k += 1;
                shared.sent.store(k, Ordering::Relaxed);
            }
            let before = receiving.sequence.received;
            receiving.take(inbox.receive(self.receiver.as_fd(), flags), self.format, shared);
            if receiving.sequence.received > before {
                sending.collect_stamps(&self.sender);
            }
            if receiving.failure.is_some() {
                break;
            }
        }
        sending.report.complete = k == self.count && !run.stopped();
    }

    /// Joins replies with their requests.
    fn join(&self, run: &Run, mut sending: Sending, receiving: Receiving) -> Report {
        sending.collect_stamps(&self.sender);
        let mut report = std::mem::take(&mut sending.report);
        let mut rows = Spool::new(&run.budget);
        let (mut late, mut unstamped) = (0, 0);
        for reply in receiving.replies.iter() {
            let Some(request) =
                sending.rows.get(reply.seq as usize).filter(|row| row.seq as u64 == reply.seq)
            else {
                continue;
            };
            let rtt_ns = reply.user.0 as i64 - request.sent_ns;
            if rtt_ns > self.timeout.0 as i64 {
                late += 1;
                continue;
            }
            let transmitted = sending.stamps.get(reply.seq as usize).copied().unwrap_or(0);
            let path_rtt_ns = match reply.stamp {
                Some(stamp) if transmitted > 0 => stamp.0 as i64 - transmitted as i64,
                _ => {
                    unstamped += 1;
                    -1
                }
            };
            rows.push(RttRow {
                seq: request.seq,
                flow: 0,
                intended_ns: request.intended_ns,
                sent_ns: request.sent_ns,
                received_ns: reply.user.0 as i64,
                rtt_ns,
                path_rtt_ns,
            });
        }
        let sent = sending.rows.len() as u64 + sending.rows.overflowed;
        let received = rows.len() as u64;
        report.add("sent_packets", sent);
        report.add("sent_bytes", sent * self.payload_bytes as u64);
        report.add("received_packets", received);
        report.add("received_bytes", received * self.payload_bytes as u64);
        report.add("lost_packets", sent.saturating_sub(received));
        report.add("late_packets", late);
        report.add("duplicate_packets", receiving.sequence.duplicates);
        report.add("reordered_packets", receiving.sequence.reordered);
        report.add("unstamped_packets", unstamped);
        report.add("stranger_packets", receiving.strangers);
        report.add("receive_stalls", receiving.stalls);
        report.add("socket_drops", u64::from(receiving.drops));
        report.add("send_errors", 0);
        if receiving.stamps.steps > 0 {
            report.taint(
                taint::Kind::ClockStep,
                "the wall clock was set while packets were stamped with it".to_owned(),
            );
        }
        report.failure = report.failure.take().or(receiving.failure);
        receiving.waits.close(&mut report);
        report.table(sending.rows);
        report.table(rows);
        report
    }
}

impl Sending {
    fn keep(&mut self, k: u64, intended: Nanos, sent: Nanos, payload_bytes: usize) {
        let kept = self.rows.len();
        self.rows.push(SentRow {
            seq: k as i64,
            flow: 0,
            intended_ns: intended.0 as i64,
            sent_ns: sent.0 as i64,
            payload_bytes: payload_bytes as i32,
        });
        if self.rows.len() > kept {
            self.stamps.push(0);
            self.pending.push_back((self.next_call, kept));
            if self.pending.len() > PENDING_STAMPS {
                self.pending.pop_front();
            }
        }
        self.next_call = self.next_call.wrapping_add(1);
    }

    /// Takes the transmit stamps that are there. After a send that failed, the kernel's count of calls is not known:
    /// the next stamp, which belongs to the newest call, sets it again.
    fn collect_stamps(&mut self, sender: &OwnedFd) {
        while !self.pending.is_empty() {
            let Some((call, stamp)) = self.inbox.transmit_stamp(sender.as_fd()) else { break };
            // A bridge that no packet filter looks at passes the packet to its port with the sender's socket still
            // on it, and that port stamps it as well: the first stamp is the vNIC's.
            if self.stamped_call.replace(call) == Some(call) {
                continue;
            }
            let place = self.pending.iter().position(|(number, _)| *number == call);
            if let Some((_, row)) = place.and_then(|place| self.pending.remove(place)) {
                self.stamps[row] = stamp.0;
            } else if let Some((_, row)) = self.pending.pop_back() {
                self.stamps[row] = stamp.0;
                self.next_call = call.wrapping_add(1);
                self.pending.clear();
            }
        }
    }
}

impl Receiving {
    /// Takes what a receive call gave; false when the socket is at its end.
    fn take(&mut self, received: io::Result<Message<'_>>, format: Format, shared: &Shared) {
        let message = match received {
            Ok(message) => message,
            Err(error) => {
                if trouble(&error) == Trouble::Fatal {
                    self.failure = Some(format!("cannot receive: {error}"));
                }
                return;
            }
        };
        let user = clock::raw();
        if let Some(drops) = message.drops {
            self.drops = drops;
        }
        let newest = shared.sent.load(Ordering::Acquire);
        let answered =
            format.reply(message.bytes).and_then(|(low, payload)| match (ProbeHeader::read(payload), low) {
                (Some(header), _) => Some((header.seq, Some(header.sent))),
                (None, Some(low)) => echo::widen(low, newest).map(|seq| (seq, None)),
                (None, None) => None,
            });
        // The newest request may be answered before its sender has said that it is sent.
        let Some((seq, sent)) = answered.filter(|(seq, _)| *seq <= newest) else {
            self.strangers += u64::from(!message.bytes.is_empty());
            return;
        };
        let expected = self.sequence.next_expected();
        if self.sequence.record(seq) == Arrival::Duplicate {
            return;
        }
        self.tally.seen(message.bytes.len() as u64);
        self.tally.expect(self.sequence.next_expected().saturating_sub(expected));
        if let Some(sent) = sent {
            self.tally.took(user.since(sent).0);
        }
        self.stamps.refresh(user);
        if let Some(stamp) = message.stamp {
            self.stalls += u64::from(user.0 as i64 - self.stamps.raw_ns(stamp) > STALL.0 as i64);
        }
        self.replies.push(Reply { seq, user, stamp: message.stamp });
        self.waits.dealt_with_datagram(user, message.stamp);
        shared.received.store(self.sequence.received, Ordering::Release);
    }
}

fn receive_until_over(format: Format, receiver: &OwnedFd, shared: &Shared, receiving: &mut Receiving) {
    let mut inbox = Inbox::new();
    while !shared.over.load(Ordering::Relaxed) && receiving.failure.is_none() {
        receiving.take(inbox.receive(receiver.as_fd(), 0), format, shared);
    }
}

/// The UDP server: sends each datagram back, or as much as `answer_bytes` says, its header in front.
pub struct Reflector {
    socket: OwnedFd,
    port: u16,
    idle: Idle,
    answer_bytes: Option<usize>,
}

impl Reflector {
    /// Binds its socket.
    ///
    /// # Errors
    /// When the address cannot be bound.
    pub fn prepare(arming: &Arming<'_>, answer_bytes: Option<usize>) -> anyhow::Result<Self> {
        let address = arming.local.socket_address("local")?;
        let socket = socket::udp_from(address, arming.peer.ip("peer")?)
            .with_context(|| format!("cannot bind UDP {address}"))?;
        socket::set_buffer(&socket, true, 8 << 20)?;
        socket::set_buffer(&socket, false, 4 << 20)?;
        socket::stamp_receives(&socket)?;
        arming.run.wakes(&socket)?;
        let port = socket::local_address(&socket)?.port();
        Ok(Self { socket, port, idle: arming.common.idle, answer_bytes })
    }
}

impl Workload for Reflector {
    fn port(&self) -> Option<u16> {
        Some(self.port)
    }

    fn run(self: Box<Self>, run: &Run) -> Report {
        let mut report = Report::default();
        let mut inbox = Inbox::new();
        let flags = if self.idle == Idle::Poll { libc::MSG_DONTWAIT } else { 0 };
        let (mut packets, mut bytes, mut errors, mut drops) = (0u64, 0u64, 0u64, 0);
        let mut answer = vec![0; self.answer_bytes.unwrap_or(0)];
        let mut waits = Waits::new();
        while !run.stopped() {
            match inbox.receive(self.socket.as_fd(), flags) {
                Ok(message) if ProbeHeader::read(message.bytes).is_some() => {
                    let taken = clock::raw();
                    packets += 1;
                    bytes += message.bytes.len() as u64;
                    drops = message.drops.unwrap_or(drops);
                    let to = message.from().map(RawAddress::from);
                    let reply = if self.answer_bytes.is_some() {
                        answer[..COMPACT_BYTES].copy_from_slice(&message.bytes[..COMPACT_BYTES]);
                        &answer
                    } else {
                        message.bytes
                    };
                    errors += u64::from(socket::answer(self.socket.as_fd(), reply, to.as_ref()).is_err());
                    waits.dealt_with_datagram(taken, message.stamp);
                }
                Ok(_) => {}
                Err(error) if trouble(&error) == Trouble::Fatal => {
                    report.failure = Some(format!("cannot receive: {error}"));
                    break;
                }
                Err(_) => {}
            }
        }
        report.add("received_packets", packets);
        report.add("received_bytes", bytes);
        report.add("sent_packets", packets - errors);
        report.add("send_errors", errors);
        report.add("socket_drops", u64::from(drops));
        waits.close(&mut report);
        report
    }
}
