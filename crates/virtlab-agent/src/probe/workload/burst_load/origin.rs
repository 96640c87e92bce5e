//! The end that originates bursts.

use crate::probe::icmp;
use crate::probe::live::Tally;
use crate::probe::pacing::{Pacer, sleep};
use crate::probe::report::Report;
use crate::probe::run::Run;
use crate::probe::socket::{self, Inbox, RawAddress, Trouble, trouble};
use crate::probe::spool::Spool;
use crate::probe::waits::Waits;
use crate::probe::workload::echo::{Format, Packet};
use crate::probe::workload::rtt::fresh_identifier;
use anyhow::Context;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use virtlab_load::burst;
use virtlab_load::meters::{Arrival, Sequence};
use virtlab_system::clock;
use virtlab_wire::Nanos;
use virtlab_wire::probe_header::{ProbeHeader, Purpose};
use virtlab_wire::rows::BurstRow;

/// Until a full queue is tried again.
const NO_ROOM_PAUSE: Nanos = Nanos(300_000);
/// Replies still on their way at the end are awaited this long.
const GRACE: Nanos = Nanos(40_000_000);

/// What is originated.
#[derive(Debug)]
pub struct Plan {
    /// L.
    pub burst_bytes: u64,
    /// T.
    pub period: Nanos,
    /// S.
    pub streams: u32,
    /// First burst of each stream, after the start.
    pub phases: Vec<Nanos>,
    /// Whether replies come back.
    pub replies: bool,
    /// Largest datagram.
    pub most_bytes: u64,
    /// When it ends by itself.
    pub duration: Nanos,
}

/// Sockets and schedule of an originating end.
pub struct Origin {
    plan: Plan,
    format: Format,
    /// One per stream; with ICMP a single one.
    senders: Vec<OwnedFd>,
    receivers: Vec<OwnedFd>,
    icmp_peer: Option<RawAddress>,
}

/// A reply as received.
#[derive(Clone, Copy, Debug)]
struct Reply {
    stream: u16,
    seq: u64,
    user: Nanos,
    bytes: u32,
}

struct Shared {
    sent: AtomicU64,
    replied: AtomicU64,
    over: AtomicBool,
}

/// A stream's place in its schedule.
struct Stream {
    next_burst: u64,
    next_seq: u64,
    packets: Vec<Packet>,
    /// First number and row of each burst, in order; the burst owns numbers up to the next one's first.
    bursts: Vec<(u64, usize)>,
}

impl Origin {
    /// Opens the streams' sockets.
    ///
    /// # Errors
    /// When they cannot be opened.
    pub fn open(plan: Plan, local: IpAddr, peer: IpAddr, icmp: bool) -> anyhow::Result<Self> {
        if icmp {
            let sockets = icmp::open(local, peer, fresh_identifier()).context("cannot open ICMP sockets")?;
            let format = Format::of(&sockets, peer.is_ipv6());
            let icmp_peer = Some(SocketAddr::new(peer, 0).into());
            socket::stamp_nothing(&sockets.sender)?;
            return Ok(Self {
                plan,
                format,
                senders: vec![sockets.sender],
                receivers: vec![sockets.receiver],
                icmp_peer,
            });
        }
        let mut senders = Vec::new();
        for _ in 0..plan.streams {
            let address = SocketAddr::new(local, 0);
            let fd = socket::udp_from(address, peer).with_context(|| format!("cannot bind UDP {address}"))?;
            // The send buffer stays the system's: a network that pushes back then holds the sender, as it holds any
            // program, instead of filling the guest's own queue until fragments are dropped there.
            socket::set_buffer(&fd, true, 8 << 20)?;
            socket::stamp_receives(&fd)?;
            senders.push(fd);
        }
        let receivers = senders.iter().map(OwnedFd::try_clone).collect::<Result<_, _>>()?;
        Ok(Self { plan, format: Format::Udp, senders, receivers, icmp_peer: None })
    }

