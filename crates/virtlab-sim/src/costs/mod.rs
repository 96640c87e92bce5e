//! What a platform profile adds to an ideal world: work that a processor does per packet, per byte and per message, and
//! delays drawn from small tables of quantiles.
//!
//! ```text
//! send call --send, first packet, qdisc--> vNIC --vNIC, bridge--> link ... link --soft switch, bridge--> vNIC --> kernel
//! kernel --wake-up (a draw), message--> process; a process that is awake still takes the next message at once
//! ```
//! Work of processes is served by as many processors as the machine has, first come, first served: so many guests at
//! once wait, that is contention. While every one of them is busy, a process that sleeps has to displace another one to
//! wake, and a crossing finds its caches taken: both have costs of their own (`Busy`). How long a frame takes through a
//! vNIC or a bridge is no bound of how many can go: frames follow each other, none overtakes. A flood is bounded by
//! what a call right after another costs, which carries its frame through warm caches as far as a queue, and by what
//! the soft switch does per frame, one after the other at a port. A guest with a quota of processor time does this work
//! only while it has some left (`bandwidth`). A virtual switch whose datapath keeps what its rules decided asks them
//! for the first frame of each entry (`upcalls`). Costs are whole nanoseconds (bytes: picoseconds), draws are
//! inverse-CDF from named streams. A world without a profile has none of this.

pub mod upcalls;

use crate::processors::{Bandwidth, InOrder, Quota};
use serde::Deserialize;
use upcalls::{RulesCost, Seen, Upcalls};
use virtlab_load::random::Stream;
use virtlab_wire::ethernet::wire_bytes;

/// Per packet and per byte.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// Cost of every packet.
    pub packet_ns: u64,
    /// Cost of every byte of it, in picoseconds.
    pub byte_ps: u64,
}

impl Cost {
    /// The cost of one frame.
    #[must_use]
    pub fn of(self, bytes: u32) -> u64 {
        self.packet_ns + u64::from(bytes) * self.byte_ps / 1000
    }
}

/// A distribution as quantiles, linear between them; none: always 0.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quantiles {
    /// Rising, from 0 to 1.
    pub probability: Vec<f64>,
    /// The quantile of each.
    pub ns: Vec<f64>,
}

impl Quantiles {
    /// The value below which a share `u` in [0, 1) lies.
    #[must_use]
    pub fn at(&self, u: f64) -> u64 {
        let above = self.probability.partition_point(|probability| *probability <= u);
        let (Some(low), Some(high)) = (self.ns.get(above.saturating_sub(1)), self.ns.get(above)) else {
            return self.ns.last().map_or(0, |last| last.round() as u64);
        };
        if above == 0 {
            return high.round() as u64;
        }
        let (left, right) = (self.probability[above - 1], self.probability[above]);
        (low + (high - low) * (u - left) / (right - left)).round() as u64
    }
}

/// Costs of a guest.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GuestCosts {
    /// A send call of a process.
    pub send_ns: u64,
    /// A call right after another, with all that it carries its frame through; none: as any other.
    #[serde(default)]
    pub again: Option<Cost>,
    /// What a process does with a message that has come.
    pub message_ns: u64,
    /// From a message's arrival until its blocked receiver runs.
    pub wakeup: Quantiles,
    /// Of a guest that forwards; absent: it costs nothing.
    #[serde(default)]
    pub forwarding: Option<Forwarding>,
    /// Its share of the processors; absent: as much as it needs.
    #[serde(default)]
    pub quota: Option<Quota>,
}

/// What forwarding costs a guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Forwarding {
    /// Cost of every frame.
    pub cost: Cost,
    /// Until it begins with a frame that comes while it sleeps.
    pub rouse_ns: u64,
    /// How long it has had nothing to do when it falls asleep.
    #[serde(default)]
    pub doze_ns: u64,
    /// Frames that may wait at it.
    pub backlog_packets: u32,
    /// The processor that it forwards on; absent: any that is free.
    #[serde(default)]
    pub processor: Option<usize>,
    /// Until that processor has a frame that comes while the guest has nothing to do.
    #[serde(default)]
    pub steer_ns: u64,
    /// Whether it is the guest's own processor that forwards, so that its quota is of that, too.
    #[serde(default)]
    pub own: bool,
}

/// Costs of a vNIC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VnicCosts {
    /// A crossing, either way.
    pub crossing: Cost,
    /// Its queue discipline, of every frame sent.
    pub qdisc: Cost,
    /// Whether segments of TCP cross it together, longer than its MTU.
    #[serde(default)]
    pub together: bool,
}

