//! `request_response`: requests to a server that spends a demand of processor time on each, open or closed loop.

use super::{CongestionControl, OutOfRange, Role, holdable, positive};
use crate::random::Stream;
use crate::schedule::{Arrivals, Schedule};
use serde::Deserialize;
use virtlab_wire::Nanos;

/// As a Plan calls it.
pub const NAME: &str = "request_response";

/// The parameter of the rate, which can change while the role runs.
pub const RATE: &str = "rate_per_s";

/// Octets at the head of every request and response: length, kind, status, server, number.
pub const HEADER_BYTES: u64 = 16;

/// Connections of one role.
const CONNECTIONS_MOST: u16 = 1024;
/// Threads of one server.
const THREADS_MOST: u16 = 1024;
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
}

/// What a role says.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RequestResponse {
    /// For which requests are due; absent: until stopped.
    pub duration_ns: Option<u64>,
    /// Requests due per second, whatever has been answered; absent: every connection is a client that asks in turns.
    pub rate_per_s: Option<u64>,
    /// How those are spaced.
    #[serde(default)]
    pub arrivals: Arrivals,
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
    /// Of the work of each task: what is done under the one lock of the server.
    #[serde(default)]
    pub lock_ratio: f64,
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
        positive("connections", u64::from(self.connections))?;
        positive("threads", u64::from(self.threads))?;
        positive("subtasks", u64::from(self.subtasks))?;
        positive("timeout_ns", self.timeout_ns)?;
        positive("work_per_s", self.work_per_s.unwrap_or(1))?;
        self.rate_per_s.map_or(Ok(()), Self::check_rate)?;
        if !(self.demand_variation_ratio > 0.0 && self.demand_variation_ratio <= 1024.0) {
            return Err(OutOfRange::new("demand_variation_ratio", "is above 0 and at most 1024"));
        }
        if !(0.0..=1.0).contains(&self.lock_ratio) {
            return Err(OutOfRange::new("lock_ratio", "is at least 0 and at most 1"));
        }
        if self.think_distribution == Distribution::Lognormal {
            return Err(OutOfRange::new("think_distribution", "is constant or exponential"));
        }
        if self.connections > CONNECTIONS_MOST {
            return Err(OutOfRange::new("connections", "are at most 1024"));
        }
        if self.threads > THREADS_MOST {
            return Err(OutOfRange::new("threads", "are at most 1024"));
        }
        if self.subtasks > SUBTASKS_MOST {
            return Err(OutOfRange::new("subtasks", "are at most 1024"));
        }
        for (name, bytes) in [("request_bytes", self.request_bytes), ("response_bytes", self.response_bytes)]
        {
            holdable(name, bytes)?;
            if bytes < HEADER_BYTES {
                return Err(OutOfRange::new(name, "has no room for its header of 16 B"));
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

    /// When requests are due at a rate; gaps are drawn from the seed.
    #[must_use]
    pub fn schedule(&self, rate_per_s: u64, seed: u64) -> Schedule {
        Schedule::PerSecond { rate_pps: rate_per_s }.with(self.arrivals, seed)
    }

    /// Demands of requests in the order in which the server begins them: of each subtask its share of the mean, drawn by
    /// itself.
    #[must_use]
    pub fn demands(&self, seed: u64) -> Vec<Times> {
        let of_all = |part: u64| u128::from(self.demand_ns) * u128::from(part) / u128::from(self.subtasks);
        (0..u64::from(self.subtasks))
            .map(|part| {
                let name = if part == 0 { "demand".to_owned() } else { format!("demand.{part}") };
                self.work((of_all(part + 1) - of_all(part)) as u64, Stream::new(seed, &name))
            })
            .collect()
    }

    /// Demands of requests before their subtasks, if requests have such a stage.
    #[must_use]
    pub fn serial(&self, seed: u64) -> Option<Times> {
        let mean_ns = Some(self.serial_demand_ns).filter(|mean_ns| *mean_ns > 0)?;
        Some(self.work(mean_ns, Stream::new(seed, "serial_demand")))
    }

    fn work(&self, mean_ns: u64, stream: Stream) -> Times {
        let distribution = self.demand_distribution;
        Times { mean_ns, distribution, variation: self.demand_variation_ratio, stream }
    }

    /// Of a task's work what is done under the lock, at its end.
    #[must_use]
    pub fn locked(&self, work: Nanos) -> Nanos {
        Nanos((work.0 as f64 * self.lock_ratio).round() as u64)
    }

    /// Whether requests take any work.
    #[must_use]
    pub const fn works(&self) -> bool {
        self.demand_ns > 0 || self.serial_demand_ns > 0
    }

    /// Times for which one of the clients thinks.
    #[must_use]
    pub fn thinking(&self, seed: u64, client: u16) -> Times {
        let distribution = self.think_distribution;
        let stream = Stream::new(seed, &format!("think.{client}"));
        Times { mean_ns: self.think_ns, distribution, variation: 1.0, stream }
    }

    /// Where the server pauses, once the first request has come.
    #[must_use]
    pub fn pause(&self, first: Nanos) -> Pause {
        let begin = first + Nanos(self.pause_after_ns);
        Pause { begin, end: begin + Nanos(self.pause_ns) }
    }
}

/// Times of a mean and a distribution, one after another.
#[derive(Clone, Debug)]
pub struct Times {
    mean_ns: u64,
    distribution: Distribution,
    variation: f64,
    stream: Stream,
}

impl Times {
    /// The next.
    pub fn draw(&mut self) -> Nanos {
        match self.distribution {
            Distribution::Constant => Nanos(self.mean_ns),
            Distribution::Exponential => Nanos(self.stream.exponential(self.mean_ns as f64) as u64),
            Distribution::Lognormal => {
                Nanos(self.stream.lognormal(self.mean_ns as f64, self.variation) as u64)
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
        let said = |text| read(text).check().unwrap_err().to_string();
        assert_eq!(said(r#"{"rate_per_s": 0}"#), "rate_per_s must be above 0");
        assert_eq!(said(r#"{"request_bytes": 15}"#), "request_bytes has no room for its header of 16 B");
        assert_eq!(said(r#"{"connections": 1025}"#), "connections are at most 1024");
        assert_eq!(said(r#"{"threads": 0}"#), "threads must be above 0");
        assert_eq!(said(r#"{"subtasks": 1025}"#), "subtasks are at most 1024");
        assert_eq!(said(r#"{"lock_ratio": 1.5}"#), "lock_ratio is at least 0 and at most 1");
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
    fn a_pause_lengthens_what_it_falls_into_by_its_length() {
        let pause = read(r#"{"pause_ns": 100, "pause_after_ns": 50}"#).pause(Nanos(1000));
        assert_eq!(pause.done(Nanos(1000), Nanos(50)), Nanos(1050), "done before");
        assert_eq!(pause.done(Nanos(1040), Nanos(20)), Nanos(1160), "begun before");
        assert_eq!(pause.done(Nanos(1070), Nanos(20)), Nanos(1170), "begun within");
        assert_eq!(pause.done(Nanos(1150), Nanos(20)), Nanos(1170), "begun after");
    }
}
