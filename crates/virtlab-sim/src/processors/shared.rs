//! Which guests of a world share processors, and with whom.

use super::usage::Usage;
use super::{Asker, Pool, Rest, Supply};
use crate::input::Input;
use crate::samples::Table;

/// All processors that guests share: some by one guest, some by several.
#[derive(Debug)]
pub struct Shared {
    pools: Vec<Pool>,
    /// Of each guest its pool, and its place there; of a guest without, whatever works has a processor of its own.
    places: Vec<Option<(usize, usize)>>,
    usage: Usage,
}

impl Shared {
    /// The pools of a world, then each guest that has processors of its own.
    #[must_use]
    pub fn new(input: &Input) -> Self {
        let mut places = vec![None; input.guests.len()];
        let mut pools = Vec::new();
        for (place, pool) in input.pools.iter().enumerate() {
            let mut vcpus = Vec::new();
            for guest in &pool.guests {
                places[*guest] = Some((place, vcpus.len()));
                vcpus.push(input.guests[*guest].processors.unwrap_or(pool.processors));
            }
            let supply = Supply { processors: pool.processors, idle: pool.idle, contention: pool.contention };
            pools.push(Pool::shared(supply, &vcpus));
        }
        for (place, guest) in places.iter_mut().zip(&input.guests) {
            if let (None, Some(processors)) = (&place, guest.processors) {
                *place = Some((pools.len(), 0));
                pools.push(Pool::alone(processors));
            }
        }
        Self { pools, places, usage: Usage::new(input) }
    }

    /// Whether what works in a guest shares processors.
    #[must_use]
    pub fn has(&self, guest: usize) -> bool {
        self.places[guest].is_some()
    }

    /// From now on this much work is wanted in a guest, too; when to look at which pool.
    pub fn ask(&mut self, now_ns: u64, guest: usize, demand: Rest, asker: Asker) -> Option<(usize, u64)> {
        let (pool, place) = self.places[guest]?;
        self.pools[pool].ask(now_ns, place, demand, asker);
        self.look(pool)
    }

    /// Takes the demands of a server in a guest back: which, and what is left of each.
    pub fn take_back(&mut self, now_ns: u64, guest: usize, server: usize) -> Vec<(u64, Rest)> {
        let Some((pool, place)) = self.places[guest] else { return Vec::new() };
        self.pools[pool].take_back(now_ns, place, server)
    }

    /// When to look at the pool of a guest again.
    pub fn look_for(&mut self, guest: usize) -> Option<(usize, u64)> {
        let (pool, _) = self.places[guest]?;
        self.look(pool)
    }

    /// When to look at a pool again.
    pub fn look(&mut self, pool: usize) -> Option<(usize, u64)> {
        self.pools[pool].plan().map(|at_ns| (pool, at_ns))
    }

    /// Who is done in a pool by now; to be asked until there is no other, then for `look`.
    pub fn done(&mut self, pool: usize, now_ns: u64) -> Option<Asker> {
        self.pools[pool].looked(now_ns);
        self.pools[pool].done(now_ns)
    }

    /// Between two samples of use; `None` where none are taken.
    #[must_use]
    pub fn sampled_every_ns(&self) -> Option<u64> {
        self.usage.every_ns()
    }

    /// Takes samples of use, and that of what idle vCPUs take.
    pub fn sample(&mut self, now_ns: u64) {
        for entity in 0..self.usage.of().len() {
            let used = &self.usage.of()[entity];
            let mut used_ns: f64 =
                used.pools.iter().map(|pool| self.pools[*pool].idle() * now_ns as f64).sum();
            for guest in &used.guests {
                if let Some((pool, place)) = self.places[*guest] {
                    used_ns += self.pools[pool].used_ns(now_ns, place);
                }
            }
            self.usage.take(now_ns, entity, used_ns);
        }
    }

    /// The samples of use; `None` without any.
    #[must_use]
    pub fn samples(&self) -> Option<Table> {
        self.usage.table()
    }
}
