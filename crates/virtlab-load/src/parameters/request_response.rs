//! `request_response`: requests to a server that spends a demand of processor time on each, open or closed loop.

use super::psping::MOST_DATAGRAM_BYTES;
use super::{CongestionControl, OutOfRange, Role, connections, holdable, positive, request_target};
use crate::entering::Entering;
use crate::random::Stream;
use crate::schedule::{Arrivals, Schedule};
use core::net::IpAddr;
use serde::Deserialize;
use std::sync::Arc;
use virtlab_wire::Nanos;

/// As a Plan calls it.
pub const NAME: &str = "request_response";

/// The parameter of the rate, which can change while the role runs.
pub const RATE: &str = "rate_per_s";

/// Octets at the head of every request and response: length, kind, status, server, number.
pub const HEADER_BYTES: u64 = 16;

/// Threads of one server.
const THREADS_MOST: u16 = 1024;
/// Samples of an empirical demand.
const SAMPLES_MOST: usize = 10_000;
/// Requests of one pass of a trace.
const TIMES_MOST: usize = 20_000;
/// Subtasks of one request.
const SUBTASKS_MOST: u16 = 1024;

/// How times are spread about their mean.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Distribution {
    /// All alike.
    #[default]
    Constant,
    /// Independent, of standard deviation equal to the mean.
    Exponential,
    /// Independent, of a given ratio of standard deviation to mean.
    Lognormal,
    /// Independent, each one of given times.
    Empirical,
}

/// How a server writes to its file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WriteMode {
    /// To the kernel, which takes it to the disk later.
    #[default]
    Buffered,
    /// To the disk, before the answer.
    Fsync,
    /// To the disk, one write at a time, and each as long after the one before as that took.
    Throttled,
}

/// What a server does with a request that finds its backlog full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Full {
    /// Answers at once that it refuses.
    #[default]
    Reject,
    /// Leaves it where it is until there is room.
    Wait,
}

/// How a request ended, as rows say it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Served.
    Answered = 0,
    /// The server's backlog was full.
    Refused = 1,
    /// Given up at its time-out.
    Lost = 2,
    /// With its connection.
    Broken = 3,
    /// Without an answer when the role was stopped.
    Open = 4,
    /// Answered that it failed: over HTTP by a status of 400 or more.
    Failed = 5,
    /// A passive server had no answer of the active one.
    BadGateway = 6,
}

/// In how many ways a request can end.
pub const ENDINGS: usize = 7;

/// A server of a service where requests enter.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Among the servers of its service.
    pub place: u16,
    /// Of the client, towards it.
    pub local: IpAddr,
    /// Its own.
    pub address: IpAddr,
    /// Of the simulator: places of the vNICs of both.
    #[serde(default)]
    pub vnics: [usize; 2],
    /// Of the simulator: the server's, where that is not the one of the role.
    #[serde(default)]
    pub seed: Option<u64>,
}

/// In which words client and server speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Protocol {
    /// Ours: a head that says how long a message is.
    #[default]
    Tcp,
    /// The same, each message in a datagram of its own.
    Udp,
    /// GET over HTTP/1.1.
    Http,
}

