//! `rt_tasks`: hard-deadline tasks inside this guest, under a CPU budget each period; it sends no traffic.
//!
//! The executive is the agent's rt role. All tasks are released together, once per episode, at several phases of the
//! guest's period, the last of them just after the budget is gone. Afterwards the supply is held against what the proof
//! assumes: in no interval less than supply(t) with E = B - X. A supply that broke taints the role.

use super::{Arming, Kind, Prepared, Side, StandBy, Workload, parse};
use crate::probe::pacing::{Pacer, Pacing};
use crate::probe::report::Report;
use crate::probe::run::Run;
use crate::probe::spool::Spool;
use crate::probe::taint;
use crate::rt;
use virtlab_load::parameters::rt_tasks::{NAME, RtTasks, Server};
use virtlab_system::clock;
use virtlab_wire::rows::{RtJobRow, RtSupplyRow};

const GAP_NS: u64 = 5_000;

/// In the table of workloads.
pub const KIND: Kind = Kind { sends: false, ..Kind::of(NAME, prepare) };

/// Prepares the guest's end; the other end of a role does nothing.
pub fn prepare(arming: Arming<'_>) -> anyhow::Result<Prepared> {
    if arming.side == Side::Server {
        return Ok(Prepared::fixed(StandBy));
    }
    let parameters: RtTasks = parse(&arming.own)?;
    parameters.check()?;
    Ok(Prepared::fixed(Guest { parameters }))
}

struct Guest {
    parameters: RtTasks,
}

impl Guest {
    fn request(&self, order: &[usize]) -> rt::Request {
        let own = &self.parameters;
        rt::Request {
            period_ns: own.period_ns,
            budget_ns: own.budget_ns,
            by: match own.server {
                Server::Deadline => rt::By::Deadline,
                Server::Quota => rt::By::Quota,
            },
            tasks: order
                .iter()
                .map(|place| &own.tasks[*place])
                .map(|task| rt::Task {
                    period_ns: task.period_ns,
                    wcet_ns: task.wcet_ns,
                    deadline_ns: task.deadline_ns,
                })
                .collect(),
            episodes: own.episodes().into_iter().map(|phase_ns| rt::Episode { phase_ns }).collect(),
            episode_ns: own.episode_ns(),
            duration_ns: 0,
            until_ns: Some(clock::monotonic().0 + own.duration_ns),
            competitors: own
                .competitors
                .iter()
                .map(|each| rt::Competitor { period_ns: each.period_ns, budget_ns: each.budget_ns })
                .collect(),
            gap_ns: GAP_NS,
        }
    }

    fn record(&self, run: &Run, order: &[usize], reply: &rt::Reply, report: &mut Report) {
        // Instants are reported on the raw clock, lengths as measured.
        let offset = clock::raw().0 as i64 - clock::monotonic().0 as i64;
        let instant = |at: u64| if at == 0 { -1 } else { at as i64 + offset };
        let tasks = &self.parameters.tasks;
        let mut jobs = Spool::new(&run.budget);
        let (mut missed, mut unfinished) = (0, 0);
        for [episode, place, release, finish, executed, start] in &reply.jobs {
            let task = order[*place as usize];
            let response = if *finish == 0 { -1 } else { (finish - release) as i64 };
            let miss = response < 0 || response as u64 > tasks[task].deadline_ns;
            missed += u64::from(miss);
            unfinished += u64::from(response < 0);
            jobs.push(RtJobRow {
                task: task as i32,
                episode: *episode as i32,
                release_ns: instant(*release),
                start_ns: instant(*start),
                finish_ns: instant(*finish),
                response_ns: response,
                executed_ns: *executed as i64,
                missed: i32::from(miss),
            });
        }
        let mut supply = Spool::new(&run.budget);
        // The first period was cut by its own beginning.
        for [begin, end, served, charged] in reply.cycles.iter().skip(1) {
            supply.push(RtSupplyRow {
                begin_ns: instant(*begin),
                end_ns: instant(*end),
                served_ns: *served as i64,
                charged_ns: *charged as i64,
            });
        }
        report.add("jobs", reply.jobs.len() as u64);
        report.add("missed_jobs", missed);
        report.add("unfinished_jobs", unfinished);
        report.add("served_ns", reply.served_ns);
        report.add("lost_ns", reply.lost_ns);
        report.table(jobs);
        report.table(supply);
    }
}

impl Workload for Guest {
    fn counts_on_us(&self) -> bool {
        false
    }

    fn run(self: Box<Self>, run: &Run) -> Report {
        let mut report = Report::default();
        if run.wait_for_start(Pacer::new(Pacing::Sleep)).is_none() {
            return report;
        }
        let order = self.parameters.order();
        let reply = match rt::run(&self.request(&order), &run.stop) {
            Ok(reply) => reply,
            Err(refusal) => {
                report.failure = Some(format!("{}: {} ({})", refusal.call, refusal.what, refusal.name));
                return report;
            }
        };
        self.record(run, &order, &reply, &mut report);
        let short = self.parameters.shortfall_ns(&reply.windows);
        report.add("shortfall_ns", short);
        if short > 0 {
            report.taint(
                taint::Kind::SupplyBroken,
                format!(
                    "an interval brought {short} ns less than budget and overhead promise; \
                     the run says nothing of the bounds"
                ),
            );
        }
        report.complete = !run.stopped();
        report
    }
}
