//! The servers of a world, and the processors of its guests that they share: each is of one role, or of a service in
//! one of its guests, which several roles ask.
//!
//! A server knows its requests by who waits for them, a role and the place of its connection, and tells by whom each
//! that is done was wanted. It knows nothing of connections and answers. A passive server works for nothing: what it
//! takes in, a role of its own forwards to the active one, and tells what came of it. A server that fails forgets all
//! that it knew, and begins as at first once it is healed; its connections are its roles' to end.

mod disks;
mod page_cache;
mod passive;
mod serving;
pub mod stores;
mod threads;
mod writing;

pub use disks::Stored;
pub use passive::{Forwarded, Owner, Served, UNSERVED};

use crate::input::{Guest, Input};
use crate::processors::Shared;
use disks::Disks;
use passive::Passive;
use serving::{Beyond, Serving};
use stores::Stores;
use virtlab_disk::whole_sectors;
use virtlab_load::forwards::{Bounds, Forwards};
use virtlab_load::parameters::request_response::{Ending, RequestResponse as Parameters, WriteMode};
use virtlab_wire::Nanos;
use writing::Writing;

/// Where the numbers of completed writes begin among what a server works on.
const COMPLETIONS: u64 = 1 << 63;

/// One server.
struct Server {
    guest: usize,
    /// Among those of its service.
    place: u16,
    /// Absent: it is of one role alone.
    service: Option<String>,
    /// How it begins: what it does, and its seed.
    own: Parameters,
    seed: u64,
    failed: bool,
    serving: Serving<Owner>,
    /// Absent: it serves itself.
    passive: Option<Passive>,
    /// For when the next look at it is planned.
    planned_ns: Option<u64>,
}

/// When what has to be looked at again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Work in a pool of processors.
    Pool(usize, u64),
    /// A server.
    Server(usize, u64),
    /// The disk of a guest.
    Disk(usize, u64),
    /// The role that forwards for one, now.
    Forwarder(usize),
}

/// All of a world.
pub struct Servers {
    pub processors: Shared,
    pub disks: Disks,
    pub stores: Stores,
    all: Vec<Server>,
    /// Of each guest.
    beyond: Vec<Beyond>,
}

impl Servers {
    /// None yet, in the guests of a world.
    pub fn new(input: &Input) -> Self {
        let of = |guest: &Guest| Beyond { request: Nanos(guest.request_ns), ..Beyond::default() };
        let mut beyond: Vec<Beyond> = input.guests.iter().map(of).collect();
        for pool in &input.pools {
            for guest in &pool.guests {
                beyond[*guest].spin = Nanos(pool.spin_ns);
                beyond[*guest].completion = Nanos(pool.completion_ns);
            }
        }
        let (processors, disks) = (Shared::new(input), Disks::new(input));
        Self { processors, disks, stores: Stores::default(), all: Vec::new(), beyond }
    }

    /// Takes samples of how processors are used, of those that are sampled as often.
    pub fn sample_processors(&mut self, group: usize, now_ns: u64) {
        let Self { processors, stores, .. } = self;
        processors.sample(group, now_ns, |guest| stores.used_ns(guest, Nanos(now_ns)));
    }

    /// The server of a role, at the server's seed; that of a service in a guest is one for all roles that end there.
    pub fn of(&mut self, own: &Parameters, seed: u64, guest: usize, place: u16) -> usize {
        let service = own.service.clone();
        let known = self
            .all
            .iter()
            .position(|each| service.is_some() && each.service == service && each.guest == guest);
        known.unwrap_or_else(|| {
            let writing = self.disks.model(guest).and_then(|disk| Writing::new(own, disk, 0));
            let serving =
                Serving::new(own.clone(), seed, self.processors.has(guest), self.beyond[guest]).with(writing);
            self.all.push(Server {
                guest,
                place,
                service,
                own: own.clone(),
                seed,
                failed: false,
                serving,
                passive: None,
                planned_ns: None,
            });
            self.all.len() - 1
        })
    }