    /// Originates bursts towards `target` (UDP) until stopped or over.
    pub fn run(&mut self, run: &Run, target: Option<SocketAddr>, pacer: Pacer) -> Report {
        let mut report = Report::default();
        if let Some(target) = target
            && let Some(error) = self.senders.iter().find_map(|fd| socket::connect(fd, target).err())
        {
            report.failure = Some(format!("cannot reach {target}: {error}"));
            return report;
        }
        let shared =
            Shared { sent: AtomicU64::new(0), replied: AtomicU64::new(0), over: AtomicBool::new(false) };
        let mut rows: Spool<BurstRow> = Spool::new(&run.budget);
        let mut replies: Spool<Reply> = Spool::new(&run.budget);
        let mut streams: Vec<Stream> = (0..self.plan.streams)
            .map(|_| Stream { next_burst: 0, next_seq: 0, packets: Vec::new(), bursts: Vec::new() })
            .collect();
        let (format, receivers) = (self.format, std::mem::take(&mut self.receivers));
        std::thread::scope(|scope| {
            let receiver = self.plan.replies.then(|| {
                let (shared, replies) = (&shared, &mut replies);
                let (streams, tally) = (self.plan.streams, run.tally());
                scope.spawn(move || receive(format, &receivers, streams, shared, replies, &tally))
            });
            self.send_all(run, pacer, &shared, &mut streams, &mut rows, &mut report);
            let until = clock::raw() + GRACE;
            while self.plan.replies
                && clock::raw() < until
                && shared.replied.load(Ordering::Acquire) < shared.sent.load(Ordering::Relaxed)
            {
                sleep(Nanos(500_000));
            }
            shared.over.store(true, Ordering::Relaxed);
            match receiver.map(std::thread::ScopedJoinHandle::join) {
                Some(Ok(received)) => report.merge(received),
                Some(Err(_)) => report.failure = Some("the receiving thread panicked".to_owned()),
                None => {}
            }
        });
        finish_bursts(&streams, &mut rows, &replies);
        report.table(rows);
        report
    }

    fn send_all(
        &self,
        run: &Run,
        pacer: Pacer,
        shared: &Shared,
        streams: &mut [Stream],
        rows: &mut Spool<BurstRow>,
        report: &mut Report,
    ) {
        let start = clock::raw();
        let end = start + self.plan.duration;
        let (mut burst_bytes, mut tuned) = (self.plan.burst_bytes, 0);
        let mut free = start;
        self.lay_out(burst_bytes, streams);
        loop {
            let instant = |(index, stream): (usize, &Stream)| {
                let phase = self.plan.phases.get(index).copied().unwrap_or_default();
                start + phase + Nanos(stream.next_burst.saturating_mul(self.plan.period.0))
            };
            let Some((intended, index)) =
                streams.iter().enumerate().map(|(index, stream)| (instant((index, stream)), index)).min()
            else {
                return;
            };
            if intended >= end {
                report.complete = pacer.wait_until(end, &run.stop);
                break;
            }
            if !pacer.wait_until(intended, &run.stop) {
                break;
            }
            let changes = run.tuned_count.load(Ordering::Acquire);
            if changes != tuned {
                tuned = changes;
                burst_bytes =
                    run.tuned("burst_bytes").and_then(|value| value.as_u64()).unwrap_or(burst_bytes);
                self.lay_out(burst_bytes, streams);
            }
            let now = clock::raw();
            report.pacing.record(now.since(intended.max(free)));
            let sent_bytes = self.send_burst(run, index, intended, &mut streams[index], shared, report);
            free = clock::raw();
            let stream = &mut streams[index];
            let burst = stream.next_burst;
            stream.next_burst += 1;
            let Some((first_seq, sent_bytes)) = sent_bytes else { break };
            if stream.packets.is_empty() {
                continue;
            }
            stream.bursts.push((first_seq, rows.len()));
            rows.push(BurstRow {
                burst: burst as i64,
                stream: index as i32,
                intended_ns: intended.0 as i64,
                sent_ns: now.0 as i64,
                finished_ns: -1,
                sent_bytes: sent_bytes as i64,
                replied_bytes: 0,
            });
        }
        report.add("sending_ns", clock::raw().since(start).0);
        report.add("send_errors", 0);
        let offered: u64 = streams.iter().map(|stream| stream.next_burst).sum();
        report.add("bursts", offered);
    }

    /// Datagrams of each stream for bursts of `burst_bytes`.
    fn lay_out(&self, burst_bytes: u64, streams: &mut [Stream]) {
        for (index, stream) in streams.iter_mut().enumerate() {
            let share = burst::share(burst_bytes, self.plan.streams, index as u32);
            let sizes = burst::datagrams(share, self.plan.most_bytes);
            stream.packets = sizes.iter().map(|&bytes| Packet::new(self.format, bytes as usize)).collect();
        }
    }