/// Costs of what realises links and physical switches.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FabricCosts {
    /// Of every frame that leaves it; inner hops are model time.
    pub departure: Cost,
    /// Time between two that leave at one port.
    #[serde(default)]
    pub frame: Cost,
    /// How late frames leave it.
    pub lateness: Quantiles,
    /// From a frame's arrival until it is noticed: one that has stayed shorter in model time leaves later by the rest.
    #[serde(default)]
    pub notice: Quantiles,
    /// How long a frame stays in model time at least, per byte with those of the wire, in picoseconds.
    #[serde(default)]
    pub stay_byte_ps: u64,
}

/// While every processor is busy.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Busy {
    /// From a message's arrival until its blocked receiver runs, instead of its guest's own; empty: as before.
    pub wakeup: Quantiles,
    /// How much longer a crossing of a vNIC takes.
    pub crossing_ns: u64,
}

/// All costs of a world, by the places of its guests, vNICs and virtual switches.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Given {
    /// Seed of the named streams.
    pub seed: u64,
    /// That processes share.
    pub processors: usize,
    /// The first packet of every flow, more than the others.
    pub first_packet_ns: u64,
    /// By guest.
    pub guests: Vec<GuestCosts>,
    /// By vNIC.
    pub vnics: Vec<VnicCosts>,
    /// By virtual switch.
    pub vswitches: Vec<Cost>,
    /// By virtual switch, what asking its rules costs; empty: nothing anywhere.
    #[serde(default, rename = "asking")]
    pub rules: Vec<Option<RulesCost>>,
    /// Links and physical switches.
    pub fabric: FabricCosts,
    /// While every processor is busy.
    #[serde(default)]
    pub busy: Busy,
}

/// Costs, and what is busy until when.
#[derive(Debug)]
pub struct Costs {
    given: Given,
    processors: InOrder,
    sent_ns: Vec<u64>,
    out_ns: Vec<u64>,
    in_ns: Vec<u64>,
    port_ns: Vec<u64>,
    port_busy_ns: Vec<u64>,
    late: Vec<Stream>,
    wake: Vec<Stream>,
    warm: Vec<bool>,
    kernel: Vec<bool>,
    awake_ns: Vec<u64>,
    upcalls: Upcalls,
}

impl Costs {
    /// At the beginning of time.
    #[must_use]
    pub fn new(given: Given, ports: usize, roles: usize) -> Self {
        let stream = |name: String| Stream::new(given.seed, &name);
        Self {
            processors: InOrder::new(
                given.processors,
                (given.guests.iter().enumerate())
                    .map(|(guest, own)| {
                        let phase = || stream(format!("profile.quota.{guest}")).uniform();
                        own.quota.map(|quota| Bandwidth::new(quota, phase()))
                    })
                    .collect(),
            ),
            sent_ns: vec![0; given.vnics.len()],
            out_ns: vec![0; given.vnics.len()],
            in_ns: vec![0; given.vnics.len()],
            port_ns: vec![0; ports],
            port_busy_ns: vec![0; ports],
            late: (0..ports).map(|port| stream(format!("profile.lateness.{port}"))).collect(),
            wake: (0..given.guests.len()).map(|guest| stream(format!("profile.wakeup.{guest}"))).collect(),
            warm: Vec::new(),
            kernel: Vec::new(),
            awake_ns: vec![0; 2 * roles],
            upcalls: Upcalls::new(&given.rules),
            given,
        }
    }

    /// The kernel itself sends from this socket: no call of a process.
    pub fn by_kernel(&mut self, socket: usize) {
        set(&mut self.kernel, socket);
    }

    /// When a message's first frame (or, below, a further one) stands at the vNIC's end.
    pub fn send(&mut self, now_ns: u64, guest: usize, nic: usize, bytes: u32, call_of: Option<usize>) -> u64 {
        let mut work_ns = self.given.vnics[nic].qdisc.of(bytes);
        let mut caller = None;
        if let Some(socket) = call_of {
            if set(&mut self.warm, socket) {
                work_ns += self.given.first_packet_ns;
            }
            if !self.kernel.get(socket).is_some_and(|by| *by) {
                let own = &self.given.guests[guest];
                caller = Some(guest);
                work_ns = match own.again {
                    Some(again) if now_ns > 0 && now_ns <= self.sent_ns[nic] => again.of(bytes),
                    _ => work_ns + own.send_ns,
                };
            }
        }
        let done = if call_of.is_some() {
            self.processors.work(caller, now_ns, now_ns, work_ns)
        } else {
            now_ns + work_ns
        };
        let sent = &mut self.sent_ns[nic];
        *sent = done.max(*sent);
        *sent
    }