    /// Why what it writes cannot be played in a guest, if so: the parameter, the reason, the cure.
    pub fn cannot_write(
        &self,
        own: &Parameters,
        guest: usize,
    ) -> Option<(&'static str, &'static str, &'static str)> {
        if own.write_bytes == 0 {
            return None;
        }
        let Some(disk) = self.disks.model(guest) else {
            let what = "the guest of its server has no disk, so what a write takes is unknown";
            return Some((
                "write_bytes",
                what,
                "give that guest a 'disk', remove 'write', or run it on the testbed",
            ));
        };
        (whole_sectors(own.write_bytes) > disk.size_bytes).then_some((
            "write_bytes",
            "it is more than the disk of the server's guest holds",
            "write less at once, or make the disk larger",
        ))
    }

    /// That of a service in a guest, if a role asks it.
    pub fn of_service(&self, service: &str, guest: usize) -> Option<usize> {
        self.all.iter().position(|each| each.service.as_deref() == Some(service) && each.guest == guest)
    }

    /// Whether a server has failed, and was not healed.
    pub fn has_failed(&self, server: usize) -> bool {
        self.all[server].failed
    }

    /// A server fails, with all requests that it has.
    pub fn fail(&mut self, server: usize, now_ns: u64) {
        let Server { guest, own, seed, failed, serving, passive, planned_ns, .. } = &mut self.all[server];
        self.processors.take_back(now_ns, *guest, server);
        (*failed, *planned_ns) = (true, None);
        let writing = self.disks.model(*guest).and_then(|disk| Writing::new(own, disk, now_ns));
        self.disks.forget(*guest, server);
        self.disks.close(*guest, server, now_ns);
        *serving =
            Serving::new(own.clone(), *seed, self.processors.has(*guest), self.beyond[*guest]).with(writing);
        if let Some(passive) = passive {
            passive.forwards.give_up();
            passive.known.clear();
        }
    }

    /// A server serves again.
    pub fn heal(&mut self, server: usize, now_ns: u64) {
        let Server { guest, own, failed, serving, .. } = &mut self.all[server];
        *failed = false;
        serving.writing = self.disks.model(*guest).and_then(|disk| Writing::new(own, disk, now_ns));
    }

    /// Those in a guest.
    pub fn in_guest(&self, guest: usize) -> Vec<usize> {
        (0..self.all.len()).filter(|server| self.all[*server].guest == guest).collect()
    }

    /// A server stands still, with its guest: what its processors have begun waits.
    pub fn freeze(&mut self, server: usize, now_ns: u64) {
        self.all[server].serving.threads.freeze(now_ns);
    }

    /// A server continues where it stood still.
    pub fn thaw(&mut self, server: usize, now_ns: u64) {
        self.all[server].serving.threads.thaw(now_ns);
    }

    /// The service of a server, where it is of one.
    pub fn service_of(&self, server: usize) -> Option<&str> {
        self.all[server].service.as_deref()
    }

    /// A server forwards from now on, by a role.
    pub fn make_passive(&mut self, server: usize, role: usize, bounds: Bounds) {
        self.all[server].passive = Some(Passive::new(role, bounds));
    }

    /// What a passive server forwards.
    ///
    /// # Panics
    /// When the server is not passive.
    pub fn forwards(&mut self, server: usize) -> &mut Forwards<Forwarded> {
        &mut self.all[server].passive.as_mut().expect("its role made it passive").forwards
    }

    /// A passive server knows what came of a request.
    pub fn know(&mut self, server: usize, served: Served) {
        self.all[server].passive.as_mut().expect("its role made it passive").known.push_back(served);
    }

    /// Takes a request of that size in; false where there is no room for it.
    pub fn offer(&mut self, server: usize, owner: Owner, bytes: u64, now_ns: u64) -> bool {
        let Server { serving, passive, .. } = &mut self.all[server];
        match passive {
            Some(passive) => passive.forwards.offer(Forwarded { owner, bytes }, Nanos(now_ns)).is_ok(),
            None => serving.offer(owner, now_ns).is_ok(),
        }
    }

    /// A request that a server has done with by now; to be asked until there is no other, then for its `looks`.
    pub fn served(&mut self, server: usize, now_ns: u64) -> Option<Served> {
        let Server { serving, passive, place, .. } = &mut self.all[server];
        if let Some(passive) = passive {
            return passive.known.pop_front();
        }
        let owner = serving.serve(now_ns)?;
        Some(Served { owner, ending: Ending::Answered, by: i32::from(*place) })
    }

