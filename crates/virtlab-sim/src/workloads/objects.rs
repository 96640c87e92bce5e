//! `objects`: operations on objects of a distributed store, by threads in turns or at a rate; each answer is verified.
//!
//! An operation is drawn by its share, then an object that is free for it. Where no object is free, that is counted,
//! and drawn again; where nothing can be done after so many draws, a thread ends, and an operation that was due at a
//! rate has failed. Operations count from when they were due, at a rate as in a closed loop; those that are under way
//! when the time is over are waited for.

use crate::agenda::Due;
use crate::input::{Finding, Role};
use crate::ip::Message;
use crate::network::Network;
use crate::samples::{OperationRow, Table};
use crate::workloads::store::settle;
use crate::workloads::workload::{Counters, Kind, Workload, finding, parse};
use std::collections::BTreeMap;
use virtlab_load::parameters::objects::{NAME, Objects as Parameters, Order as Asked, Sizes};
use virtlab_load::random::Stream;
use virtlab_load::schedule::Schedule;
use virtlab_store::{Deed, Ending as Found, Mix, Order, Pick};
use virtlab_wire::Nanos;

/// How a role of it is made.
pub const KIND: Kind = Kind {
    name: NAME,
    make: |index, role, network| Ok(Box::new(Objects::new(index, role, network)?)),
    tags: false,
};

/// Ways in which an operation ends: see [`Found`].
const ENDINGS: usize = 5;

/// Draws in a row without an object, after which a thread ends, or an operation fails.
const DRAWS: u32 = 64;

struct Open {
    pick: Pick,
    intended_ns: u64,
    sent_ns: u64,
    /// -1: it was due at a rate.
    thread: i32,
}

/// One role.
pub struct Objects {
    role: usize,
    /// Of the world's stores, and its client among the peers of that.
    client: (usize, usize),
    folder: usize,
    own: Parameters,
    mix: Mix,
    sizes: Sizes,
    draws: Stream,
    /// In which order objects are taken.
    order: Order,
    schedule: Schedule,
    start_ns: u64,
    open: BTreeMap<u64, Open>,
    ended: Ended,
}

/// What came of a role so far.
#[derive(Default)]
struct Ended {
    begun: u64,
    rows: Vec<OperationRow>,
    without_object: u64,
    retries: u64,
    /// At a rate: operations that were due.
    due: u64,
    by_found: [u64; ENDINGS],
    over: bool,
    /// By the timeline, while it had more to do.
    stopped: bool,
}

impl Objects {
    fn new(index: usize, role: &Role, network: &mut Network) -> Result<Self, Finding> {
        let own: Parameters = parse(role)?;
        let shares = own.operations.iter().map(|(name, share)| (name.as_str(), *share));
        let mix = Mix::of(shares).map_err(|what| finding(role, &what))?;
        own.check().map_err(|error| finding(role, &error.to_string()))?;
        let Some(client) = network.servers.stores.of_client(index) else {
            return Err(finding(role, &format!("there is no store '{}'", own.service)));
        };
        let name = own.folder.clone().unwrap_or_else(|| role.name.clone());
        let folder = network.servers.stores.at(client.0).enter(client.1, &name);
        let seed = role.ends[0].seed;
        let rate_pps = own.rate_per_s.unwrap_or(1);
        Ok(Self {
            role: index,
            client,
            folder,
            sizes: Sizes::new(&own.object_sizes, seed),
            draws: Stream::new(seed, "operations"),
            order: match own.order {
                Asked::Random => Order::random(),
                Asked::Sequential => Order::sequential(own.asks().sharers()),
                Asked::Once => Order::once(own.asks().sharers()),
            },
            schedule: Schedule::PerSecond { rate_pps }.with(own.arrivals, seed),
            own,
            mix,
            start_ns: 0,
            open: BTreeMap::new(),
            ended: Ended::default(),
        })
    }

    fn is_enough(&self) -> bool {
        self.ended.over || self.own.count.is_some_and(|count| self.ended.begun >= count)
    }

    /// What to do next; of the last draw, where no object was free for any.
    fn pick(&mut self, thread: i32, network: &mut Network) -> Result<Pick, Deed> {
        let (store, folder) = (self.client.0, self.folder);
        let (thread, bytes) = (thread.max(0) as u32, self.sizes.next(self.own.object_bytes));
        let mut last = Deed::Create;
        for _ in 0..DRAWS {
            let deed = self.mix.draw(self.draws.uniform());
            let draw = (deed, self.draws.below(u64::MAX));
            let objects = network.servers.stores.at(store).folder(folder);
            if let Some(pick) = objects.pick_by(&mut self.order, thread, draw, bytes) {
                return Ok(pick);
            }
            last = deed;
            if self.order.is_done(thread) {
                break;
            }
            self.ended.without_object += 1;
        }
        Err(last)
    }