    /// When the process behind a vNIC can make its next send call.
    #[must_use]
    pub fn sendable_ns(&self, nic: usize) -> u64 {
        self.sent_ns[nic]
    }

    /// What forwarding costs a guest, if anything.
    #[must_use]
    pub fn forwarding(&self, guest: usize) -> Option<Forwarding> {
        self.given.guests[guest].forwarding
    }

    /// Whether sending takes any time, so that a flood is bounded.
    #[must_use]
    pub fn bounds_a_flood(&self, guest: usize) -> bool {
        self.given.guests[guest].send_ns > 0 || self.given.guests[guest].again.is_some()
    }

    /// Whether a guest may forward a frame now, and is held to it; else when it may.
    pub fn may_forward(&mut self, now_ns: u64, guest: usize, work_ns: u64) -> Result<(), u64> {
        let own = self.given.guests[guest].forwarding.is_some_and(|forwarding| forwarding.own);
        if own { self.processors.may_run(now_ns, guest, work_ns) } else { Ok(()) }
    }

    /// Whether segments of TCP cross a vNIC together.
    #[must_use]
    pub fn takes_together(&self, nic: usize) -> bool {
        self.given.vnics[nic].together
    }

    /// How much longer a frame takes through a virtual switch whose rules have to be asked what to do with it.
    pub fn ask(&mut self, now_ns: u64, bridge: Option<usize>, seen: Seen) -> u64 {
        bridge.map_or(0, |place| self.upcalls.ask(now_ns, place, seen))
    }

    /// When a frame that leaves a vNIC now stands behind its bridge, or on its port; `asked_ns`: what asking that took.
    pub fn leave(
        &mut self,
        now_ns: u64,
        nic: usize,
        bridge: Option<usize>,
        bytes: u32,
        asked_ns: u64,
    ) -> u64 {
        let cost = self.crossing(now_ns, nic, bytes) + self.bridge(bridge, bytes) + asked_ns;
        follow(&mut self.out_ns[nic], now_ns + cost)
    }

    /// When a frame that the fabric lets go now stands behind the bridge of its port, or at its vNIC's far end.
    pub fn depart(
        &mut self,
        now_ns: u64,
        port: usize,
        bridge: Option<usize>,
        bytes: u32,
        asked_ns: u64,
    ) -> u64 {
        let draw = self.late[port].uniform();
        let stay_ns = u64::from(wire_bytes(bytes)) * self.given.fabric.stay_byte_ps / 1000;
        let unnoticed_ns = self.given.fabric.notice.at(draw).saturating_sub(stay_ns);
        let late_ns = self.given.fabric.lateness.at(draw).max(unnoticed_ns);
        let cost = self.given.fabric.departure.of(bytes) + self.bridge(bridge, bytes) + asked_ns;
        let frame_ns = self.given.fabric.frame.of(bytes);
        let begun_ns = serve(&mut self.port_busy_ns[port], now_ns, frame_ns) - frame_ns;
        follow(&mut self.port_ns[port], begun_ns + late_ns + cost)
    }

    /// When a frame that has come to a vNIC is in its guest's kernel.
    pub fn enter(&mut self, now_ns: u64, nic: usize, bytes: u32) -> u64 {
        let cost = self.crossing(now_ns, nic, bytes);
        follow(&mut self.in_ns[nic], now_ns + cost)
    }

    /// When the process of a role's side has a message that the kernel has now.
    pub fn hand_over(&mut self, now_ns: u64, guest: usize, role: usize, side: usize) -> u64 {
        let own = &self.given.guests[guest];
        let awake = self.awake_ns[2 * role + side];
        let table = match &self.given.busy.wakeup {
            busy if !busy.ns.is_empty() && self.processors.all_busy(now_ns) => busy,
            _ => &own.wakeup,
        };
        let (from, work_ns) = (now_ns + table.at(self.wake[guest].uniform()), own.message_ns);
        let end =
            self.processors.work(Some(guest), now_ns, if now_ns < awake { awake } else { from }, work_ns);
        self.awake_ns[2 * role + side] = end;
        end
    }

