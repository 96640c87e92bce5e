//! Virtual machines as servers on the cores of a host.
//!
//! Each server asks for its budget B once per period P and must get it before the period ends. Preemptive scheduling
//! starts a machine at most twice per job (its own start, and the return of the one it displaced), non-preemptive once;
//! each start costs the core one switch, so B grows by 2s or s. Preemptive: EDF fits iff `sum B/P <= 1`; fixed
//! priorities by response times (a deferrable server can run back to back, so it disturbs with jitter P - B).
//! Non-preemptive: EDF fits iff `sum B/P <= 1` and `dbf(t) + max_{P_j > t} B_j <= t` (Jeffay); fixed priorities job by
//! job over the busy period, as the first job need not be the worst.

use crate::error::RtError;
use crate::rational::Rational;

/// One server, ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VmServer {
    /// P, also its deadline.
    pub period: i64,
    /// B.
    pub budget: i64,
    /// Keeps its budget for later in the period.
    pub deferrable: bool,
    /// Servers of one group (the virtual CPUs of one guest) never share a core; each its own group where it does not
    /// matter.
    pub group: usize,
}

/// How a core picks among its servers.
#[derive(Clone, Copy, Debug)]
pub struct HostPolicy {
    /// Earliest deadline first; else the shortest period first (RM, and DM, as deadlines are periods).
    pub edf: bool,
    /// Whether a start displaces the running machine.
    pub preemptive: bool,
    /// Cost of one switch, ticks.
    pub switch_cost: i64,
}

impl HostPolicy {
    fn charged(&self, server: &VmServer) -> i128 {
        i128::from(server.budget) + i128::from(self.switch_cost) * if self.preemptive { 2 } else { 1 }
    }
}

/// Whether servers fit on one core.
///
/// # Errors
/// On overflow, or when there are too many points to look at.
pub fn fits_core(servers: &[VmServer], policy: &HostPolicy) -> Result<bool, RtError> {
    for (place, server) in servers.iter().enumerate() {
        if servers[..place].iter().any(|other| other.group == server.group) {
            return Ok(false);
        }
    }
    if servers.iter().any(|server| policy.charged(server) > i128::from(server.period)) {
        return Ok(false);
    }
    if above_one(servers, policy) {
        return Ok(false);
    }
    match (policy.edf, policy.preemptive) {
        (true, true) => Ok(true),
        (true, false) => edf_blocking(servers, policy),
        (false, preemptive) => fixed(servers, policy, preemptive),
    }
}

/// `sum B/P > 1`, exactly where the sum fits, and where it does not, from above (so never wrongly "fits").
fn above_one(servers: &[VmServer], policy: &HostPolicy) -> bool {
    let exact = servers.iter().try_fold(Rational::ZERO, |sum, server| {
        sum.plus(Rational::new(policy.charged(server), i128::from(server.period))?)
    });
    match exact {
        Ok(sum) => sum > Rational::ONE,
        Err(_) => {
            let scale = 1i128 << 60;
            let sum: i128 = servers
                .iter()
                .map(|server| (policy.charged(server) * scale - 1) / i128::from(server.period) + 1)
                .sum();
            sum > scale
        }
    }
}

fn edf_blocking(servers: &[VmServer], policy: &HostPolicy) -> Result<bool, RtError> {
    let longest = servers.iter().map(|server| i128::from(server.period)).max().unwrap_or(0);
    let mut looked = 0u32;
    for server in servers {
        let period = i128::from(server.period);
        let mut t = period;
        while t < longest {
            let demand: i128 = servers.iter().map(|s| t / i128::from(s.period) * policy.charged(s)).sum();
            let blocking = servers
                .iter()
                .filter(|s| i128::from(s.period) > t)
                .map(|s| policy.charged(s))
                .max()
                .unwrap_or(0);
            if demand + blocking > t {
                return Ok(false);
            }
            t += period;
            looked += 1;
            if looked > 5_000_000 {
                return Err(RtError::TooMany {
                    what: "the host test",
                    limit: 5_000_000,
                    cure: "periods lie too far apart",
                });
            }
        }
    }
    Ok(true)
}

