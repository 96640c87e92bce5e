//! The whole: network, roles and timeline, played from instant to instant.

mod moving;
mod operations;

use crate::agenda::Due;
use crate::input::{Act, Action, Deed, Finding, Input, Pool, Role};
use crate::ip::Message;
use crate::moves::Moves;
use crate::network::{Landed, Network};
use crate::samples::readings::{ENDED, Readings, STOPPED};
use crate::samples::{Column, Table};
use crate::servers::Stored;
use crate::workloads::{
    self,
    forwarding::Forwarding,
    store,
    workload::{Workload, finding},
};
use std::collections::{BTreeMap, BTreeSet};
use virtlab_load::histogram::Histogram;
use virtlab_timeline::Timeline;
use virtlab_wire::block::Column::I64;

/// Steps without progress of time, beyond which the world is said to stand still.
const STANDSTILL: u64 = 4_000_000;

const NEVER_NS: u64 = u64::MAX;

/// An event of the timeline, in order.
pub type Happened = (u64, String);

struct Playing {
    name: String,
    kept: bool,
    workload: Box<dyn Workload>,
    started: bool,
    told: bool,
}

impl Playing {
    fn of(role: &Role, workload: Box<dyn Workload>) -> Self {
        Self { name: role.name.clone(), kept: role.kept, workload, started: false, told: false }
    }

    /// One that has no action of its own: it is there from the beginning, and the run does not wait for its end.
    fn beside(role: &Role, workload: Box<dyn Workload>) -> Self {
        Self { started: true, told: true, ..Self::of(role, workload) }
    }
}

/// How the pass ended, and what it measured.
#[derive(Debug)]
pub struct Outcome {
    /// Why it failed; empty when it did not.
    pub reasons: Vec<String>,
    /// First instant of each event.
    pub marks: BTreeMap<String, u64>,
    /// Windows that have both ends.
    pub windows: BTreeMap<String, (u64, u64)>,
    /// Actions that were given up and are censored.
    pub censored: Vec<String>,
    /// Events in order.
    pub happened: Vec<Happened>,
    /// Samples of roles that are kept, then counters.
    pub tables: Vec<Table>,
    /// Directions of links before which more messages waited than their queue holds, each with the frames of those that
    /// came then: packets would have been lost there.
    pub over_limits: Vec<(String, u64)>,
    /// Events played.
    pub events: u64,
}

impl Outcome {
    /// Counters of roles at the end.
    pub(crate) fn role_counters(&self) -> impl Iterator<Item = (&str, u64)> {
        self.tables.iter().filter(|table| table.stream == "counters").flat_map(|table| {
            let column =
                |wanted: &str| table.columns.iter().find(|(name, _)| *name == wanted).map(|(_, all)| all);
            match (column("mark"), column("counter"), column("value")) {
                (
                    Some(Column::Names(marks)),
                    Some(Column::Names(names)),
                    Some(Column::Numbers(I64(values))),
                ) => marks
                    .iter()
                    .zip(names)
                    .zip(values)
                    .filter(|((mark, _), _)| *mark == STOPPED)
                    .map(|((_, name), value)| (name.as_str(), *value as u64))
                    .collect::<Vec<_>>(),
                _ => Vec::new(),
            }
        })
    }
}

/// What actions have under way.
#[derive(Default)]
struct UnderWay {
    /// By action, what its program has done.
    deeds: BTreeMap<usize, usize>,
    /// Actions that wait for servers, and since when.
    waits: BTreeMap<usize, u64>,
    /// Services that have failed, each with the guest.
    failed: BTreeSet<(String, usize)>,
    moves: Moves,
}

/// A world that is being played.
pub struct World {
    input: Input,
    network: Network,
    roles: Vec<Playing>,
    timeline: Timeline,
    stops: Vec<(String, usize)>,
    under_way: UnderWay,
    edges: BTreeSet<String>,
    marked: BTreeSet<String>,
    readings: Readings,
    happened: Vec<Happened>,
    reasons: Vec<String>,
    closing: bool,
    over: bool,
    unsettled: bool,
    next_timeline: Option<u64>,
    events: u64,
    still: u64,
}

