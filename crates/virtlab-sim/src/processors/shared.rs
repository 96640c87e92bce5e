//! Which guests of a world share processors, and with whom.

use super::usage::Series;
use super::{Asker, Pool, Rest, Rules, Share, Slices, Supply};
use crate::input::{self, Input, Sharing, Slicing};
use crate::samples::Table;
use std::collections::BTreeMap;

/// What shares processors out among guests.
#[derive(Debug)]
enum Scheduler {
    /// All at once.
    Fluid(Pool),
    /// In turns.
    Sliced(Box<Slices>),
}

/// Has either do something.
macro_rules! either {
    ($scheduler:expr, $own:ident => $does:expr) => {
        match $scheduler {
            Scheduler::Fluid($own) => $does,
            Scheduler::Sliced($own) => $does,
        }
    };
}

impl Scheduler {
    fn of(pool: &input::Pool, vcpus: &[f64]) -> Self {
        let supply = Supply { processors: pool.processors, idle: pool.idle, contention: pool.contention };
        let Some(Slicing { slice_ns, switch_ns, credit_ns, grouping, shares }) = &pool.slices else {
            return Self::Fluid(Pool::shared(supply, vcpus));
        };
        let (slice_ns, switch_ns, grouping) = (*slice_ns, *switch_ns, *grouping);
        let credit_ns = Some(*credit_ns).filter(|period_ns| *period_ns > 0);
        let rules = Rules { supply, slice_ns, switch_ns, credit_ns, grouping };
        let share = |one: &Sharing| Share { vcpus: one.vcpus, weight: one.weight, quota: one.quota };
        Self::Sliced(Box::new(Slices::new(rules, &shares.iter().map(share).collect::<Vec<_>>())))
    }
}

/// All processors that guests share: some by one guest, some by several.
#[derive(Debug)]
pub struct Shared {
    pools: Vec<Scheduler>,
    /// Of each guest its pool, and its place there; of a guest without, whatever works has a processor of its own.
    places: Vec<Option<(usize, usize)>>,
    /// Where guests begin, and where those that move arrive.
    homes: Vec<Option<(usize, usize)>>,
    arrivals: BTreeMap<usize, Vec<(usize, usize)>>,
    /// By pool, what worked beside its guests so far, in ns.
    beside_ns: Vec<f64>,
    series: Vec<Series>,
}

impl Shared {
    /// The pools of a world, then each guest that has processors of its own.
    #[must_use]
    pub fn new(input: &Input) -> Self {
        let mut places = vec![None; input.guests.len()];
        let mut arrivals: BTreeMap<usize, Vec<_>> = BTreeMap::new();
        let mut pools = Vec::new();
        for (place, pool) in input.pools.iter().enumerate() {
            let mut vcpus = Vec::new();
            for guest in &pool.guests {
                places[*guest] = Some((place, vcpus.len()));
                vcpus.push(input.guests[*guest].processors.unwrap_or(pool.processors));
            }
            for guest in &pool.arrivals {
                arrivals.entry(*guest).or_default().push((place, vcpus.len()));
                vcpus.push(input.guests[*guest].processors.unwrap_or(pool.processors));
            }
            pools.push(Scheduler::of(pool, &vcpus));
        }
        for (place, guest) in places.iter_mut().zip(&input.guests) {
            if let (None, Some(processors)) = (&place, guest.processors) {
                *place = Some((pools.len(), 0));
                pools.push(Scheduler::Fluid(Pool::alone(processors)));
            }
        }
        let series = input.usage.iter().map(Series::new).collect();
        Self { beside_ns: vec![0.0; pools.len()], pools, homes: places.clone(), places, arrivals, series }
    }

    /// A guest has moved: what works in it from now on is work for the processors of that pool. Nothing of it is under
    /// way.
    pub fn arrive(&mut self, guest: usize, pool: usize) {
        let come = self.arrivals.get(&guest).into_iter().flatten().copied();
        if let Some(place) = self.homes[guest].into_iter().chain(come).find(|(at, _)| *at == pool) {
            self.places[guest] = Some(place);
        }
    }