fn fixed(servers: &[VmServer], policy: &HostPolicy, preemptive: bool) -> Result<bool, RtError> {
    let mut order: Vec<&VmServer> = servers.iter().collect();
    order.sort_by_key(|server| server.period);
    for (place, server) in order.iter().enumerate() {
        let blocking = if preemptive {
            0
        } else {
            order[place + 1..].iter().map(|s| policy.charged(s)).max().unwrap_or(0)
        };
        let own = policy.charged(server);
        let period = i128::from(server.period);
        let jitter = |s: &VmServer| if s.deferrable { i128::from(s.period - s.budget) } else { 0 };
        // Jobs of the busy period, the first one at time 0; preemptive and within its period only the first matters.
        let mut job = 0i128;
        loop {
            let mut t = blocking + (job + 1) * own;
            let finish = loop {
                let begun = if preemptive { t } else { t - own };
                let others: i128 = order[..place]
                    .iter()
                    .map(|s| {
                        let (p, at) = (i128::from(s.period), begun + jitter(s));
                        let count = if preemptive { (at + p - 1) / p } else { at / p + 1 };
                        count * policy.charged(s)
                    })
                    .sum();
                let next = blocking + (job + 1) * own + others;
                if next - job * period > period {
                    return Ok(false);
                }
                if next <= t {
                    break t;
                }
                t = next;
            };
            if preemptive
                || finish <= (job + 1) * period
                    && !busy_beyond(&order[..=place], policy, blocking, (job + 1) * period)
            {
                break;
            }
            job += 1;
            if job > 100_000 {
                return Err(RtError::TooMany {
                    what: "the host test",
                    limit: 100_000,
                    cure: "periods lie too far apart",
                });
            }
        }
    }
    Ok(true)
}

/// Whether the busy period of these servers (with blocking) lasts beyond t.
fn busy_beyond(servers: &[&VmServer], policy: &HostPolicy, blocking: i128, t: i128) -> bool {
    let mut length = 1;
    while length <= t {
        let demand: i128 = servers
            .iter()
            .map(|s| {
                let p = i128::from(s.period);
                (length + p - 1) / p * policy.charged(s)
            })
            .sum();
        let next = blocking + demand;
        if next == length {
            return false;
        }
        length = next;
    }
    true
}

/// Most starts of a server in one period: 1, and once more for each job that can displace it (`ceil(P/P_j)` for each
/// server of shorter period, under either policy; equal periods displace under fixed priorities only, counted too).
#[must_use]
pub fn starts(servers: &[VmServer], index: usize, policy: &HostPolicy) -> i128 {
    if !policy.preemptive {
        return 1;
    }
    let own = i128::from(servers[index].period);
    1 + servers
        .iter()
        .enumerate()
        .filter(|(other, s)| {
            *other != index
                && (s.period < servers[index].period
                    || (!policy.edf && s.period == servers[index].period && *other < index))
        })
        .map(|(_, s)| (own + i128::from(s.period) - 1) / i128::from(s.period))
        .sum::<i128>()
}

/// A core for each server, using as few as first-fit decreasing finds, or as few as there can be (`exact`, up to
/// `most_exact` servers; more are packed first-fit). None when more than `cores` would be needed.
///
/// # Errors
/// As [`fits_core`].
pub fn pack(
    servers: &[VmServer],
    policy: &HostPolicy,
    cores: usize,
    exact: bool,
) -> Result<Option<Vec<usize>>, RtError> {
    let mut order: Vec<usize> = (0..servers.len()).collect();
    let load = |index: &usize| policy.charged(&servers[*index]) as f64 / servers[*index].period as f64;
    order.sort_by(|a, b| load(b).total_cmp(&load(a)));
    let greedy = first_fit(servers, policy, cores, &order)?;
    if !exact || servers.len() > MOST_EXACT {
        return Ok(greedy.map(|found| found.0));
    }
    let total: f64 = order.iter().map(load).sum();
    let least = ((total - 1e-9).ceil() as usize).max(1);
    let most = greedy.as_ref().map_or(cores, |found| found.1 - 1);
    let mut search = Search { servers, policy, order: &order, cores: vec![], effort: 2_000_000 };
    for count in least..=most {
        search.cores = vec![Vec::new(); count];
        if search.place(0)? {
            let mut found = vec![0; servers.len()];
            for (core, members) in search.cores.iter().enumerate() {
                for member in members {
                    found[*member] = core;
                }
            }
            return Ok(Some(found));
        }
    }
    Ok(greedy.map(|found| found.0))
}

/// Up to so many servers are packed exactly.
pub const MOST_EXACT: usize = 14;

fn members(servers: &[VmServer], core: &[usize], more: usize) -> Vec<VmServer> {
    core.iter().chain(std::iter::once(&more)).map(|index| servers[*index]).collect()
}

type Packed = Option<(Vec<usize>, usize)>;

