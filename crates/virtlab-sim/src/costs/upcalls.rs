//! Open vSwitch's datapath keeps what its rules decided, in entries; a frame that meets none goes up to the rules
//! first.
//!
//! An entry holds for as many frames as the rules looked alike at: for all that go to one address, or, where rules
//! look at addresses and ports, for one flow. The port at which a frame comes and its EtherType are matched
//! whatever the rules look at (`xlate_wc_init`). Frames that follow wait behind the one that asks, as no frame
//! overtakes in a datapath with one thread per port. An entry unused for 10 s is forgotten
//! (`other_config:max-idle`, 10,000 ms). Source: Pfaff et al., The Design and Implementation of Open vSwitch, NSDI
//! 2015, sections 4 to 6; `ofproto/ofproto-dpif-xlate.c`. Deviation: a fragment shares the entry of a whole packet,
//! which `nw_frag` tells apart.

use serde::Deserialize;
use std::collections::BTreeMap;
use virtlab_fabric::Mac;

/// How long an unused entry is kept.
const IDLE_NS: u64 = 10_000_000_000;

/// What a virtual switch does for a frame without an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RulesCost {
    /// How much longer that frame takes.
    pub upcall_ns: u64,
    /// Whether each flow has an entry of its own.
    pub own: bool,
}

/// What a datapath sees of a frame.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    /// The port at which it comes, one number for each of a world.
    pub port: usize,
    /// What its header says of the rest.
    pub ether_type: u16,
    /// To whom it goes.
    pub destination: Mac,
    /// Hash of its addresses and ports.
    pub flow: u64,
}

/// Switch, port, EtherType, and flow or address.
type Entry = (usize, usize, u16, u64);

/// The entries of all virtual switches.
#[derive(Debug, Default)]
pub struct Upcalls {
    rules: Vec<Option<RulesCost>>,
    /// When each was used last.
    used_ns: BTreeMap<Entry, u64>,
    /// When unused ones were dropped last.
    dropped_ns: u64,
}

impl Upcalls {
    /// Without any entry.
    #[must_use]
    pub fn new(rules: &[Option<RulesCost>]) -> Self {
        Self { rules: rules.to_vec(), ..Self::default() }
    }

    /// How much longer a frame takes through a switch, whose entry is there afterwards.
    pub fn ask(&mut self, now_ns: u64, place: usize, seen: Seen) -> u64 {
        let Some(Some(rules)) = self.rules.get(place).copied() else { return 0 };
        self.drop_idle(now_ns);
        let [a, b, c, d, e, f] = seen.destination.0;
        let name = if rules.own { seen.flow } else { u64::from_be_bytes([0, 0, a, b, c, d, e, f]) };
        match self.used_ns.insert((place, seen.port, seen.ether_type, name), now_ns) {
            Some(used_ns) if now_ns.saturating_sub(used_ns) < IDLE_NS => 0,
            _ => rules.upcall_ns,
        }
    }

    /// Drops unused entries now and then.
    fn drop_idle(&mut self, now_ns: u64) {
        if now_ns.saturating_sub(self.dropped_ns) >= IDLE_NS {
            self.dropped_ns = now_ns;
            self.used_ns.retain(|_, used_ns| now_ns.saturating_sub(*used_ns) < IDLE_NS);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: Mac = Mac([2, 0, 0, 0, 0, 1]);
    const B: Mac = Mac([2, 0, 0, 0, 0, 2]);

    fn seen(flow: u64, destination: Mac) -> Seen {
        Seen { port: 0, ether_type: 0x0800, destination, flow }
    }

    fn added_ns(own: bool, frames: &[(u64, u64, Mac)]) -> Vec<u64> {
        let mut upcalls = Upcalls::new(&[None, Some(RulesCost { upcall_ns: 70, own })]);
        frames.iter().map(|(now_ns, flow, to)| upcalls.ask(*now_ns, 1, seen(*flow, *to))).collect()
    }

    #[test]
    fn the_first_frame_to_an_address_asks_where_entries_are_shared() {
        assert_eq!(added_ns(false, &[(0, 1, A), (1, 2, A), (2, 1, B), (3, 9, A)]), [70, 0, 70, 0]);
    }

    #[test]
    fn the_first_frame_of_a_flow_asks_where_each_has_its_own() {
        assert_eq!(added_ns(true, &[(0, 1, A), (1, 2, A), (2, 1, A), (3, 2, A)]), [70, 70, 0, 0]);
    }

    #[test]
    fn ports_and_ether_types_have_entries_of_their_own() {
        let mut upcalls = Upcalls::new(&[Some(RulesCost { upcall_ns: 70, own: false })]);
        let whole = seen(1, A);
        let frames = [
            whole,
            Seen { port: 1, ..whole },
            Seen { ether_type: 0x86dd, ..whole },
            whole,
            Seen { port: 1, ..whole },
        ];
        assert_eq!(frames.map(|frame| upcalls.ask(0, 0, frame)), [70, 70, 70, 0, 0]);
    }

    #[test]
    fn an_entry_that_nobody_uses_is_forgotten() {
        assert_eq!(added_ns(true, &[(0, 1, A), (IDLE_NS - 1, 1, A), (2 * IDLE_NS - 2, 1, A)]), [70, 0, 0]);
        assert_eq!(added_ns(true, &[(0, 1, A), (IDLE_NS, 1, A)]), [70, 70]);
    }

    #[test]
    fn what_is_forgotten_takes_no_memory() {
        let mut upcalls = Upcalls::new(&[Some(RulesCost { upcall_ns: 70, own: true })]);
        for flow in 0..1000 {
            upcalls.ask(flow, 0, seen(flow, A));
        }
        upcalls.ask(IDLE_NS + 500, 0, seen(999, A));
        assert_eq!(upcalls.used_ns.len(), 499, "those used after 500 ns");
    }

    #[test]
    fn a_switch_without_entries_is_never_asked() {
        assert_eq!(Upcalls::new(&[None]).ask(0, 0, seen(1, A)), 0);
        assert_eq!(Upcalls::default().ask(0, 3, seen(1, A)), 0);
    }
}