/// What a role says.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestResponse {
    /// For which requests are due; absent: until stopped.
    pub duration_ns: Option<u64>,
    /// Requests due per second, whatever has been answered; absent: every connection is a client that asks in turns.
    pub rate_per_s: Option<u64>,
    /// How those are spaced.
    #[serde(default)]
    pub arrivals: Arrivals,
    /// When requests are due without a rate, from the start, in order; empty: no trace says it.
    #[serde(default)]
    pub trace_ns: Vec<u64>,
    /// The trace begins again so long after it began; absent: after its last request none is due.
    pub trace_period_ns: Option<u64>,
    /// What is spoken.
    #[serde(default)]
    pub protocol: Protocol,
    /// The service at which the role ends; absent: a server of ours.
    pub service: Option<String>,
    /// Servers of the service that are asked, first the one at which the role ends; none: that one, the first of its
    /// service.
    #[serde(default)]
    pub entries: Vec<Entry>,
    /// Of requests: the share that enters at another than the first of them.
    #[serde(default)]
    pub passive_share_ratio: f64,
    /// Whether requests enter at all of them in turn.
    #[serde(default)]
    pub round_robin: bool,
    /// Target of requests over HTTP; absent: '/'.
    pub path: Option<String>,
    /// Whether a connection carries more than one request over HTTP; absent: it does.
    pub keep_alive: Option<bool>,
    /// On each there is one request at a time.
    pub connections: u16,
    /// Of a client without a rate, between an answer and its next request.
    #[serde(default)]
    pub think_ns: u64,
    /// How those are spread.
    #[serde(default)]
    pub think_distribution: Distribution,
    /// Of a request, its header included.
    pub request_bytes: u64,
    /// Of its response, likewise.
    pub response_bytes: u64,
    /// A request without a whole answer this long after it was due is given up.
    pub timeout_ns: u64,
    /// Tries of a request beyond its first.
    #[serde(default)]
    pub retries: u16,
    /// From the begin of a try to the next, unless it was answered.
    pub retry_after_ns: Option<u64>,
    /// An answer this long after its request was due is late; of the analysis alone.
    pub deadline_ns: Option<u64>,
    /// Processor time that a request takes at the server before its subtasks, as counted work.
    #[serde(default)]
    pub serial_demand_ns: u64,
    /// Processor time that a request takes at the server, all its subtasks together, as counted work.
    #[serde(default)]
    pub demand_ns: u64,
    /// Into which the demand is split, so that as many threads can do it at a time.
    pub subtasks: u16,
    /// How demands are spread.
    #[serde(default)]
    pub demand_distribution: Distribution,
    /// Of a lognormal one: standard deviation over mean.
    pub demand_variation_ratio: f64,
    /// Of an empirical one: times from which each is drawn.
    #[serde(default)]
    pub demand_samples_ns: Vec<u64>,
    /// Of the work of each task: what is done under the one lock of the server.
    #[serde(default)]
    pub lock_ratio: f64,
    /// Of the server: what it writes to a file of its own for each request, after its work.
    #[serde(default)]
    pub write_bytes: u64,
    /// How.
    #[serde(default)]
    pub write_mode: WriteMode,
    /// It writes as much where it has not for so long, requests or not.
    #[serde(default)]
    pub idle_write_ns: u64,
    /// Of the server: requests that are served at a time.
    pub threads: u16,
    /// Of the server: requests that wait for a thread, at most.
    pub backlog: u32,
    /// Of the server, where those are so many.
    pub full: Full,
    /// Of the server: for how long it serves nothing, once.
    #[serde(default)]
    pub pause_ns: u64,
    /// When that begins, from the first request on.
    #[serde(default)]
    pub pause_after_ns: u64,
    /// Units of work that one processor does in a second, measured outside guests; absent: the server measures.
    pub work_per_s: Option<u64>,
    /// SO_SNDBUF; absent: the system's.
    pub send_buffer_bytes: Option<u64>,
    /// SO_RCVBUF; absent: the system's.
    pub receive_buffer_bytes: Option<u64>,
    /// Absent: the system's.
    pub congestion_control: Option<CongestionControl>,
}

impl Role for RequestResponse {
    const NAME: &str = NAME;
}