    fn crossing(&self, now_ns: u64, nic: usize, bytes: u32) -> u64 {
        let longer_ns = match self.given.busy.crossing_ns {
            0 => 0,
            longer_ns if self.processors.all_busy(now_ns) => longer_ns,
            _ => 0,
        };
        self.given.vnics[nic].crossing.of(bytes) + longer_ns
    }

    fn bridge(&self, bridge: Option<usize>, bytes: u32) -> u64 {
        bridge.map_or(0, |place| self.given.vswitches[place].of(bytes))
    }
}

/// Not before the one ahead.
fn follow(last_ns: &mut u64, at_ns: u64) -> u64 {
    *last_ns = at_ns.max(*last_ns);
    *last_ns
}

fn serve(free_ns: &mut u64, from_ns: u64, work_ns: u64) -> u64 {
    *free_ns = from_ns.max(*free_ns) + work_ns;
    *free_ns
}

/// Sets a place; whether it was not set before.
fn set(all: &mut Vec<bool>, place: usize) -> bool {
    if all.len() <= place {
        all.resize(place + 1, false);
    }
    !std::mem::replace(&mut all[place], true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given() -> Given {
        Given {
            processors: 1,
            first_packet_ns: 500,
            guests: vec![GuestCosts {
                send_ns: 100,
                again: None,
                message_ns: 30,
                wakeup: Quantiles { probability: vec![0.0, 1.0], ns: vec![40.0, 40.0] },
                ..GuestCosts::default()
            }],
            vnics: vec![VnicCosts {
                crossing: Cost { packet_ns: 10, byte_ps: 500 },
                qdisc: Cost { packet_ns: 7, byte_ps: 0 },
                ..VnicCosts::default()
            }],
            vswitches: vec![Cost { packet_ns: 3, byte_ps: 0 }],
            ..Given::default()
        }
    }

    #[test]
    fn quantiles_are_linear_between_and_flat_beyond() {
        let table = Quantiles { probability: vec![0.0, 0.5, 1.0], ns: vec![10.0, 20.0, 100.0] };
        assert_eq!([0.0, 0.25, 0.5, 0.75].map(|u| table.at(u)), [10, 15, 20, 60]);
        assert_eq!(Quantiles::default().at(0.3), 0);
    }

    #[test]
    fn the_first_packet_of_a_flow_costs_more_and_the_kernel_makes_no_call() {
        let mut costs = Costs::new(given(), 0, 1);
        assert_eq!(costs.send(1000, 0, 0, 64, Some(0)), 1607);
        assert_eq!(costs.send(5000, 0, 0, 64, Some(0)), 5107);
        costs.by_kernel(1);
        assert_eq!(costs.send(9000, 0, 0, 64, Some(1)), 9507);
        assert_eq!(costs.send(9500, 0, 0, 64, Some(1)), 9514);
    }

    #[test]
    fn frames_follow_each_other_and_none_overtakes() {
        let mut costs = Costs::new(given(), 1, 1);
        assert_eq!(costs.leave(0, 0, Some(0), 1000, 0), 513);
        assert_eq!(costs.leave(10, 0, Some(0), 10, 0), 513, "a short frame stays behind a long one");
        assert_eq!(costs.leave(600, 0, Some(0), 1000, 0), 1113);
        assert_eq!(costs.enter(2000, 0, 1000), 2510);
    }

    #[test]
    fn a_call_right_after_another_costs_its_own_and_bounds_a_flood() {
        let mut flooding = given();
        flooding.guests[0].again = Some(Cost { packet_ns: 20, byte_ps: 100 });
        let mut costs = Costs::new(flooding, 0, 1);
        assert_eq!(costs.send(1000, 0, 0, 1000, Some(0)), 1607, "the first, after a pause");
        assert_eq!(costs.send(1607, 0, 0, 1000, Some(0)), 1727);
        assert_eq!(costs.send(1727, 0, 0, 1000, Some(0)), 1847);
        assert_eq!(costs.send(5000, 0, 0, 1000, Some(0)), 5107, "after a pause again");
    }

    #[test]
    fn a_frame_that_is_over_before_it_is_noticed_leaves_late_by_the_rest() {
        let notice = Quantiles { probability: vec![0.0, 1.0], ns: vec![60_000.0, 60_000.0] };
        let fabric = FabricCosts { notice, stay_byte_ps: 160_000, ..FabricCosts::default() };
        let mut costs = Costs::new(Given { fabric, ..given() }, 1, 0);
        assert_eq!(costs.depart(0, 0, None, 114, 0), 60_000 - 138 * 160);
        assert_eq!(costs.depart(100_000, 0, None, 1514, 0), 100_000);
    }

    #[test]
    fn the_soft_switch_lets_frames_go_one_after_the_other() {
        let fabric = FabricCosts { frame: Cost { packet_ns: 50, byte_ps: 0 }, ..FabricCosts::default() };
        let mut costs = Costs::new(Given { fabric, ..given() }, 1, 0);
        assert_eq!([0, 0, 0, 1000].map(|at| costs.depart(at, 0, None, 64, 0)), [0, 50, 100, 1000]);
    }

    #[test]
    fn waking_and_crossing_take_longer_while_every_processor_is_busy() {
        let busy = Busy {
            wakeup: Quantiles { probability: vec![0.0, 1.0], ns: vec![900.0, 900.0] },
            crossing_ns: 5,
        };
        let mut costs = Costs::new(Given { busy, processors: 2, ..given() }, 0, 4);
        assert_eq!(costs.hand_over(1000, 0, 0, 1), 1070, "both are free");
        assert_eq!(costs.hand_over(1010, 0, 1, 1), 1080, "one is");
        assert_eq!(costs.hand_over(1020, 0, 2, 1), 1950, "none is until 1030 and 1040");
        assert_eq!(costs.enter(1025, 0, 0), 1040, "10 ns, and 5 more");
        assert_eq!(costs.hand_over(9000, 0, 3, 1), 9070, "all are free again");
        assert_eq!(costs.enter(9500, 0, 0), 9510);
    }

    #[test]
    fn a_guest_with_a_quota_works_in_its_share_of_each_period_and_its_kernel_is_not_held() {
        let mut held = given();
        held.guests[0].quota = Some(Quota { quota_ns: 200, period_ns: 10_000 });
        let mut costs = Costs::new(held, 0, 1);
        assert_eq!(
            costs.send(0, 0, 0, 64, Some(0)),
            607,
            "the first of its flow is beyond the quota at once"
        );
        let next = costs.send(700, 0, 0, 64, Some(0));
        assert!(next > 10_000, "three periods pay for it: {next}");
        assert_eq!(costs.processors.work(None, 20_000, 20_000, 50), 20_050);
        assert_eq!(
            costs.processors.work(None, 20_100, 20_100, 50),
            20_150,
            "who is throttled keeps no processor"
        );
        costs.by_kernel(1);
        assert_eq!(costs.send(next + 10, 0, 0, 64, Some(1)), next + 10 + 507);
    }

    #[test]
    fn what_a_throttled_guest_has_to_do_is_done_one_after_the_other_in_its_next_period() {
        let mut held = given();
        held.guests[0].quota = Some(Quota { quota_ns: 200, period_ns: 10_000 });
        let mut costs = Costs::new(held, 0, 1);
        costs.processors.work(Some(0), 0, 0, 200);
        let first = costs.processors.work(Some(0), 300, 300, 60);
        let begun = first - 60;
        assert!(begun > 300, "throttled until then: {begun}");
        assert_eq!(
            [400, 500].map(|at| costs.processors.work(Some(0), at, at, 60)),
            [begun + 120, begun + 180]
        );
        assert_eq!(
            costs.processors.work(Some(0), begun + 10, begun + 10, 5),
            begun + 185,
            "and what comes meanwhile"
        );
        assert_eq!(costs.processors.work(Some(0), begun + 1000, begun + 1000, 5), begun + 1005);
        let next = costs.processors.work(Some(0), begun + 2000, begun + 2000, 60);
        assert_eq!(
            costs.processors.work(Some(0), begun + 3000, begun + 3000, 7),
            begun + 10_007,
            "{next}: 245 ns are gone"
        );
    }

    #[test]
    fn a_process_that_is_awake_takes_the_next_message_without_waking() {
        let mut costs = Costs::new(given(), 0, 2);
        assert_eq!(costs.hand_over(1000, 0, 0, 1), 1070);
        assert_eq!(costs.hand_over(1010, 0, 0, 1), 1100, "behind the first, no second wake-up");
        // 90 ns of work since 1000 on one processor: work counts from when it was requested, not from the wake-up.
        assert_eq!(
            costs.hand_over(1010, 0, 1, 1),
            1090,
            "another process's work is done behind all before it"
        );
        assert_eq!(costs.hand_over(9000, 0, 0, 1), 9070);
    }
}