    fn begin(&mut self, intended_ns: u64, thread: i32, network: &mut Network) {
        if self.is_enough() {
            return;
        }
        let pick = match self.pick(thread, network) {
            Ok(pick) => pick,
            Err(deed) if self.own.rate_per_s.is_some() => {
                self.ended.begun += 1;
                let times = [intended_ns, network.now_ns, network.now_ns];
                return self.end((deed, Found::Skipped), times, 0, 0, thread);
            }
            Err(_) => return,
        };
        let number = self.ended.begun;
        self.ended.begun += 1;
        self.open.insert(number, Open { pick, intended_ns, sent_ns: network.now_ns, thread });
        let (store, peer) = self.client;
        let now = Nanos(network.now_ns);
        network.servers.stores.at(store).begin(now, peer, number, pick.key, pick.task);
        settle(store, peer, network);
    }

    /// An operation has ended, that was due, sent and done at these instants.
    fn end(
        &mut self,
        (deed, found): (Deed, Found),
        times_ns: [u64; 3],
        object_bytes: u64,
        retries: u32,
        thread: i32,
    ) {
        self.ended.by_found[found as usize] += 1;
        self.ended.retries += u64::from(retries);
        let [intended_ns, sent_ns, finished_ns] = times_ns.map(|at_ns| at_ns as i64);
        self.ended.rows.push(OperationRow {
            operation: deed as i32,
            outcome: found as i32,
            intended_ns,
            sent_ns,
            finished_ns,
            object_bytes: object_bytes as i64,
            retries: retries as i32,
            thread,
            first_byte_ns: -1, // a message is heard as a whole
        });
    }

    /// At a rate: the next operation is due.
    fn expect(&mut self, network: &mut Network) {
        if !self.is_enough() {
            let at_ns = self.start_ns.saturating_add(self.schedule.offset(self.ended.due).0);
            network.agenda.plan(at_ns, Due::Tick { role: self.role, side: 0, generation: 0 });
        }
    }
}

impl Workload for Objects {
    fn start(&mut self, network: &mut Network) {
        self.start_ns = network.now_ns;
        if let Some(duration_ns) = self.own.duration_ns {
            let until_ns = network.now_ns.saturating_add(duration_ns);
            network.agenda.plan(until_ns, Due::Expire { role: self.role, side: 0 });
        }
        if self.own.rate_per_s.is_some() {
            self.expect(network);
            return;
        }
        for thread in 0..self.own.threads {
            self.begin(network.now_ns, thread as i32, network);
        }
    }

    fn tick(&mut self, _side: usize, _generation: u32, network: &mut Network) {
        let due_ns = self.start_ns.saturating_add(self.schedule.offset(self.ended.due).0);
        self.ended.due += 1;
        self.begin(due_ns, -1, network);
        self.expect(network);
    }

    fn expire(&mut self, _side: usize, _network: &mut Network) {
        self.ended.over = true;
    }

    fn called(&mut self, network: &mut Network) {
        let (store, peer) = self.client;
        while let Some((number, outcome, retries, listing)) = network.servers.stores.at(store).answer(peer) {
            let Some(Open { pick, intended_ns, sent_ns, thread }) = self.open.remove(&number) else {
                continue;
            };
            let folder = self.folder;
            let found = network.servers.stores.at(store).folder(folder).end(&pick, outcome, listing.as_ref());
            let times_ns = [intended_ns, sent_ns, network.now_ns];
            self.end((pick.deed, found), times_ns, pick.bytes(), retries, thread);
            if self.own.rate_per_s.is_none() {
                self.begin(network.now_ns, thread, network);
            }
        }
    }

    fn take(&mut self, _message: Message, _network: &mut Network) {}

    fn stop(&mut self, _network: &mut Network) {
        self.ended.stopped |= !self.ended.over && !self.finished();
        self.ended.over = true;
    }

    fn finished(&self) -> bool {
        self.open.is_empty() && (self.own.rate_per_s.is_none() || self.is_enough())
    }

    fn failure(&self) -> Option<String> {
        let done = self.ended.by_found[Found::Done as usize];
        let (asks, left) = (self.own.asks(), if self.ended.stopped { 0 } else { self.order.left() });
        asks.over_budget(self.ended.begun, done).or_else(|| asks.too_short(left))
    }

    fn report(&self, stream: &str) -> (Vec<Table>, Counters) {
        let [done, timed_out, missing, wrong, skipped] = self.ended.by_found;
        let client = vec![
            ("operations", self.ended.begun),
            ("done_operations", done),
            ("timed_out_operations", timed_out),
            ("missing_operations", missing),
            ("wrong_operations", wrong),
            ("skipped_operations", skipped),
            ("operation_retries", self.ended.retries),
            ("without_object", self.ended.without_object),
        ];
        (Table::of(stream, &self.ended.rows).into_iter().collect(), [client, Vec::new()])
    }
}