impl RequestResponse {
    /// # Errors
    /// The first parameter that no end could play.
    pub fn check(&self) -> Result<(), OutOfRange> {
        connections(self.connections)?;
        positive("threads", u64::from(self.threads))?;
        positive("subtasks", u64::from(self.subtasks))?;
        positive("timeout_ns", self.timeout_ns)?;
        positive("retry_after_ns", self.retry_after_ns.unwrap_or(1))?;
        if (self.retries > 0) != self.retry_after_ns.is_some() {
            return Err(OutOfRange::new("retries", "and retry_after_ns are given together"));
        }
        positive("work_per_s", self.work_per_s.unwrap_or(1))?;
        self.rate_per_s.map_or(Ok(()), Self::check_rate)?;
        self.check_trace()?;
        if !(self.demand_variation_ratio > 0.0 && self.demand_variation_ratio <= 1024.0) {
            return Err(OutOfRange::new("demand_variation_ratio", "is above 0 and at most 1024"));
        }
        if !(0.0..=1.0).contains(&self.lock_ratio) {
            return Err(OutOfRange::new("lock_ratio", "is at least 0 and at most 1"));
        }
        let shared = self.entries.len() > 1;
        if !(0.0..=1.0).contains(&self.passive_share_ratio) || (self.passive_share_ratio > 0.0 && !shared) {
            let what = "is at least 0 and at most 1, of a service with passive servers";
            return Err(OutOfRange::new("passive_share_ratio", what));
        }
        if self.round_robin && (self.passive_share_ratio > 0.0 || !shared) {
            let what = "is of a service on several guests without passive servers";
            return Err(OutOfRange::new("round_robin", what));
        }
        if shared && self.protocol == Protocol::Udp {
            return Err(OutOfRange::new("entries", "are asked over TCP"));
        }
        if self.passive_share_ratio > 0.0 && self.protocol != Protocol::Tcp {
            return Err(OutOfRange::new(
                "passive_share_ratio",
                "is of requests in virtlab's own protocol, over TCP",
            ));
        }
        let empirical = self.demand_distribution == Distribution::Empirical;
        if empirical == self.demand_samples_ns.is_empty() || self.demand_samples_ns.len() > SAMPLES_MOST {
            let what = "are 1 to 10000 of an empirical demand, and of no other";
            return Err(OutOfRange::new("demand_samples_ns", what));
        }
        if empirical && self.demand_ns > 0 {
            return Err(OutOfRange::new("demand_ns", "is not given beside demand_samples_ns"));
        }
        if !matches!(self.think_distribution, Distribution::Constant | Distribution::Exponential) {
            return Err(OutOfRange::new("think_distribution", "is constant or exponential"));
        }
        self.path.as_deref().map_or(Ok(()), request_target)?;
        if self.protocol == Protocol::Http && self.service.is_none() {
            return Err(OutOfRange::new(
                "protocol",
                "http is spoken with services, and the role ends at none",
            ));
        }
        if self.threads > THREADS_MOST {
            return Err(OutOfRange::new("threads", "are at most 1024"));
        }
        if self.subtasks > SUBTASKS_MOST {
            return Err(OutOfRange::new("subtasks", "are at most 1024"));
        }
        let datagrams = self.protocol == Protocol::Udp;
        if datagrams && self.congestion_control.is_some() {
            return Err(OutOfRange::new("congestion_control", "is of TCP, and the protocol is udp"));
        }
        holdable("write_bytes", self.write_bytes)?;
        for (name, bytes) in [("request_bytes", self.request_bytes), ("response_bytes", self.response_bytes)]
        {
            holdable(name, bytes)?;
            if bytes < HEADER_BYTES {
                return Err(OutOfRange::new(name, "has no room for its header of 16 B"));
            }
            if datagrams && bytes > MOST_DATAGRAM_BYTES {
                return Err(OutOfRange::new(name, "is at most 65507 in one datagram"));
            }
        }
        Ok(())
    }

    /// Of the rate, first and when it changes.
    ///
    /// # Errors
    /// When nothing is ever due.
    pub fn check_rate(rate_per_s: u64) -> Result<(), OutOfRange> {
        positive(RATE, rate_per_s)
    }

