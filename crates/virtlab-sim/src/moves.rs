//! Guests that move: their copies as bulk transfers, and their rounds.
//!
//! Copies are a fluid. Its shares change when one begins or ends to send, and every tenth of a second, when it is seen
//! what packets ask for. Between two looks all of it is at a constant rate, so a look costs as much whatever is copied.

use crate::agenda::Due;
use crate::bulk::{PAYLOAD_SHARE, Transfer};
use crate::input::{Act, Finding, Input, Migration};
use crate::network::Network;
use crate::samples::{Sample, Table};
use crate::transfers::SEEN_EVERY_NS;
use serde_json::Value;
use std::collections::BTreeMap;
use virtlab_migration::{Mode, Moving, Stage};

/// How often what remains is sampled, as on the testbed.
const SAMPLED_EVERY_NS: u64 = 50_000_000;
const SECOND_NS: f64 = 1e9;
const CURE: &str = "mend how the guest moves";

/// One guest on its way.
#[derive(Debug)]
pub struct Move {
    pub guest: usize,
    pub given: Migration,
    machine: Moving,
    begun_ns: u64,
    /// What it sends now, in bytes a second.
    share: f64,
    /// What its guest's disk had been written when that was seen last.
    written_bytes: u64,
    /// Of what it has sent, how much the processors have paid for.
    paid_bytes: f64,
    /// Rounds of which a sample says what was dirtied.
    told_rounds: usize,
    /// Since when it stands still, and what it had sent by then.
    paused: (u64, f64),
    /// When all tables lead to it, once it runs at the destination.
    reached_ns: Option<u64>,
    /// Whether its action is over.
    over: bool,
}

/// All of a world.
#[derive(Debug, Default)]
pub struct Moves {
    /// How guests will move, by the action.
    given: BTreeMap<usize, Migration>,
    /// By the action that has it move.
    all: BTreeMap<usize, Move>,
    looked_ns: u64,
    sampled_ns: u64,
    planned_ns: Option<u64>,
    samples: Vec<Sample>,
}

/// What happens to a guest on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It stands still.
    Pauses,
    /// It runs at the destination.
    Resumes,
    /// All of its state is there.
    Over,
}

impl Move {
    /// Whether it sends, or would if it was asked now.
    fn wants(&self) -> bool {
        self.machine.sends()
            || (self.machine.stage() == Stage::Setup
                && self.machine.next_s(1.0).is_some_and(|left_s| left_s <= 0.0))
    }

    /// One of its connections.
    fn transfer(&self, network: &Network) -> Transfer {
        let place = |(link, direction): &(String, String)| {
            network.transfers().line(link, direction).expect("its lines were looked for at first")
        };
        Transfer {
            lines: self.given.way.iter().map(place).collect(),
            most_octets_per_s: Some(
                self.given.bandwidth_byte_per_s / PAYLOAD_SHARE / f64::from(self.given.connections),
            ),
        }
    }

    /// Whether its guest's processors stand still.
    pub const fn is_paused(&self) -> bool {
        self.machine.is_paused()
    }

    /// Looks whether what it does is over, at a share of so many bytes a second; what happens then, in order. What it
    /// has written in rounds that are over becomes samples.
    fn turn(&mut self, now_ns: u64, share: f64, samples: &mut Vec<Sample>) -> Vec<Turn> {
        let now_s = (now_ns - self.begun_ns) as f64 / SECOND_NS;
        let mut found = Vec::new();
        loop {
            let (before, paused) = (self.machine.stage(), self.machine.is_paused());
            self.machine.turn(now_s, share);
            if self.machine.course().rounds.len() > self.told_rounds {
                self.told_rounds += 1;
                let dirtied = self.machine.dirtied_bytes();
                samples.push((now_ns, self.given.entity.clone(), "migration_dirtied".to_owned(), dirtied));
            }
            let (after, pauses) = (self.machine.stage(), self.machine.is_paused());
            if pauses && !paused {
                found.push(Turn::Pauses);
            }
            if paused && !pauses {
                found.push(Turn::Resumes);
            }
            if after == Stage::Over && before != Stage::Over {
                found.push(Turn::Over);
            }
            if after == before {
                return found;
            }
        }
    }

    /// How often the hypervisor has read which pages are dirty: as it begins, after each round, and in the pause.
    fn readings(&self) -> f64 {
        match self.given.policy.mode {
            Mode::PreCopy => self.machine.course().rounds.len() as f64 + 2.0,
            Mode::Hot => 3.0,
            Mode::PostCopy => 2.0,
            Mode::Cold => 0.0,
        }
    }
}

