//! `rt_tasks`: hard-deadline tasks inside a guest with a CPU budget, under preemptive fixed priorities.
//!
//! A job takes its worst case. Nothing in the network touches it, so a role is played at once: its rows are those up to
//! the instant at which it ends or is stopped.

mod supply;

use crate::agenda::Due;
use crate::input::{Finding, Role};
use crate::ip::Message;
use crate::network::Network;
use crate::samples::{RtJobRow, RtSupplyRow, Table};
use crate::workloads::workload::{Counters, Kind, Workload, finding, parse};
use supply::{Supply, asked_ppm, supply};
use virtlab_load::parameters::rt_tasks::{NAME, RtTasks as Parameters};

/// An overrunning guest is given up after as many times its episode.
const PATIENCE_EPISODES: u64 = 10;

struct Job {
    /// By priority.
    place: usize,
    release_ns: u64,
    left_ns: u64,
    executed_ns: u64,
    start_ns: Option<u64>,
}

/// What came of a role by an instant; all instants count from its beginning.
#[derive(Debug, Default)]
struct Played {
    jobs: Vec<RtJobRow>,
    over_ns: u64,
}

/// The guest's executive: what it has of its supply, and where it is in it.
struct Executive<'a> {
    own: &'a Parameters,
    order: &'a [usize],
    windows: &'a [[u64; 2]],
    window: usize,
    now_ns: u64,
    until_ns: u64,
    jobs: Vec<RtJobRow>,
}

impl Executive<'_> {
    fn play(mut self) -> Played {
        for (number, phase_ns) in self.own.episodes().into_iter().enumerate() {
            let period_ns = self.own.period_ns;
            if self.now_ns >= self.until_ns {
                break;
            }
            self.episode(number, (self.now_ns / period_ns + 2) * period_ns + phase_ns);
        }
        Played { jobs: self.jobs, over_ns: self.now_ns.min(self.until_ns) }
    }

    fn episode(&mut self, number: usize, start_ns: u64) {
        let tasks = &self.own.tasks;
        let end_ns = start_ns + self.own.episode_ns();
        let give_up_ns = end_ns + PATIENCE_EPISODES * self.own.episode_ns();
        let mut next_ns = vec![start_ns; self.order.len()];
        let mut ready: Vec<Job> = Vec::new();
        'windows: while let Some(&[from_ns, to_ns]) = self.windows.get(self.window) {
            self.now_ns = self.now_ns.max(from_ns);
            while self.now_ns < to_ns {
                let mut coming_ns = u64::MAX;
                for (place, at_ns) in next_ns.iter_mut().enumerate() {
                    let task = &tasks[self.order[place]];
                    // Only jobs whose deadline lies in the episode.
                    while *at_ns <= self.now_ns && *at_ns + task.deadline_ns <= end_ns {
                        let job = Job {
                            place,
                            release_ns: *at_ns,
                            left_ns: task.wcet_ns,
                            executed_ns: 0,
                            start_ns: None,
                        };
                        let before =
                            ready.iter().position(|other| other.place > place).unwrap_or(ready.len());
                        ready.insert(before, job);
                        *at_ns += task.period_ns;
                    }
                    if *at_ns + task.deadline_ns <= end_ns {
                        coming_ns = coming_ns.min(*at_ns);
                    }
                }
                if (ready.is_empty() && coming_ns == u64::MAX) || self.now_ns > give_up_ns {
                    break 'windows;
                }
                let Some(job) = ready.first_mut() else {
                    self.now_ns = coming_ns.min(to_ns);
                    continue;
                };
                job.start_ns.get_or_insert(self.now_ns);
                let ran_ns = job.left_ns.min(to_ns - self.now_ns).min(coming_ns - self.now_ns);
                job.executed_ns += ran_ns;
                job.left_ns -= ran_ns;
                self.now_ns += ran_ns;
                if job.left_ns == 0 {
                    let job = ready.remove(0);
                    self.record(number, &job, Some(self.now_ns));
                }
            }
            self.window += 1;
        }
        if self.window >= self.windows.len() {
            self.now_ns = self.until_ns;
        }
        // A job that still had time when the end came says nothing.
        let now_ns = self.now_ns;
        for job in ready {
            if job.release_ns + tasks[self.order[job.place]].deadline_ns <= now_ns {
                self.record(number, &job, None);
            }
        }
    }

    fn record(&mut self, episode: usize, job: &Job, finish_ns: Option<u64>) {
        let task = self.order[job.place];
        let response_ns = finish_ns.map(|at| at - job.release_ns);
        let missed = response_ns.is_none_or(|response| response > self.own.tasks[task].deadline_ns);
        let or_none = |value: Option<u64>| value.map_or(-1, |value| value as i64);
        self.jobs.push(RtJobRow {
            task: task as i32,
            episode: episode as i32,
            release_ns: job.release_ns as i64,
            start_ns: or_none(job.start_ns),
            finish_ns: or_none(finish_ns),
            response_ns: or_none(response_ns),
            executed_ns: job.executed_ns as i64,
            missed: i32::from(missed),
        });
    }
}