    fn check_trace(&self) -> Result<(), OutOfRange> {
        if !self.trace_ns.is_sorted() || self.trace_ns.len() > TIMES_MOST {
            return Err(OutOfRange::new("trace_ns", "are at most 20000 instants, in order"));
        }
        if self.rate_per_s.is_some() && !self.trace_ns.is_empty() {
            return Err(OutOfRange::new("trace_ns", "are not given beside a rate"));
        }
        let last_ns = self.trace_ns.last().copied().unwrap_or(u64::MAX);
        if self.trace_period_ns.is_some_and(|period_ns| period_ns <= last_ns) {
            return Err(OutOfRange::new("trace_period_ns", "is longer than the trace"));
        }
        Ok(())
    }

    /// When requests are due whatever was answered; `None` where each follows the answer before.
    #[must_use]
    pub fn due(&self, seed: u64) -> Option<Schedule> {
        if !self.trace_ns.is_empty() {
            let times = self.trace_ns.iter().copied().map(Nanos).collect();
            return Some(Schedule::Trace { times, period: self.trace_period_ns.map(Nanos) });
        }
        self.rate_per_s.map(|rate| self.schedule(rate, seed))
    }

    /// When requests are due at a rate; gaps are drawn from the seed.
    #[must_use]
    pub fn schedule(&self, rate_per_s: u64, seed: u64) -> Schedule {
        Schedule::PerSecond { rate_pps: rate_per_s }.with(self.arrivals, seed)
    }

    /// Demands of requests in the order in which the server begins them: of each subtask its share of the mean, drawn
    /// by itself.
    #[must_use]
    pub fn demands(&self, seed: u64) -> Vec<Times> {
        let samples: Arc<[u64]> = self.demand_samples_ns.clone().into();
        (0..self.subtasks)
            .map(|part| {
                let name = if part == 0 { "demand".to_owned() } else { format!("demand.{part}") };
                let share = Share { part, of: self.subtasks };
                let stream = Stream::new(seed, &name);
                match self.demand_distribution {
                    Distribution::Empirical => Times::Empirical { samples: samples.clone(), share, stream },
                    _ => self.work(share.of(self.demand_ns), stream),
                }
            })
            .collect()
    }

    /// Demands of requests before their subtasks, if requests have such a stage. Beside an empirical demand they are
    /// all alike.
    #[must_use]
    pub fn serial(&self, seed: u64) -> Option<Times> {
        let mean_ns = Some(self.serial_demand_ns).filter(|mean_ns| *mean_ns > 0)?;
        Some(self.work(mean_ns, Stream::new(seed, "serial_demand")))
    }

    fn work(&self, mean_ns: u64, stream: Stream) -> Times {
        let variation = self.demand_variation_ratio;
        Times::Spread { mean_ns, distribution: self.demand_distribution, variation, stream }
    }

    /// Of a task's work what is done under the lock, at its end.
    #[must_use]
    pub fn locked(&self, work: Nanos) -> Nanos {
        Nanos((work.0 as f64 * self.lock_ratio).round() as u64)
    }

    /// Whether requests take any work.
    #[must_use]
    pub fn works(&self) -> bool {
        self.demand_ns > 0 || self.serial_demand_ns > 0 || !self.demand_samples_ns.is_empty()
    }

    /// Of one of the places where requests enter: which server of the service that is.
    #[must_use]
    pub fn place_of(&self, entry: usize) -> i32 {
        self.entries.get(entry).map_or(0, |entry| i32::from(entry.place))
    }

    /// Where requests enter: all those that are due at a rate, or those of one client.
    #[must_use]
    pub fn entering(&self, seed: u64, client: Option<u16>) -> Entering {
        let name = client.map_or_else(|| "entry".to_owned(), |client| format!("entry.{client}"));
        let stream = Stream::new(seed, &name);
        let others = self.entries.len().saturating_sub(1);
        let entering = Entering::new(self.passive_share_ratio, others, stream);
        if self.round_robin { entering.in_turn(client.map_or(0, usize::from)) } else { entering }
    }