    /// Has the processors of its guest work for a server; what has to be looked at again.
    pub fn looks(&mut self, server: usize, now_ns: u64) -> Vec<Look> {
        let Server { guest, own, serving, passive, planned_ns, failed, .. } = &mut self.all[server];
        if let Some(passive) = passive {
            return vec![Look::Forwarder(passive.role)];
        }
        let mut looks = Vec::new();
        if self.processors.has(*guest) {
            let look = |(pool, at_ns)| Look::Pool(pool, at_ns);
            for (before, (number, rest)) in serving.threads.instead() {
                let (asker, other) = ((server, before), (server, number));
                self.processors.become_other(now_ns, *guest, asker, rest, other);
            }
            if serving.threads.stops(now_ns) {
                serving.threads.given_back(self.processors.take_back(now_ns, *guest, server));
            }
            for (number, rest) in serving.threads.wanted() {
                looks.extend(self.processors.ask(now_ns, *guest, rest, (server, number)).map(look));
            }
            // What was taken back leaves more to the others.
            looks.extend(self.processors.look_for(*guest).map(look));
        }
        let mut next_ns = serving.threads.next_ns(now_ns);
        if let Some(writing) = serving.writing.as_mut().filter(|_| !*failed) {
            let buffers = own.write_mode == WriteMode::Buffered;
            for (ticket, request) in writing.go_on(now_ns) {
                if buffers {
                    self.disks.buffer(*guest, now_ns, (server, ticket), request);
                } else {
                    self.disks.ask(*guest, now_ns, (server, ticket), request);
                }
            }
            next_ns = next_ns.into_iter().chain(writing.next_ns()).min();
        }
        looks.extend(self.disks.plan(*guest, now_ns).map(|at_ns| Look::Disk(*guest, at_ns)));
        looks.extend(next_ns.filter(|_| next_ns != *planned_ns).map(|at_ns| Look::Server(server, at_ns)));
        *planned_ns = next_ns;
        looks
    }

    /// The server whose work in a pool is done by now, in part; to be asked until there is no other, then for `look`.
    pub fn worked(&mut self, pool: usize, now_ns: u64) -> Option<usize> {
        let (server, number) = self.processors.done(pool, now_ns)?;
        let serving = &mut self.all[server].serving;
        match (number.checked_sub(COMPLETIONS), &mut serving.writing) {
            (Some(ticket), Some(writing)) => writing.completed(ticket, now_ns),
            _ => serving.threads.worked(number),
        }
        Some(server)
    }

    /// For whom the disk of a guest has done something by now; to be asked until there is no other, then for `looks`.
    pub fn stored(&mut self, guest: usize, now_ns: u64) -> Option<Stored> {
        let stored = self.disks.done(guest, now_ns)?;
        let Stored::Server((server, ticket)) = stored else { return Some(stored) };
        let completion = self.beyond[guest].completion;
        if completion > Nanos::ZERO && self.processors.has(guest) {
            self.all[server].serving.threads.want(COMPLETIONS + ticket, completion, now_ns);
        } else if let Some(writing) = &mut self.all[server].serving.writing {
            writing.completed(ticket, now_ns);
        }
        Some(stored)
    }

    /// Servers that write without a request.
    pub fn idling(&self) -> Vec<usize> {
        let idles = |server: &Server| server.serving.writing.is_some() && server.own.idle_write_ns > 0;
        (0..self.all.len()).filter(|place| idles(&self.all[*place])).collect()
    }

    /// A server ends: it writes nothing without a request any more.
    pub fn cease(&mut self, server: usize) {
        if let Some(writing) = &mut self.all[server].serving.writing {
            writing.cease();
        }
    }

    /// What a server has done so far.
    pub fn counters(&self, server: usize) -> Vec<(&'static str, u64)> {
        let Serving { station, lock_wait_ns, writing, .. } = &self.all[server].serving;
        let mut counters = vec![
            ("rejected_requests", station.rejected),
            ("served_requests", station.served),
            ("worked_ns", station.worked.0),
            ("lock_wait_ns", *lock_wait_ns),
        ];
        counters.extend(writing.iter().flat_map(|writing| writing.counts.counters()));
        counters
    }
}
