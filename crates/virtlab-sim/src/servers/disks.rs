//! Disks of guests in virtual time: what servers ask of them, and the samples of what they do.

use super::page_cache::{PageCache, Purpose};
use crate::input::{DiskUsage, Guest, Input};
use crate::samples::Table;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use virtlab_disk::{Disk, Model, Refused, Request, Tally, Usage};
use virtlab_store::{Operation, Outcome, Volume};
use virtlab_wire::Nanos;

/// A server, and its own number of what it wants.
pub type Ticket = (usize, u64);

/// What is done, and for whom: a server, or a role of the network.
#[derive(Clone, Copy, Debug)]
pub enum Stored {
    Server(Ticket),
    Role(Ticket),
}

/// Who waits for a request.
#[derive(Clone, Copy, Debug)]
enum Asker {
    Server(Ticket),
    Role(Ticket),
    Kernel(Purpose),
}

/// A disk of its model, or one whose blocks are objects of a store.
#[derive(Debug)]
enum Medium {
    Model(Box<Disk>),
    Store(Box<OnStore>),
}

/// A disk on a store.
#[derive(Debug)]
struct OnStore {
    model: Model,
    volume: Volume,
    /// The store's place, and that of the disk's client among the peers there.
    client: (usize, usize),
    tally: Tally,
    /// Requests under way, by when they came.
    came: BTreeMap<u64, (Nanos, Request)>,
}

/// Who waits for which request. Their numbers follow each other, and a disk does nearly first what came first.
#[derive(Debug, Default)]
struct Askers {
    /// The number of the first.
    first: u64,
    all: VecDeque<Option<Asker>>,
}

impl Askers {
    /// The number of the next request.
    fn next(&self) -> u64 {
        self.first + self.all.len() as u64
    }

    /// One more request, and who waits for it; `None`: it was refused.
    fn push(&mut self, asker: Option<Asker>) {
        self.all.push_back(asker);
        self.close_up();
    }

    fn remove(&mut self, id: u64) -> Option<Asker> {
        let place = usize::try_from(id.checked_sub(self.first)?).ok()?;
        let asker = self.all.get_mut(place)?.take();
        self.close_up();
        asker
    }

    fn retain(&mut self, keeps: impl Fn(&Asker) -> bool) {
        for asker in &mut self.all {
            asker.take_if(|asker| !keeps(asker));
        }
        self.close_up();
    }

    fn close_up(&mut self) {
        while self.all.front().is_some_and(Option::is_none) {
            self.all.pop_front();
            self.first += 1;
        }
    }
}

/// A disk, and who waits for what.
#[derive(Debug)]
struct Own {
    name: Option<String>,
    medium: Medium,
    askers: Askers,
    /// What its guest's kernel holds; absent: nothing is buffered.
    pages: Option<PageCache<Ticket>>,
    /// Servers that write what it holds.
    buffering: BTreeSet<usize>,
    /// For when the next look at it is planned.
    planned_ns: Option<u64>,
    /// The instant at which it is asked what is done, until nothing else is.
    asked_ns: Option<u64>,
}