    /// Times for which one of the clients thinks.
    #[must_use]
    pub fn thinking(&self, seed: u64, client: u16) -> Times {
        let distribution = self.think_distribution;
        let stream = Stream::new(seed, &format!("think.{client}"));
        Times::Spread { mean_ns: self.think_ns, distribution, variation: 1.0, stream }
    }

    /// Where the server pauses, once the first request has come.
    #[must_use]
    pub fn pause(&self, first: Nanos) -> Pause {
        let begin = first + Nanos(self.pause_after_ns);
        Pause { begin, end: begin + Nanos(self.pause_ns) }
    }
}

/// One of equal parts of a time, which together are all of it.
#[derive(Clone, Copy, Debug)]
pub struct Share {
    part: u16,
    of: u16,
}

impl Share {
    fn of(self, whole_ns: u64) -> u64 {
        let until = |part: u16| u128::from(whole_ns) * u128::from(part) / u128::from(self.of);
        (until(self.part + 1) - until(self.part)) as u64
    }
}

/// Times, one after another.
#[derive(Clone, Debug)]
pub enum Times {
    /// About a mean.
    Spread {
        /// Of all.
        mean_ns: u64,
        /// How.
        distribution: Distribution,
        /// Of a lognormal distribution: standard deviation over mean.
        variation: f64,
        /// Where they are drawn from.
        stream: Stream,
    },
    /// Each a part of a sample, all samples as likely.
    Empirical {
        /// What was measured.
        samples: Arc<[u64]>,
        /// Of each.
        share: Share,
        /// Where they are drawn from.
        stream: Stream,
    },
}

impl Times {
    /// The next.
    pub fn draw(&mut self) -> Nanos {
        match self {
            Self::Spread { mean_ns, distribution, variation, stream } => match distribution {
                Distribution::Constant | Distribution::Empirical => Nanos(*mean_ns),
                Distribution::Exponential => Nanos(stream.exponential(*mean_ns as f64) as u64),
                Distribution::Lognormal => Nanos(stream.lognormal(*mean_ns as f64, *variation) as u64),
            },
            Self::Empirical { samples, share, stream } => {
                Nanos(share.of(samples[stream.below(samples.len() as u64) as usize]))
            }
        }
    }
}

/// A time in which a server serves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pause {
    begin: Nanos,
    end: Nanos,
}

impl Pause {
    /// When it begins and when it is over.
    #[must_use]
    pub fn edges(&self) -> [Nanos; 2] {
        [self.begin, self.end]
    }

    /// When it is over, if `now` lies in it.
    #[must_use]
    pub fn holds(&self, now: Nanos) -> Option<Nanos> {
        (self.begin <= now && now < self.end).then_some(self.end)
    }