impl Moves {
    /// Those of a timeline. A finding where one cannot be.
    pub fn new(input: &Input, network: &mut Network) -> Result<Self, Finding> {
        let mut own = Self::default();
        for (place, action) in input.timeline.iter().enumerate().filter(|(_, each)| each.act == Act::Migrate)
        {
            let cannot = |reason: String| Finding::new(format!("timeline.{}", action.id), reason, CURE);
            let given: Migration = serde_json::from_value(Value::Object(action.args.clone()))
                .map_err(|error| cannot(error.to_string()))?;
            given.check().map_err(cannot)?;
            for (link, direction) in &given.way {
                if network.bulk_line(link, direction).is_none() {
                    return Err(cannot(format!("there is no link '{link}'")));
                }
            }
            own.given.insert(place, given);
        }
        Ok(own)
    }

    /// An action has a guest move from now on.
    pub fn begin(&mut self, action: usize, guest: usize, network: &mut Network) {
        let Some(given) = self.given.get(&action).cloned() else { return };
        if !self.any() {
            let now_ns = network.now_ns;
            (self.looked_ns, self.sampled_ns) = (now_ns, now_ns);
            if !network.transfers().any() {
                network.see_bulk(true);
            }
        }
        let machine = Moving::new(given.guest, given.policy, 0.0);
        let begun_ns = network.now_ns;
        let one = Move {
            guest,
            given,
            machine,
            begun_ns,
            share: 0.0,
            written_bytes: network.servers.disks.written_bytes(guest, begun_ns),
            paid_bytes: 0.0,
            told_rounds: 0,
            paused: (0, 0.0),
            reached_ns: None,
            over: false,
        };
        self.all.insert(action, one);
    }

    fn open(&self) -> impl Iterator<Item = &Move> {
        self.all.values().filter(|one| !one.over)
    }

    /// Whether a guest is on its way.
    pub fn any(&self) -> bool {
        self.open().next().is_some()
    }

    /// Time passes, and copies with it; processors pay for what was sent.
    pub fn pass(&mut self, network: &mut Network) {
        let seconds = (network.now_ns - self.looked_ns) as f64 / SECOND_NS;
        self.looked_ns = network.now_ns;
        for one in self.all.values_mut().filter(|one| !one.over) {
            one.machine.pass(seconds, one.share);
            let written_bytes = network.servers.disks.written_bytes(one.guest, network.now_ns);
            one.machine.write_to_disk((written_bytes - one.written_bytes) as f64);
            one.written_bytes = written_bytes;
            match network.dirtied(one.guest) {
                Some((rate, working_set)) => one.machine.dirty(rate as f64, Some(working_set as f64)),
                None => one.machine.rest(),
            }
            let sent_bytes = one.machine.course().bytes + one.machine.course().disk_bytes;
            for (pool, byte_ns) in &one.given.work {
                network.servers.processors.charge(*pool, (sent_bytes - one.paid_bytes) * byte_ns);
            }
            one.paid_bytes = sent_bytes;
        }
    }

    /// Those that want to send, each by its action, and their connections.
    fn senders(&self, network: &Network) -> (Vec<(usize, &Move)>, Vec<Transfer>) {
        let wants = self.all.iter().filter(|(_, one)| !one.over && one.wants());
        let senders: Vec<(usize, &Move)> = wants.map(|(action, one)| (*action, one)).collect();
        let each = |one: &Move| std::iter::repeat_n(one.transfer(network), one.given.connections as usize);
        let transfers = senders.iter().flat_map(|(_, one)| each(one)).collect();
        (senders, transfers)
    }

    /// By action, what each has in bytes a second, of shares of the connections of all.
    fn by_action(senders: &[(usize, &Move)], shares: &[f64]) -> BTreeMap<usize, f64> {
        let mut connections = shares.iter();
        let of_each = senders.iter().map(|(action, one)| {
            let octets_per_s: f64 = connections.by_ref().take(one.given.connections as usize).sum();
            // What shares no line has its limit, to the bit.
            let alone = one.given.way.is_empty();
            let share = if alone { one.given.bandwidth_byte_per_s } else { octets_per_s * PAYLOAD_SHARE };
            (*action, share)
        });
        of_each.collect()
    }

    /// Each sends at its share from now on, beside what else is sent in bulk, and packets find the rest.
    pub fn share_out(&mut self, network: &mut Network) {
        let (senders, transfers) = self.senders(network);
        let of_each = Self::by_action(&senders, &network.share_out(&transfers));
        for (action, one) in &mut self.all {
            one.share = of_each.get(action).copied().unwrap_or(0.0);
        }
    }