/// What is sampled as often as each other, and the samples.
#[derive(Debug)]
struct Series {
    given: DiskUsage,
    /// By guest, what its disk had done at the sample before.
    before: Vec<Usage>,
    sampled_ns: u64,
    /// Entities by their places; metric and value.
    samples: Vec<(u64, usize, &'static str, f64)>,
}

/// All of a world, by guest.
#[derive(Debug)]
pub struct Disks {
    of: Vec<Option<Own>>,
    /// Guests that have moved, each with the place of the host whose its disk is now.
    moved: BTreeMap<usize, usize>,
    series: Vec<Series>,
}

impl Disks {
    /// Nothing was asked yet.
    pub fn new(input: &Input) -> Self {
        let own = |guest: &Guest| {
            guest.disk.as_ref().map(|given| Own {
                name: given.name.clone(),
                medium: Medium::Model(Box::new(Disk::new(given.model))),
                askers: Askers::default(),
                pages: given.buffers.map(|buffers| PageCache::new(buffers, given.model.size_bytes)),
                buffering: BTreeSet::new(),
                planned_ns: None,
                asked_ns: None,
            })
        };
        let series = |given: &DiskUsage| Series {
            before: vec![Usage::default(); input.guests.len()],
            given: given.clone(),
            sampled_ns: 0,
            samples: Vec::new(),
        };
        let mut of: Vec<Option<Own>> = input.guests.iter().map(own).collect();
        for (number, given) in input.stores.iter().flat_map(|store| &store.disks).enumerate() {
            if let Some(own) = &mut of[given.guest] {
                let model = *own.model();
                own.medium = Medium::Store(Box::new(OnStore {
                    volume: Volume::new(number as u64, model.size_bytes, given.block_bytes),
                    model,
                    client: (0, 0),
                    tally: Tally::default(),
                    came: BTreeMap::new(),
                }));
            }
        }
        Self { of, moved: BTreeMap::new(), series: input.disk_usage.iter().map(series).collect() }
    }

    /// What the disk of a guest is, if it has one.
    pub fn model(&self, guest: usize) -> Option<&Model> {
        self.of[guest].as_ref().map(Own::model)
    }

    /// The disk of a guest asks a store from now on, by a client that has this place.
    pub fn ask_store(&mut self, guest: usize, client: (usize, usize)) {
        if let Some(on) = self.on_store(guest) {
            on.client = client;
        }
    }

    fn on_store(&mut self, guest: usize) -> Option<&mut OnStore> {
        match &mut self.of[guest].as_mut()?.medium {
            Medium::Model(_) => None,
            Medium::Store(on) => Some(on),
        }
    }

    /// The store that the disk of a guest is on, and its client there; `None`: it is on none.
    pub fn client(&mut self, guest: usize) -> Option<(usize, usize)> {
        self.on_store(guest).map(|on| on.client)
    }

    /// What the store has to do for the disk of a guest; to be asked until there is nothing else.
    pub fn operation(&mut self, guest: usize) -> Option<Operation> {
        self.on_store(guest)?.volume.operation()
    }

    /// A store has ended an operation of the disk of a guest.
    pub fn answered(&mut self, guest: usize, operation: u64, outcome: Outcome) {
        if let Some(on) = self.on_store(guest) {
            let _ = on.volume.answered(operation, outcome);
        }
    }

    /// Bytes that have been written to the disk of a guest until now; 0 where it has none.
    pub fn written_bytes(&self, guest: usize, now_ns: u64) -> u64 {
        self.of[guest].as_ref().map_or(0, |own| own.usage(now_ns).writes.bytes)
    }

    /// A server asks the disk of its guest. What is no part of it, nothing comes of.
    pub fn ask(&mut self, guest: usize, now_ns: u64, ticket: Ticket, request: Request) {
        if let Some(own) = &mut self.of[guest] {
            own.submit(now_ns, Asker::Server(ticket), request);
        }
    }

    /// A role asks the disk of a guest.
    pub fn ask_for(&mut self, guest: usize, now_ns: u64, ticket: Ticket, request: Request) {
        if let Some(own) = &mut self.of[guest] {
            own.submit(now_ns, Asker::Role(ticket), request);
        }
    }

    /// A server writes to the kernel of its guest, for its disk.
    pub fn buffer(&mut self, guest: usize, now_ns: u64, ticket: Ticket, request: Request) {
        let Some(own) = &mut self.of[guest] else { return };
        let Some(pages) = &mut own.pages else { return };
        own.buffering.insert(ticket.0);
        pages.write(now_ns, ticket, request.offset, request.bytes);
        own.take_to_disk(now_ns);
    }

    /// A server waits for nothing any more.
    pub fn forget(&mut self, guest: usize, server: usize) {
        let Some(own) = &mut self.of[guest] else { return };
        own.askers.retain(|asker| !matches!(asker, Asker::Server((own, _)) if *own == server));
        if let Some(pages) = &mut own.pages {
            pages.forget(|(asker, _)| *asker == server);
        }
    }