    /// When work that begins now and takes so long is done.
    #[must_use]
    pub fn done(&self, now: Nanos, work: Nanos) -> Nanos {
        let begun = self.holds(now).unwrap_or(now);
        let ended = begun + work;
        if begun < self.begin && self.begin < ended { ended + self.end.since(self.begin) } else { ended }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;

    fn read(text: &str) -> RequestResponse {
        testing::of(text).unwrap()
    }

    #[test]
    fn one_client_asks_in_turns_a_server_of_one_thread_unless_said() {
        let own = read("{}");
        assert_eq!((own.connections, own.threads, own.rate_per_s, own.check()), (1, 1, None, Ok(())));
        assert_eq!((own.backlog, own.full, own.works()), (1024, Full::Reject, false));
    }

    #[test]
    fn what_no_end_could_play_is_named() {
        let said = |text: &str| read(text).check().unwrap_err().to_string();
        assert_eq!(said(r#"{"rate_per_s": 0}"#), "rate_per_s must be above 0");
        assert_eq!(said(r#"{"request_bytes": 15}"#), "request_bytes has no room for its header of 16 B");
        assert_eq!(said(r#"{"connections": 1025}"#), "connections are at most 1024");
        assert_eq!(
            said(r#"{"protocol": "udp", "response_bytes": 65508}"#),
            "response_bytes is at most 65507 in one datagram"
        );
        assert_eq!(said(r#"{"threads": 0}"#), "threads must be above 0");
        assert_eq!(said(r#"{"subtasks": 1025}"#), "subtasks are at most 1024");
        assert_eq!(said(r#"{"lock_ratio": 1.5}"#), "lock_ratio is at least 0 and at most 1");
        let share = "passive_share_ratio is at least 0 and at most 1, of a service with passive servers";
        assert_eq!(said(r#"{"passive_share_ratio": 0.5}"#), share);
        let entry = r#"{"place": 0, "local": "10.0.0.1", "address": "10.0.0.2"}"#;
        let two = |protocol| format!(r#"{{"protocol": "{protocol}", "entries": [{entry}, {entry}]}}"#);
        assert_eq!(read(&two("tcp")).check(), Ok(()));
        assert_eq!(
            read(&two("tcp").replace("\"entries", "\"round_robin\": true, \"entries")).check(),
            Ok(())
        );
        let alone = "round_robin is of a service on several guests without passive servers";
        assert_eq!(said(r#"{"round_robin": true}"#), alone);
        assert_eq!(said(&two("udp")), "entries are asked over TCP");
        let over_http = two("http").replace("\"entries", "\"service\": \"web\", \"entries");
        assert_eq!(read(&over_http).check(), Ok(()));
    }

    #[test]
    fn demands_have_their_mean_and_are_those_of_the_seed() {
        let own = read(r#"{"demand_ns": 1000000, "demand_distribution": "exponential"}"#);
        let drawn = |seed| {
            let mut demands = own.demands(seed).remove(0);
            (0..50_000).map(|_| demands.draw().0).collect::<Vec<_>>()
        };
        let mean = drawn(1).iter().sum::<u64>() as f64 / 5e4;
        assert!((mean / 1e6 - 1.0).abs() < 0.02, "{mean}");
        assert_eq!(drawn(1), drawn(1));
        assert_ne!(drawn(1), drawn(2));
    }

    #[test]
    fn an_empirical_demand_is_one_of_its_samples_each_as_often() {
        let own = read(
            r#"{"demand_distribution": "empirical", "demand_samples_ns": [10, 20, 20, 90], "subtasks": 2}"#,
        );
        own.check().unwrap();
        let mut demands = own.demands(1);
        let drawn: Vec<u64> = (0..40_000).map(|_| demands[0].draw().0).collect();
        let often = |time| drawn.iter().filter(|each| **each == time).count() as f64 / 4e4;
        assert!(
            (often(5) - 0.25).abs() < 0.01
                && (often(10) - 0.5).abs() < 0.01
                && (often(45) - 0.25).abs() < 0.01
        );
        let said = |text| read(text).check().unwrap_err().to_string();
        let bounds = "demand_samples_ns are 1 to 10000 of an empirical demand, and of no other";
        assert_eq!(said(r#"{"demand_distribution": "empirical"}"#), bounds);
        assert_eq!(said(r#"{"demand_samples_ns": [1]}"#), bounds);
    }

    #[test]
    fn a_pause_lengthens_what_it_falls_into_by_its_length() {
        let pause = read(r#"{"pause_ns": 100, "pause_after_ns": 50}"#).pause(Nanos(1000));
        assert_eq!(pause.done(Nanos(1000), Nanos(50)), Nanos(1050), "done before");
        assert_eq!(pause.done(Nanos(1040), Nanos(20)), Nanos(1160), "begun before");
        assert_eq!(pause.done(Nanos(1070), Nanos(20)), Nanos(1170), "begun within");
        assert_eq!(pause.done(Nanos(1150), Nanos(20)), Nanos(1170), "begun after");
    }
}