/// How a role of it is made.
pub const KIND: Kind =
    Kind { name: NAME, make: |index, role, _| Ok(Box::new(RtTasks::new(index, role)?)), tags: false };

/// One role.
pub struct RtTasks {
    role: usize,
    seed: u64,
    own: Parameters,
    order: Vec<usize>,
    start_ns: u64,
    supply: Supply,
    played: Played,
    finished: bool,
}

impl RtTasks {
    /// Prepares the guest.
    pub fn new(index: usize, role: &Role) -> Result<Self, Finding> {
        let own: Parameters = parse(role)?;
        own.check().map_err(|error| finding(role, &error.to_string()))?;
        let asked = asked_ppm(&own);
        if asked > 1_000_000 {
            let percent = asked as f64 / 10_000.0;
            let reason = format!("its budget and its competitors' are {percent:.4} % of a processor");
            return Err(finding(role, &reason));
        }
        let order = own.order();
        Ok(Self {
            role: index,
            seed: role.ends[0].seed,
            own,
            order,
            start_ns: 0,
            supply: Supply::default(),
            played: Played::default(),
            finished: false,
        })
    }

    fn play(&mut self, until_ns: u64) {
        self.supply = supply(&self.own, self.seed, until_ns);
        let executive = Executive {
            own: &self.own,
            order: &self.order,
            windows: &self.supply.windows,
            window: 0,
            now_ns: 0,
            until_ns,
            jobs: Vec::new(),
        };
        self.played = executive.play();
        let over_ns = self.played.over_ns;
        self.supply.windows.retain(|[from, _]| *from < over_ns);
        self.supply.cycles.retain(|cycle| cycle.end_ns <= over_ns);
    }
}

impl Workload for RtTasks {
    fn start(&mut self, network: &mut Network) {
        self.start_ns = network.now_ns;
        self.play(self.own.duration_ns);
        network.agenda.plan(network.now_ns + self.played.over_ns, Due::Expire { role: self.role, side: 0 });
    }

    fn tick(&mut self, _side: usize, _generation: u32, _network: &mut Network) {}

    fn expire(&mut self, _side: usize, _network: &mut Network) {
        self.finished = true;
    }

    fn take(&mut self, _message: Message, _network: &mut Network) {}

    fn stop(&mut self, network: &mut Network) {
        if !self.finished {
            self.finished = true;
            self.play(network.now_ns - self.start_ns);
        }
    }

    fn finished(&self) -> bool {
        self.finished
    }

    fn report(&self, stream: &str) -> (Vec<Table>, Counters) {
        let begun = self.start_ns as i64;
        let at = |instant: i64| if instant < 0 { instant } else { begun + instant };
        let jobs: Vec<RtJobRow> = self
            .played
            .jobs
            .iter()
            .map(|job| RtJobRow {
                release_ns: at(job.release_ns),
                start_ns: at(job.start_ns),
                finish_ns: at(job.finish_ns),
                ..*job
            })
            .collect();
        let cycles = &self.supply.cycles;
        let rows: Vec<RtSupplyRow> = cycles
            .iter()
            .map(|cycle| RtSupplyRow {
                begin_ns: at(cycle.begin_ns as i64),
                end_ns: at(cycle.end_ns as i64),
                served_ns: cycle.served_ns as i64,
                charged_ns: cycle.charged_ns as i64,
            })
            .collect();
        let served: u64 = self.supply.windows.iter().map(|[from, to]| to - from).sum();
        let client = vec![
            ("jobs", jobs.len() as u64),
            ("missed_jobs", jobs.iter().filter(|job| job.missed > 0).count() as u64),
            ("unfinished_jobs", jobs.iter().filter(|job| job.finish_ns < 0).count() as u64),
            ("served_ns", served),
            ("lost_ns", cycles.iter().map(|cycle| cycle.charged_ns - cycle.served_ns).sum()),
            ("shortfall_ns", self.own.shortfall_ns(&self.supply.windows)),
        ];
        let tables = [Table::of(stream, &jobs), Table::of(stream, &rows)];
        (tables.into_iter().flatten().collect(), [client, Vec::new()])
    }
}