    /// A server has ended: where it was the last that wrote to its guest's kernel, all of that goes to the disk.
    pub fn close(&mut self, guest: usize, server: usize, now_ns: u64) {
        let Some(own) = &mut self.of[guest] else { return };
        if own.buffering.remove(&server)
            && own.buffering.is_empty()
            && let Some(pages) = &mut own.pages
        {
            pages.close();
            own.take_to_disk(now_ns);
        }
    }

    /// All servers end, and wait until what their guests' kernels hold is on the disks.
    pub fn end(&mut self, now_ns: u64) {
        for own in self.of.iter_mut().flatten().filter(|own| own.pages.is_some()) {
            if let Some(pages) = &mut own.pages {
                pages.close();
            }
            own.take_to_disk(now_ns);
            while let Some(at_ns) = own.medium.next_ns(now_ns).filter(|_| own.is_of_model()) {
                let _ = own.next_done(at_ns);
            }
        }
    }

    /// What is done by now and waited for; to be asked until there is nothing else, then for `plan`.
    pub fn done(&mut self, guest: usize, now_ns: u64) -> Option<Stored> {
        let own = self.of[guest].as_mut()?;
        own.planned_ns = own.planned_ns.filter(|planned_ns| *planned_ns > now_ns);
        own.take_to_disk(now_ns);
        let done = own.next_done(now_ns);
        own.asked_ns = done.map(|_| now_ns);
        done
    }

    /// When to look at the disk of a guest, where no look is planned before.
    pub fn plan(&mut self, guest: usize, now_ns: u64) -> Option<u64> {
        let own = self.of[guest].as_mut()?;
        let at_ns = own.next_ns(now_ns)?;
        // All that is done at this instant is being taken.
        if own.is_of_model() && own.asked_ns == Some(at_ns) {
            return None;
        }
        if own.planned_ns.is_some_and(|planned_ns| planned_ns <= at_ns) {
            return None;
        }
        own.planned_ns = Some(at_ns);
        own.planned_ns
    }

    /// Counters of each disk, by its name.
    pub fn counters(&self, now_ns: u64) -> impl Iterator<Item = (&str, Vec<(&'static str, u64)>)> {
        self.of.iter().flatten().filter_map(move |own| Some((own.name.as_deref()?, own.counters(now_ns))))
    }

    /// A guest has moved: what its disk does is done at another host, which has this place.
    pub fn arrive(&mut self, guest: usize, host: usize) {
        self.moved.insert(guest, host);
    }

    /// Takes samples of those that are sampled as often.
    pub fn sample(&mut self, group: usize, now_ns: u64) {
        let Self { of, moved, series } = self;
        let Series { given, before, sampled_ns, samples } = &mut series[group];
        let elapsed = Nanos(now_ns - *sampled_ns);
        let now: Vec<Usage> =
            of.iter().map(|own| own.as_ref().map(|own| own.usage(now_ns)).unwrap_or_default()).collect();
        for (entity, each) in given.of.iter().enumerate() {
            let there = |guest: &usize| moved.get(guest).copied();
            let stay = each
                .guests
                .iter()
                .filter(|guest| each.host.is_none() || there(guest).is_none_or(|at| Some(at) == each.host));
            let come =
                each.arrivals.iter().filter(|guest| there(guest).is_some_and(|at| Some(at) == each.host));
            let mine: Vec<usize> = stay.chain(come).copied().collect();
            let sum = |of: &[Usage]| mine.iter().map(|guest| of[*guest]).sum::<Usage>();
            for (metric, value) in sum(&now).rates(&sum(before), elapsed, mine.len()) {
                samples.push((now_ns, entity, metric, value));
            }
        }
        *before = now;
        *sampled_ns = now_ns;
    }

    /// The samples.
    pub fn samples(&self) -> impl Iterator<Item = Table> {
        self.series.iter().filter_map(Series::table)
    }
}

impl Medium {
    fn submit(&mut self, now: Nanos, id: u64, request: Request) -> Result<(), Refused> {
        match self {
            Self::Model(disk) => disk.submit(now, id, request).map(|_| ()),
            Self::Store(on) => {
                request.check(on.model.size_bytes)?;
                on.tally.begin(now, request.kind);
                on.came.insert(id, (now, request));
                on.volume.submit(id, request);
                Ok(())
            }
        }
    }