    /// Sends one burst; its first number and the bytes that the kernel took. `None` when the role cannot continue.
    fn send_burst(
        &self,
        run: &Run,
        index: usize,
        intended: Nanos,
        stream: &mut Stream,
        shared: &Shared,
        report: &mut Report,
    ) -> Option<(u64, u64)> {
        let sender = &self.senders[index.min(self.senders.len() - 1)];
        let first_seq = stream.next_seq;
        let mut sent_bytes = 0;
        for packet in &mut stream.packets {
            let bytes = packet.payload_bytes() as u64;
            loop {
                let header = ProbeHeader {
                    purpose: Purpose::Data,
                    flow: index as u16,
                    seq: stream.next_seq,
                    sent: clock::raw(),
                    intended: Some(intended),
                };
                let message = packet.fill(&header, stream.next_seq as u16);
                match socket::send(sender.as_fd(), message, self.icmp_peer.as_ref()) {
                    Ok(()) => {
                        sent_bytes += bytes;
                        report.add("requests_sent_packets", 1);
                        report.add("requests_sent_bytes", bytes);
                        report.add("sent_packets", 1);
                        report.add("sent_bytes", bytes);
                        shared.sent.fetch_add(1, Ordering::Relaxed);
                        break;
                    }
                    Err(error) => match trouble(&error) {
                        Trouble::Again if !run.stopped() => report.add("blocked_sends", 1),
                        Trouble::Again => break,
                        Trouble::Refused => report.add("refused", 1),
                        // A raw socket does not wait for room by itself.
                        Trouble::NoRoom => {
                            report.add("blocked_sends", 1);
                            sleep(NO_ROOM_PAUSE);
                        }
                        Trouble::Fatal => {
                            report.add("send_errors", 1);
                            report.failure = Some(format!("cannot send {bytes} B: {error}"));
                            return None;
                        }
                    },
                }
                if run.stopped() {
                    break;
                }
            }
            stream.next_seq += 1;
        }
        Some((first_seq, sent_bytes))
    }
}

/// Takes replies on all sockets until over.
fn receive(
    format: Format,
    receivers: &[OwnedFd],
    streams: u32,
    shared: &Shared,
    replies: &mut Spool<Reply>,
    tally: &Tally,
) -> Report {
    let mut report = Report::default();
    let mut inbox = Inbox::new();
    let mut sequences: Vec<Sequence> = (0..streams).map(|_| Sequence::default()).collect();
    let mut drops = vec![0u32; receivers.len()];
    let (mut packets, mut bytes) = (0u64, 0u64);
    let mut waits = Waits::new();
    while !shared.over.load(Ordering::Relaxed) {
        let mut waiting: Vec<PollFd<'_>> =
            receivers.iter().map(|fd| PollFd::new(fd.as_fd(), PollFlags::POLLIN)).collect();
        if poll(&mut waiting, PollTimeout::from(20u8)).is_err() {
            continue;
        }
        for (fd, drops) in receivers.iter().zip(&mut drops) {
            while let Ok(message) = inbox.receive(fd.as_fd(), libc::MSG_DONTWAIT) {
                let user = clock::raw();
                *drops = message.drops.unwrap_or(*drops);
                let Some((_, payload)) = format.reply(message.bytes) else { continue };
                let Some(header) = ProbeHeader::read(payload) else { continue };
                let Some(sequence) = sequences.get_mut(usize::from(header.flow)) else { continue };
                if sequence.record(header.seq) == Arrival::Duplicate {
                    continue;
                }
                packets += 1;
                bytes += payload.len() as u64;
                tally.seen(payload.len() as u64);
                shared.replied.fetch_add(1, Ordering::Release);
                replies.push(Reply {
                    stream: header.flow,
                    seq: header.seq,
                    user,
                    bytes: payload.len() as u32,
                });
                waits.dealt_with_datagram(user, message.stamp);
            }
        }
    }
    report.add("replies_received_packets", packets);
    report.add("replies_received_bytes", bytes);
    report.add("received_packets", packets);
    report.add("received_bytes", bytes);
    report.add("duplicate_packets", sequences.iter().map(|sequence| sequence.duplicates).sum());
    report.add("reordered_packets", sequences.iter().map(|sequence| sequence.reordered).sum());
    report.add("socket_drops", drops.iter().map(|drops| u64::from(*drops)).sum());
    waits.close(&mut report);
    report
}

/// Writes into each burst's row what came back and, once all of it had, when.
fn finish_bursts(streams: &[Stream], rows: &mut Spool<BurstRow>, replies: &Spool<Reply>) {
    let mut latest: Vec<i64> = vec![-1; rows.len()];
    for reply in replies.iter() {
        let Some(stream) = streams.get(usize::from(reply.stream)) else { continue };
        let after = stream.bursts.partition_point(|(first_seq, _)| *first_seq <= reply.seq);
        let Some((_, row)) = after.checked_sub(1).and_then(|place| stream.bursts.get(place)) else {
            continue;
        };
        if let (Some(burst), Some(latest)) = (rows.get_mut(*row), latest.get_mut(*row)) {
            burst.replied_bytes += i64::from(reply.bytes);
            *latest = (*latest).max(reply.user.0 as i64);
            if burst.replied_bytes >= burst.sent_bytes {
                burst.finished_ns = *latest;
            }
        }
    }
}