    /// Samples what remains, where the time has come.
    pub fn sample(&mut self, now_ns: u64) {
        if now_ns < self.sampled_ns + SAMPLED_EVERY_NS {
            return;
        }
        self.sampled_ns = now_ns;
        for one in self.all.values().filter(|one| !one.over) {
            let throttled = one.given.policy.auto_converge && one.machine.throttled_percent() > 0;
            let throttle = f64::from(one.machine.throttled_percent()) / 100.0;
            let values = [
                ("migration_remaining", one.machine.remaining_bytes()),
                ("dirty_rate", one.machine.dirty_byte_per_s()),
                ("migration_throttle", throttle),
            ];
            for (metric, value) in values.into_iter().take(if throttled { 3 } else { 2 }) {
                self.samples.push((now_ns, one.given.entity.clone(), metric.to_owned(), value));
            }
        }
    }

    /// Plans the next look.
    pub fn plan(&mut self, network: &mut Network) {
        network.plan_bulk(SEEN_EVERY_NS);
        let now_ns = network.now_ns;
        let ends = self
            .open()
            .filter_map(|one| one.machine.next_s(one.share))
            .map(|left_s| now_ns.saturating_add(((left_s * SECOND_NS).ceil() as u64).max(1)));
        let reached = self.all.values().filter_map(|one| one.reached_ns);
        let looks = self.open().flat_map(|one| {
            let seen = (!one.given.way.is_empty()).then_some(network.transfers().seen_ns + SEEN_EVERY_NS);
            [Some(self.sampled_ns + SAMPLED_EVERY_NS), seen].into_iter().flatten()
        });
        let Some(next_ns) = ends.chain(reached).chain(looks).min() else { return };
        if self.planned_ns.is_none_or(|planned_ns| planned_ns <= now_ns || next_ns < planned_ns) {
            self.planned_ns = Some(next_ns);
            network.agenda.plan(next_ns, Due::Copy);
        }
    }

    /// All that was measured.
    pub fn table(&self) -> Option<Table> {
        Table::series("migration", &self.samples)
    }

    /// What happens by now, by action and in order.
    pub fn turns(&mut self, network: &Network) -> Vec<(usize, Turn)> {
        let now_ns = network.now_ns;
        let (senders, transfers) = self.senders(network);
        let found = network.transfers().shares(&transfers).transfers;
        let shares = Self::by_action(&senders, &found);
        let Self { all, samples, .. } = self;
        let open = all.iter_mut().filter(|(_, one)| !one.over);
        open.flat_map(|(action, one)| {
            let share = shares.get(action).copied().unwrap_or(0.0);
            one.turn(now_ns, share, samples).into_iter().map(|turn| (*action, turn))
        })
        .collect()
    }

    /// Notes what happens to one, with what is known of it by then.
    pub fn note(&mut self, action: usize, turn: Turn, now_ns: u64) -> Option<&Move> {
        let Self { all, samples, .. } = self;
        let one = all.get_mut(&action)?;
        let mut sample = |metric: &str, value: f64| {
            samples.push((now_ns, one.given.entity.clone(), metric.to_owned(), value));
        };
        match turn {
            Turn::Pauses => one.paused = (now_ns, one.machine.course().bytes),
            Turn::Resumes => {
                let again_ns = (one.given.guest.fixed.reconvergence_s * SECOND_NS).round() as u64;
                one.reached_ns = Some(now_ns.saturating_add(again_ns));
                let (since_ns, sent_bytes) = one.paused;
                sample("pause", (now_ns - since_ns) as f64);
                if one.given.policy.mode != Mode::Cold {
                    sample("migration_sent_paused", one.machine.course().bytes - sent_bytes);
                }
            }
            Turn::Over => {
                one.over = true;
                sample("migration_time", (now_ns - one.begun_ns) as f64);
                sample("migration_sent", one.machine.course().bytes);
                if one.given.guest.disk_bytes > 0.0 {
                    sample("migration_disk_sent", one.machine.course().disk_bytes);
                }
                sample("migration_rounds", one.readings());
            }
        }
        Some(one)
    }

    /// Guests whose processors are stopped for a part of the time, or were, each with how much of it, in percent.
    pub fn slowed(&self) -> BTreeMap<usize, u32> {
        let mut found = BTreeMap::new();
        for one in self.all.values().filter(|one| one.given.policy.auto_converge) {
            let percent = if one.over { 0 } else { one.machine.throttled_percent() };
            let known = found.entry(one.guest).or_insert(0);
            *known = percent.max(*known);
        }
        found
    }

    /// Those to which all tables lead from now on.
    pub fn reached(&mut self, now_ns: u64) -> Vec<&Move> {
        let come = |one: &&mut Move| one.reached_ns.is_some_and(|at_ns| at_ns <= now_ns);
        let found = self.all.values_mut().filter(come);
        found
            .map(|one| {
                one.reached_ns = None;
                &*one
            })
            .collect()
    }

    /// Gives one up; `None` where it is over.
    pub fn give_up(&mut self, action: usize) -> Option<&Move> {
        let one = self.all.get_mut(&action).filter(|one| !one.over)?;
        one.over = true;
        Some(one)
    }
}