fn first_fit(
    servers: &[VmServer],
    policy: &HostPolicy,
    cores: usize,
    order: &[usize],
) -> Result<Packed, RtError> {
    let mut filled: Vec<Vec<usize>> = Vec::new();
    let mut found = vec![0; servers.len()];
    for index in order {
        let mut place = None;
        for (core, kept) in filled.iter().enumerate() {
            if fits_core(&members(servers, kept, *index), policy)? {
                place = Some(core);
                break;
            }
        }
        if place.is_none() && filled.len() < cores && fits_core(&[servers[*index]], policy)? {
            filled.push(Vec::new());
            place = Some(filled.len() - 1);
        }
        let Some(core) = place else { return Ok(None) };
        filled[core].push(*index);
        found[*index] = core;
    }
    Ok(Some((found, filled.len())))
}

struct Search<'a> {
    servers: &'a [VmServer],
    policy: &'a HostPolicy,
    order: &'a [usize],
    cores: Vec<Vec<usize>>,
    effort: u64,
}

impl Search<'_> {
    fn place(&mut self, depth: usize) -> Result<bool, RtError> {
        let Some(index) = self.order.get(depth).copied() else { return Ok(true) };
        for core in 0..self.cores.len() {
            self.effort = self.effort.checked_sub(1).ok_or(RtError::TooMany {
                what: "the exact packing",
                limit: 2_000_000,
                cure: "pack first-fit",
            })?;
            let empty = self.cores[core].is_empty();
            if fits_core(&members(self.servers, &self.cores[core], index), self.policy)? {
                self.cores[core].push(index);
                if self.place(depth + 1)? {
                    return Ok(true);
                }
                self.cores[core].pop();
            }
            if empty {
                break; // all empty cores are alike
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(period: i64, budget: i64, group: usize) -> VmServer {
        VmServer { period, budget, deferrable: false, group }
    }

    const EDF: HostPolicy = HostPolicy { edf: true, preemptive: true, switch_cost: 0 };
    const RM: HostPolicy = HostPolicy { edf: false, preemptive: true, switch_cost: 0 };

    #[test]
    fn edf_fills_a_core_where_rate_monotonic_does_not() {
        let servers = [server(10, 5, 0), server(14, 7, 1)];
        assert!(fits_core(&servers, &EDF).unwrap());
        assert!(!fits_core(&servers, &RM).unwrap());
        let harmonic = [server(10, 5, 0), server(20, 10, 1)];
        assert!(fits_core(&harmonic, &RM).unwrap());
    }

    #[test]
    fn switches_are_charged_twice_per_job_when_preemptive() {
        let servers = [server(10, 5, 0), server(20, 8, 1)];
        assert!(fits_core(&servers, &EDF).unwrap());
        let costly = HostPolicy { switch_cost: 1, ..EDF };
        assert!(!fits_core(&servers, &costly).unwrap(), "7/10 + 10/20 > 1");
    }

    #[test]
    fn a_long_budget_blocks_a_short_period_without_preemption() {
        let servers = [server(10, 2, 0), server(100, 30, 1)];
        assert!(!fits_core(&servers, &HostPolicy { preemptive: false, ..EDF }).unwrap());
        assert!(!fits_core(&servers, &HostPolicy { preemptive: false, ..RM }).unwrap());
        let short = [server(10, 2, 0), server(100, 8, 1)];
        assert!(fits_core(&short, &HostPolicy { preemptive: false, ..EDF }).unwrap());
        assert!(fits_core(&short, &HostPolicy { preemptive: false, ..RM }).unwrap());
    }

    #[test]
    fn without_preemption_a_later_job_can_be_the_one_that_misses() {
        // The pattern of Davis, Burns, Bril, Lukkien (2007): the third server's first job ends at 30, its second,
        // released at 34, waits for starts at 30, 40 and 50 and ends at 70.
        let servers = [server(25, 10, 0), server(34, 10, 1), server(34, 10, 2)];
        assert!(!fits_core(&servers, &HostPolicy { preemptive: false, ..RM }).unwrap());
    }

    #[test]
    fn exact_packing_needs_fewer_cores_than_first_fit() {
        let sizes = [41, 29, 30, 35, 33, 32];
        let servers: Vec<VmServer> = sizes.iter().enumerate().map(|(i, s)| server(100, *s, i)).collect();
        let cores = |exact| pack(&servers, &EDF, 8, exact).unwrap().unwrap().into_iter().max().unwrap() + 1;
        assert_eq!(cores(true), 2, "41 + 29 + 30 and 35 + 33 + 32 fill two cores");
        assert_eq!(cores(false), 3, "first-fit decreasing puts 41 and 35 together");
    }

    #[test]
    fn virtual_cpus_of_one_guest_go_to_different_cores() {
        let servers = [server(10, 1, 0), server(10, 1, 0)];
        let found = pack(&servers, &EDF, 2, true).unwrap().unwrap();
        assert_ne!(found[0], found[1]);
        assert!(pack(&servers, &EDF, 1, true).unwrap().is_none());
    }
}