impl World {
    /// Builds a world.
    ///
    /// # Errors
    /// Everything in the input that cannot be played.
    pub fn new(mut input: Input) -> Result<Self, Vec<Finding>> {
        let asking = input.roles.len();
        let beside = input.roles_beside();
        input.roles.extend(beside);
        let mut network = Network::new(&input).map_err(|finding| vec![finding])?;
        let mut findings: Vec<Finding> = input.pools.iter().filter_map(Pool::finding).collect();
        let mut roles = Vec::new();
        let of_stores = asking + input.passive.len();
        let parts = store::parts(&input, of_stores, &mut network).unwrap_or_else(|finding| {
            findings.push(finding);
            Vec::new()
        });
        for (index, role) in input.roles[..of_stores].iter().enumerate() {
            if let Some(passive) = index.checked_sub(asking).map(|place| &input.passive[place]) {
                match Forwarding::new(index, role, passive, &mut network) {
                    Ok(forwarding) => roles.push(Playing::beside(role, Box::new(forwarding))),
                    Err(finding) => findings.push(finding),
                }
                continue;
            }
            let kind = match workloads::kind(&format!("roles.{}.workload", role.name), &role.workload) {
                Ok(kind) => kind,
                Err(finding) => {
                    findings.push(finding);
                    continue;
                }
            };
            let mut role = role.clone();
            if let Some(dscp) = role.parameters.remove("dscp") {
                network.class(index, dscp.as_u64().and_then(|code| u8::try_from(code).ok()).unwrap_or(0));
            }
            if role.parameters.remove("ecn") == Some(serde_json::Value::Bool(true)) {
                network.speak_ecn(index);
            }
            if let Some(priority) = role.parameters.remove("priority") {
                let read = priority.as_u64().and_then(|priority| u8::try_from(priority).ok());
                match read.filter(|priority| *priority < 8 && kind.tags) {
                    Some(priority) => network.prefer(index, priority),
                    None => {
                        findings.push(finding(&role, "priority is 0 to 7, of a workload of whole frames"))
                    }
                }
            }
            let role = &role;
            match (kind.make)(index, role, &mut network) {
                Ok(workload) => roles.push(Playing::of(role, workload)),
                Err(finding) => findings.push(finding),
            }
        }
        let of_parts = input.roles[of_stores..].iter().zip(parts);
        roles.extend(of_parts.map(|(role, part)| Playing::beside(role, part)));
        let moves = Moves::new(&input, &mut network).map_err(|finding| findings.push(finding)).ok();
        if !findings.is_empty() {
            return Err(findings);
        }
        let edges: BTreeSet<String> =
            input.windows.values().flat_map(|(from, to)| [from.clone(), to.clone()]).collect();
        let steps = input.timeline.iter().map(Action::step).collect();
        let timeline = Timeline::new(steps, input.windows.clone(), 0);
        let mut world = Self {
            network,
            roles,
            timeline,
            stops: Vec::new(),
            under_way: UnderWay { moves: moves.unwrap_or_default(), ..UnderWay::default() },
            edges,
            marked: BTreeSet::new(),
            readings: Readings::default(),
            happened: Vec::new(),
            reasons: Vec::new(),
            closing: false,
            over: false,
            unsettled: true,
            next_timeline: None,
            events: 0,
            still: 0,
            input,
        };
        world.read("begin");
        for group in 0..world.input.usage.len() + world.input.disk_usage.len() {
            world.plan_sample(group);
        }
        for server in world.network.servers.idling() {
            world.network.look_at(server);
        }
        Ok(world)
    }

    /// Plays on for at most so many events; true when the pass is over.
    pub fn play(&mut self, events: u64) -> bool {
        let until = self.events.saturating_add(events);
        while !self.over && self.events < until {
            self.step(until);
        }
        self.over
    }