    /// A request that is complete by now.
    fn complete(&mut self, now: Nanos) -> Option<u64> {
        match self {
            Self::Model(disk) => disk.complete(now).map(|completion| completion.id),
            Self::Store(on) => {
                let id = on.volume.take_done()?;
                if let Some((came, request)) = on.came.remove(&id) {
                    on.tally.end(now, came, request);
                }
                Some(id)
            }
        }
    }

    /// When there is something to do.
    fn next_ns(&self, now_ns: u64) -> Option<u64> {
        match self {
            Self::Model(disk) => disk.next_event().map(|at| at.0),
            Self::Store(on) => on.volume.tells().then_some(now_ns),
        }
    }
}

impl Own {
    fn model(&self) -> &Model {
        match &self.medium {
            Medium::Model(disk) => disk.model(),
            Medium::Store(on) => &on.model,
        }
    }

    fn is_of_model(&self) -> bool {
        matches!(self.medium, Medium::Model(_))
    }

    fn usage(&self, now_ns: u64) -> Usage {
        match &self.medium {
            Medium::Model(disk) => disk.usage(Nanos(now_ns)),
            Medium::Store(on) => on.tally.usage(Nanos(now_ns)),
        }
    }

    fn counters(&self, now_ns: u64) -> Vec<(&'static str, u64)> {
        let mut counters = self.usage(now_ns).counters().to_vec();
        if let Medium::Store(on) = &self.medium {
            counters.push(("disk_retries", on.volume.retries));
            counters.push(("disk_lost_blocks", on.volume.lost));
        }
        counters
    }

    fn submit(&mut self, now_ns: u64, asker: Asker, request: Request) {
        let taken = self.medium.submit(Nanos(now_ns), self.askers.next(), request).is_ok();
        self.askers.push(taken.then_some(asker));
    }

    fn next_done(&mut self, now_ns: u64) -> Option<Stored> {
        loop {
            if let Some(ticket) = self.pages.as_mut().and_then(PageCache::take_done) {
                return Some(Stored::Server(ticket));
            }
            let id = self.medium.complete(Nanos(now_ns))?;
            match self.askers.remove(id) {
                Some(Asker::Server(ticket)) => return Some(Stored::Server(ticket)),
                Some(Asker::Role(ticket)) => return Some(Stored::Role(ticket)),
                Some(Asker::Kernel(purpose)) => {
                    if let Some(pages) = &mut self.pages {
                        pages.completed(now_ns, purpose);
                    }
                    self.take_to_disk(now_ns);
                }
                None => {}
            }
        }
    }

    /// What the guest's kernel has for the disk by now.
    fn take_to_disk(&mut self, now_ns: u64) {
        let requests = self.pages.as_mut().map(|pages| pages.requests(now_ns)).unwrap_or_default();
        for (purpose, request) in requests {
            self.submit(now_ns, Asker::Kernel(purpose), request);
        }
    }

    fn next_ns(&self, now_ns: u64) -> Option<u64> {
        let disk_ns = self.medium.next_ns(now_ns);
        let pages = self.pages.iter();
        let kernel_ns = pages.filter_map(|pages| if pages.tells() { Some(now_ns) } else { pages.next_ns() });
        disk_ns.into_iter().chain(kernel_ns).min()
    }
}

impl Series {
    fn table(&self) -> Option<Table> {
        let named = |&(t_ns, entity, metric, value): &(u64, usize, &str, f64)| {
            (t_ns, self.given.of[entity].entity.clone(), metric.to_owned(), value)
        };
        Table::series("series", &self.samples.iter().map(named).collect::<Vec<_>>())
    }
}