    /// So much has worked on a pool's processors beside its guests.
    pub fn charge(&mut self, pool: usize, work_ns: f64) {
        self.beside_ns[pool] += work_ns;
    }

    /// Whether what works in a guest shares processors.
    #[must_use]
    pub fn has(&self, guest: usize) -> bool {
        self.places[guest].is_some()
    }

    /// From now on this much work is wanted in a guest, too; when to look at which pool.
    pub fn ask(&mut self, now_ns: u64, guest: usize, demand: Rest, asker: Asker) -> Option<(usize, u64)> {
        let (pool, place) = self.places[guest]?;
        either!(&mut self.pools[pool], own => own.ask(now_ns, place, demand, asker));
        self.look(pool)
    }

    /// Takes the demands of a server in a guest back: which, and what is left of each.
    pub fn take_back(&mut self, now_ns: u64, guest: usize, server: usize) -> Vec<(u64, Rest)> {
        let Some((pool, place)) = self.places[guest] else { return Vec::new() };
        either!(&mut self.pools[pool], own => own.take_back(now_ns, place, server))
    }

    /// What one demand in a guest was for is over, and its thread does something else instead.
    pub fn become_other(&mut self, now_ns: u64, guest: usize, asker: Asker, demand: Rest, other: Asker) {
        if let Some((pool, place)) = self.places[guest] {
            either!(&mut self.pools[pool], own => own.become_other(now_ns, place, asker, demand, other));
        }
    }

    /// When to look at the pool of a guest again.
    pub fn look_for(&mut self, guest: usize) -> Option<(usize, u64)> {
        let (pool, _) = self.places[guest]?;
        self.look(pool)
    }

    /// When to look at a pool again.
    pub fn look(&mut self, pool: usize) -> Option<(usize, u64)> {
        either!(&mut self.pools[pool], own => own.plan()).map(|at_ns| (pool, at_ns))
    }

    /// Who is done in a pool by now; to be asked until there is no other, then for `look`.
    pub fn done(&mut self, pool: usize, now_ns: u64) -> Option<Asker> {
        either!(&mut self.pools[pool], own => {
            own.looked(now_ns);
            own.done(now_ns)
        })
    }

    /// Takes samples of use, and of what idle vCPUs take, of those that are sampled as often. `of_peers`: what nodes
    /// and proxies of stores in a guest have used.
    pub fn sample(&mut self, group: usize, now_ns: u64, of_peers: impl Fn(usize) -> u64) {
        let Self { pools, homes, arrivals, beside_ns, series, .. } = self;
        let series = &mut series[group];
        for entity in 0..series.of().len() {
            let used = &series.of()[entity];
            let idle: f64 = used.pools.iter().map(|pool| either!(&pools[*pool], own => own.idle())).sum();
            let beside: f64 = used.pools.iter().map(|pool| beside_ns[*pool]).sum();
            let come = used
                .arrivals
                .iter()
                .filter_map(|guest| arrivals.get(guest))
                .flatten()
                .copied()
                .filter(|(pool, _)| used.pools.is_empty() || used.pools.contains(pool));
            let places = used.guests.iter().filter_map(|guest| homes[*guest]).chain(come);
            let working: f64 = places
                .map(|(pool, place)| either!(&mut pools[pool], own => own.used_ns(now_ns, place)))
                .sum();
            let stores: u64 = used.peers.iter().map(|guest| of_peers(*guest)).sum();
            series.take(now_ns, entity, idle.mul_add(now_ns as f64, working + beside + stores as f64));
        }
    }

    /// The samples of use.
    pub fn samples(&self) -> impl Iterator<Item = Table> {
        self.series.iter().filter_map(Series::table)
    }
}