    /// Virtual time so far.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.network.now_ns
    }

    /// Plays an event; of the fabric's all that follow each other, up to so many.
    fn step(&mut self, until: u64) {
        self.events += 1;
        if let Some(incoming) = self.network.inbox.pop_front() {
            self.still += 1;
            if let Some(message) = self.network.receive(incoming) {
                let wakes = self.roles[message.role as usize].workload.wakes(&message);
                if let Some(message) = self.network.hand_over(message, wakes) {
                    self.take(message);
                }
            } else if self.network.knows_paths() {
                self.tell_of_paths();
            }
            self.refuse_standstill();
            return;
        }
        if self.unsettled {
            self.unsettled = false;
            self.settle();
            return;
        }
        let fabric = self.network.fabric_ns().unwrap_or(NEVER_NS);
        let own = self.network.agenda.next_ns().unwrap_or(NEVER_NS);
        let at = fabric.min(own).min(self.next_timeline.unwrap_or(NEVER_NS));
        let at = if at == NEVER_NS { self.network.last_coming_ns().unwrap_or(NEVER_NS) } else { at };
        if at == NEVER_NS {
            return self.end();
        }
        if at > self.input.limit_ns {
            self.network.now_ns = self.input.limit_ns;
            self.network.agenda.now_ns = self.input.limit_ns;
            self.network.agenda.stand(true);
            if !self.closing {
                let limit = self.input.limit_ns as f64 / 1e9;
                self.reasons.push(format!("limits.run_ns: not over within {limit} s"));
            }
            return self.end();
        }
        self.still = if at > self.network.now_ns { 0 } else { self.still + 1 };
        self.network.now_ns = at;
        self.network.agenda.now_ns = at;
        self.refuse_standstill();
        if fabric == at {
            self.advance_fabric();
            while self.events < until && self.is_fabric_next() {
                self.advance_fabric();
            }
        } else if own == at {
            if self.network.has_quiet() && !self.network.agenda.is_landing() {
                self.hear_quiet();
            }
            match self.network.agenda.take() {
                Some(&Due::Land(port)) => {
                    self.network.plan_next_landing(port);
                    self.land(port);
                }
                // What is put off comes again, and is counted then.
                Some(&Due::Release(nic)) => self.events -= u64::from(!self.network.release(nic)),
                Some(&Due::Speak(place)) => self.network.speak(place),
                Some(&Due::Work(pool)) => self.work(pool),
                Some(&Due::Sample(group)) => self.sample(group),
                Some(&Due::Disk(guest)) => self.store(guest),
                Some(&Due::Serve(server)) => self.serve(server),
                Some(&Due::Call(role)) => {
                    self.roles[role].workload.called(&mut self.network);
                    self.look(role);
                }
                Some(&Due::Copy) => self.go_on_moving(),
                Some(&Due::Bulk) => self.go_on_sending(),
                Some(&Due::Mail(place)) => store::carry(place, &mut self.network),
                Some(&Due::LookAfter(place)) => self.network.look_after(place),
                Some(&Due::Tick { role, side, generation }) => {
                    self.roles[role].workload.tick(side, generation, &mut self.network);
                    self.look(role);
                }
                Some(&Due::Expire { role, side }) => {
                    self.roles[role].workload.expire(side, &mut self.network);
                    self.look(role);
                }
                Some(&Due::Resume(slot)) => {
                    if let Some(message) = self.network.resume(slot) {
                        self.take(message);
                    }
                }
                None => {}
            }
            self.thin();
        } else {
            self.hear_quiet();
            self.network.agenda.stand(true);
            self.settle();
        }
    }

    fn advance_fabric(&mut self) {
        self.network.agenda.stand(false);
        self.network.advance_fabric();
        self.thin();
    }

    /// Whether the fabric's next event comes before anything else; then it is as late.
    #[inline]
    fn is_fabric_next(&mut self) -> bool {
        let Some(at) = self.network.fabric_ns() else { return false };
        let own = self.network.agenda.next_ns().unwrap_or(NEVER_NS);
        let others = own.min(self.next_timeline.unwrap_or(NEVER_NS)).min(self.input.limit_ns);
        if at > others || self.unsettled || !self.network.inbox.is_empty() {
            return false;
        }
        self.events += 1;
        self.still = if at > self.network.now_ns { 0 } else { self.still + 1 };
        (self.network.now_ns, self.network.agenda.now_ns) = (at, at);
        true
    }

    /// Servers whose work in a pool of processors is done by now.
    fn work(&mut self, pool: usize) {
        while let Some(server) = self.network.servers.worked(pool, self.network.now_ns) {
            self.serve(server);
        }
        if let Some((_, at_ns)) = self.network.servers.processors.look(pool) {
            self.network.agenda.plan(at_ns, Due::Work(pool));
        }
    }

    /// Servers for which the disk of a guest has done something by now.
    fn store(&mut self, guest: usize) {
        store::keep(guest, &mut self.network);
        while let Some(stored) = self.network.servers.stored(guest, self.network.now_ns) {
            match stored {
                Stored::Server((server, _)) => self.serve(server),
                Stored::Role((role, id)) => self.roles[role].workload.stored(id, &mut self.network),
            }
        }
        if let Some(at_ns) = self.network.servers.disks.plan(guest, self.network.now_ns) {
            self.network.agenda.plan(at_ns, Due::Disk(guest));
        }
    }

    /// Takes samples of how processors or disks are used; the last where nothing is left to happen.
    fn sample(&mut self, group: usize) {
        match group.checked_sub(self.input.usage.len()) {
            None => self.network.servers.sample_processors(group, self.network.now_ns),
            Some(of_disks) => self.network.servers.disks.sample(of_disks, self.network.now_ns),
        }
        let comes = [
            self.network.fabric_ns(),
            self.network.agenda.next_ns(),
            self.next_timeline,
            self.network.last_coming_ns(),
        ];
        if comes.iter().any(Option::is_some) {
            self.plan_sample(group);
        }
    }

    fn plan_sample(&mut self, group: usize) {
        let every_ns = match group.checked_sub(self.input.usage.len()) {
            None => self.input.usage[group].every_ns,
            Some(of_disks) => self.input.disk_usage[of_disks].every_ns,
        };
        let every_ns = every_ns.max(1);
        self.network.agenda.plan(self.network.now_ns.saturating_add(every_ns), Due::Sample(group));
    }

    /// Roles whose requests a server has done by now.
    fn serve(&mut self, server: usize) {
        while let Some(served) = self.network.servers.served(server, self.network.now_ns) {
            let (role, _) = served.owner;
            self.roles[role].workload.served(served, &mut self.network);
            self.look(role);
        }
        self.network.look_at(server);
    }

    /// What has landed at a port by now.
    fn land(&mut self, port: usize) {
        while let Some(landed) = self.network.land(port) {
            match landed {
                Landed::Now(message) => self.take(message),
                Landed::Quiet(message) => {
                    self.roles[message.role as usize].workload.take_quiet(message, &mut self.network)
                }
                Landed::At(message, at_ns) => {
                    self.roles[message.role as usize].workload.count(message, at_ns)
                }
            }
        }
    }

    /// Has roles take what has come by now from which nothing follows.
    fn hear_quiet(&mut self) {
        while let Some(port) = self.network.next_quiet() {
            self.land(port);
        }
    }

    fn thin(&mut self) {
        while let Some(port) = self.network.next_crowded() {
            self.land(port);
        }
    }

    fn take(&mut self, message: Message) {
        let role = message.role as usize;
        self.roles[role].workload.take(message, &mut self.network);
        self.look(role);
    }

    /// Roles of guests that have learnt how long a packet may be.
    fn tell_of_paths(&mut self) {
        for guest in self.network.news_of_paths() {
            for role in 0..self.roles.len() {
                for side in [0, 1] {
                    if self.roles[role].started && self.network.is_in(role, side, guest) {
                        self.roles[role].workload.path_changed(side, &mut self.network);
                        self.look(role);
                    }
                }
            }
        }
    }

    #[inline]
    fn refuse_standstill(&mut self) {
        if self.still > STANDSTILL {
            self.give_up();
        }
    }

    #[cold]
    fn give_up(&mut self) {
        self.reasons.push(format!(
            "time stands still at {} ns: a role sends without end and no link slows it down; give it an interval",
            self.network.now_ns
        ));
        self.end();
    }

    /// After something happened to a role: tells when it has finished.
    #[inline]
    fn look(&mut self, role: usize) {
        let playing = &self.roles[role];
        if playing.started && !playing.told && playing.workload.finished() {
            self.tell(role);
        }
    }

    #[cold]
    fn tell(&mut self, role: usize) {
        let playing = &mut self.roles[role];
        playing.told = true;
        if let Some(server) = playing.workload.server() {
            self.network.servers.cease(server);
        }
        self.unsettled = true;
        let of_role = |place: &usize| self.input.timeline[*place].role == Some(role);
        let finished: Vec<usize> = self.timeline.running().filter(of_role).collect();
        for place in finished {
            self.note_of(place, "finished");
        }
        let (done, left): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.stops).into_iter().partition(|(_, stopped)| *stopped == role);
        self.stops = left;
        for (action, _) in done {
            self.note(&format!("{action}.done"));
        }
    }

    fn note(&mut self, event: &str) {
        let now_ns = self.network.now_ns;
        if !self.timeline.event(event, now_ns).is_empty() {
            self.happened.push((now_ns, event.to_owned()));
        }
        self.unsettled = true;
    }

    fn note_of(&mut self, place: usize, word: &str) {
        self.note(&format!("{}.{word}", self.input.timeline[place].id));
    }

    /// Everything that the timeline has for this instant.
    fn settle(&mut self) {
        let now_ns = self.network.now_ns;
        if !self.closing {
            while let Some((place, _)) = self.timeline.waited(now_ns) {
                let (act, guest) = (self.input.timeline[place].act, self.input.timeline[place].guest);
                match (act, guest) {
                    (Act::Exec, _) => {
                        self.go_on_with(place);
                        continue;
                    }
                    (Act::Reset, Some(guest)) => self.network.set_down(guest, false),
                    (Act::Wait, _) if !self.has_come(place) => continue,
                    _ => {}
                }
                self.note_of(place, "done");
            }
            while let Some((place, _)) = self.timeline.due(now_ns, 0) {
                self.begin(place);
            }
            while let Some((place, word)) = self.timeline.expired(now_ns) {
                self.note_of(place, word);
                self.under_way.waits.remove(&place);
                self.stop_moving(place);
                if let Some(role) = self.input.timeline[place].role {
                    self.stop(role);
                }
            }
            let edges: Vec<String> = self
                .edges
                .iter()
                .filter(|edge| self.timeline.marks.contains_key(*edge) && !self.marked.contains(*edge))
                .cloned()
                .collect();
            for edge in edges {
                self.read(&edge);
                self.marked.insert(edge);
            }
            if self.timeline.over() || !self.timeline.failures.is_empty() || !self.reasons.is_empty() {
                self.closing = true;
                for role in 0..self.roles.len() {
                    self.stop(role);
                }
            }
        }
        if self.closing {
            self.next_timeline = None;
            if self.roles.iter().all(|role| !role.started || role.workload.finished()) {
                self.end();
            }
            return;
        }
        self.next_timeline = self.timeline.next_ns(0);
    }

    fn begin(&mut self, index: usize) {
        let action = self.input.timeline[index].clone();
        let id = &action.id;
        match (action.act, action.role) {
            (Act::Start | Act::Run, Some(role)) => {
                if self.roles[role].started {
                    let name = &self.roles[role].name;
                    self.reasons.push(format!(
                        "timeline.{id}: role {name} was started before; a role runs once in a trial"
                    ));
                    return;
                }
                self.roles[role].started = true;
                self.note(&format!("{id}.started"));
                self.roles[role].workload.start(&mut self.network);
                self.look(role);
            }
            (Act::Stop, Some(role)) => {
                self.note(&format!("{id}.started"));
                if !self.roles[role].started || self.roles[role].workload.finished() {
                    self.note(&format!("{id}.done"));
                } else {
                    self.stops.push((id.clone(), role));
                    self.stop(role);
                }
            }
            (Act::Set, Some(role)) => {
                for (parameter, value) in &action.args {
                    self.roles[role].workload.set(parameter, value, &mut self.network);
                }
                self.note(&format!("{id}.done"));
            }
            (Act::Set, None) => {
                self.note(&format!("{id}.started"));
                if let Some((link, rate)) = action.slows() {
                    self.set_rate(link, rate);
                }
                if let Some((link, up)) = action.cuts() {
                    self.network.set_state(link, up);
                    let now_ns = self.network.now_ns;
                    self.network.servers.stores.change_link(now_ns, link, up);
                }
                self.note(&format!("{id}.done"));
            }
            (Act::Exec, _) => {
                self.note(&format!("{id}.started"));
                self.go_on_with(index);
            }
            (Act::Migrate, _) => {
                self.note(&format!("{id}.started"));
                self.begin_to_move(index);
            }
            (Act::Call, _) => {
                self.note(&format!("{id}.started"));
                self.operate(action.operation.as_ref());
                self.note(&format!("{id}.done"));
            }
            (Act::Wait, _) if action.operation.is_some() => {
                self.note(&format!("{id}.started"));
                self.under_way.waits.insert(index, self.network.now_ns);
                if self.store_of(index).is_some() {
                    self.timeline.expect(index, self.network.now_ns);
                }
                self.poll();
            }
            (Act::Wait, _) if action.progress.is_some() => {
                self.note(&format!("{id}.started"));
                self.under_way.waits.insert(index, self.network.now_ns);
                self.timeline.expect(index, self.network.now_ns);
            }
            (act, _) => {
                self.note(&format!("{id}.started"));
                if let (Act::Reset, Some(guest)) = (act, action.guest) {
                    self.network.set_down(guest, true);
                }
                self.timeline.expect(index, self.network.now_ns.saturating_add(action.for_ns));
            }
        }
    }

    /// What a program has left to do, until it sleeps or ends. One that the simulated guest does not have fails.
    fn go_on_with(&mut self, index: usize) {
        let action = self.input.timeline[index].clone();
        let (guest, deeds) = (action.guest.unwrap_or(0), action.program.unwrap_or_else(|| vec![Deed::Fail]));
        let mut end = "finished";
        while let Some(deed) = deeds.get(*self.under_way.deeds.entry(index).or_default()).copied() {
            *self.under_way.deeds.entry(index).or_default() += 1;
            match deed {
                Deed::Sleep(for_ns) => {
                    self.timeline.expect(index, self.network.now_ns.saturating_add(for_ns));
                    return;
                }
                Deed::ForgetNeighbours(of) => self.network.forget_neighbours_of(guest, of),
                Deed::ForgetPaths(of) => {
                    self.network.forget_paths(guest, of);
                    self.tell_of_paths();
                }
                Deed::Fail => {
                    end = "failed";
                    break;
                }
            }
        }
        self.note_of(index, end);
    }

    fn stop(&mut self, role: usize) {
        if self.roles[role].started {
            self.roles[role].workload.stop(&mut self.network);
            self.look(role);
        }
    }

    fn read(&mut self, mark: &str) {
        self.network.catch_up_all();
        for port in 0..self.network.ports() {
            self.land(port);
        }
        self.network.read(&self.input.counters, mark, &mut self.readings);
    }

    fn end(&mut self) {
        if !self.over {
            self.over = true;
            self.network.servers.disks.end(self.network.now_ns);
            self.read(ENDED);
        }
    }

    /// The delay below which a share of what roles gather instead of samples lies; `None` without any.
    #[must_use]
    pub fn delay_ns(&self, ratio: f64) -> Option<u64> {
        let mut all = Histogram::default();
        self.delays().for_each(|each| all.merge(each));
        all.quantile(ratio).map(|at| at.0)
    }

    /// Delays of the roles that gather them.
    pub(crate) fn delays(&self) -> impl Iterator<Item = &Histogram> {
        self.roles.iter().filter_map(|role| role.workload.delays())
    }

    /// What came of it.
    #[must_use]
    pub fn outcome(mut self) -> Outcome {
        let mut tables = Vec::new();
        for (place, role) in self.roles.iter().enumerate().filter(|(_, role)| role.started) {
            let (samples, counters) = role.workload.report(&role.name);
            if role.kept {
                tables.extend(samples);
            }
            let [client, mut server] = counters;
            server.extend(
                role.workload.server().into_iter().flat_map(|own| self.network.servers.counters(own)),
            );
            server.extend(self.network.servers.stores.counters(place));
            for (side, counters) in ["client", "server"].iter().zip(&[client, server]) {
                self.readings.note(self.network.now_ns, STOPPED, &format!("{}/{side}", role.name), counters);
            }
            for (side, counters) in ["client", "server"].iter().zip(role.workload.flow_counters()) {
                let entity = format!("{}/{side}", role.name);
                for (counter, value) in counters {
                    self.readings.note_one(self.network.now_ns, STOPPED, &entity, counter.into(), value);
                }
            }
        }
        tables.extend(self.network.servers.processors.samples());
        tables.extend(self.network.servers.disks.samples());
        tables.extend(self.under_way.moves.table());
        tables.extend(self.readings.table());
        let over_limits = self.network.over_limits();
        let windows = self.timeline.windows();
        let mut reasons = self.reasons;
        reasons.append(&mut self.timeline.failures);
        let failed = self.roles.iter().filter(|role| role.started);
        reasons.extend(
            failed.filter_map(|role| Some(format!("roles.{}: {}", role.name, role.workload.failure()?))),
        );
        if reasons.is_empty() {
            let missing = self.input.windows.keys().filter(|name| !windows.contains_key(*name));
            reasons.extend(missing.map(|name| format!("windows.{name}: an end of it never came")));
        }
        Outcome {
            reasons,
            marks: self.timeline.marks,
            windows,
            censored: self.timeline.censored,
            happened: self.happened,
            tables,
            over_limits,
            events: self.events,
        }
    }
}
