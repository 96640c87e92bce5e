//! What changes while a fabric is played: where a station is, how fast a line is for frames, and whether it is cut.
//!
//! Neither may be known ahead: its owner offers every frame as it comes then, and asks for no way through the
//! fabric.

use super::graph::{Course, NONE, PortId};
use super::machine::Fabric;
use crate::Mac;
use virtlab_wire::Nanos;

/// One direction of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LineId(usize);

impl<P: Clone> Fabric<P> {
    /// A direction of a link, `ab` or `ba`, by name.
    #[must_use]
    pub fn line(&self, link: &str, direction: &str) -> Option<LineId> {
        let named = |ends: &super::graph::LineEnds| ends.link == link && ends.direction == direction;
        self.graph.ends.iter().position(named).map(LineId)
    }

    /// Where frames that enter the fabric at a port begin: the line of that port.
    #[must_use]
    pub fn line_from(&self, port: PortId) -> Option<LineId> {
        self.graph.port_lines.get(port.0).copied().filter(|line| *line < self.lines.len()).map(LineId)
    }

    /// A rate in bit/s at which frames that start from now on are sent.
    pub fn set_rate(&mut self, line: LineId, rate_bit_per_s: u64) {
        self.lines[line.0].set_rate(rate_bit_per_s);
    }

    /// A line is cut from `now` on: what waits and what is on the wire is lost and counted, and so is what comes. False
    /// where the layout does not say that it may be.
    #[must_use]
    pub fn cut(&mut self, line: LineId, now: Nanos) -> bool {
        let Some(queue) = self.queues.get(&line.0) else { return false };
        let fresh = queue.queueing().expect("the layout was checked").by_frames();
        self.lines[line.0].cut(now, fresh, &mut self.drops);
        while let Some(dropped) = self.drops.pop() {
            self.store.release(&dropped.packet);
        }
        let Course { start, arrival, .. } = self.graph.courses[line.0];
        for timer in [start, arrival].into_iter().filter(|timer| *timer != NONE) {
            self.schedule.clear(timer);
        }
        true
    }

    /// A line carries frames again that come from `now` on.
    pub fn mend(&mut self, line: LineId, now: Nanos) {
        self.lines[line.0].mend(now);
    }

    /// At which rate in bit/s a line sends frames that start now, and its propagation.
    #[must_use]
    pub fn speed(&self, line: LineId) -> (u64, Nanos) {
        self.lines[line.0].speed()
    }

    /// A line has carried so many frames of so many bytes beside those that it was offered.
    pub fn count_beside(&mut self, line: LineId, frames: u64, bytes: u64, busy: Nanos) {
        self.lines[line.0].count_beside(frames, bytes, busy);
    }

    /// Octets of frames, preamble, check sequence and gap included, that have come to a line until `now`, dropped ones
    /// too.
    #[must_use]
    pub fn offered_octets(&self, line: LineId) -> u64 {
        self.lines[line.0].offered_octets()
    }

    /// A station is from `now` on where a line of a switch leads; false where no switch sends into that line.
    pub fn direct(&mut self, mac: Mac, line: LineId, now: Nanos) -> bool {
        let Some(switch) = self.switches.iter_mut().find(|each| each.out.contains(&line.0)) else {
            return false;
        };
        if switch.table.fixed(mac).is_some() {
            switch.table.fix(mac, line.0);
        } else {
            switch.table.learn(mac, line.0, now);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Departure, Frame, Layout};

    const STATION: Mac = Mac([2, 0, 0, 0, 0, 9]);

    fn layout(fixed: bool) -> Layout {
        let link = |port: &str, at: &str| {
            format!(r#""{port}": {{"ends": ["{port}.up", "s1.{at}"], "rate_bit_per_s": 100000000}}"#)
        };
        let links = [link("a", "p1"), link("b", "p2"), link("c", "p3")].join(", ");
        let forwarding = if fixed { r#"{"s1": {"02:00:00:00:00:09": "s1.p2"}}"# } else { "{}" };
        let text = format!(
            r#"{{"ports": ["a.up", "b.up", "c.up"], "switches": {{"s1": {{"processing_ns": 0}}}},
                "links": {{{links}}}, "forwarding": {forwarding}}}"#
        );
        serde_json::from_str(&text).expect("a layout")
    }

    fn frame() -> Frame<u8> {
        Frame {
            bytes: 1514,
            source: Mac([2, 0, 0, 0, 0, 1]),
            destination: STATION,
            flow: 0,
            ecn: virtlab_qdisc::Ecn::NotCapable,
            headers: None,
            payload: 0,
        }
    }

    /// Where and when a frame leaves that comes to `a.up` at an instant.
    fn sent(fabric: &mut Fabric<u8>, at: u64) -> Vec<(String, u64)> {
        let mut left: Vec<Departure<u8>> = Vec::new();
        let port = fabric.port("a.up").unwrap();
        fabric.arrive(port, frame(), Nanos(at));
        while let Some(next) = fabric.next_event() {
            fabric.advance(next, &mut left);
        }
        left.iter().map(|one| (fabric.ports()[one.port.0].clone(), one.at.0 - at)).collect()
    }

    #[test]
    fn a_station_is_found_where_it_was_directed_to() {
        let mut fabric = Fabric::new(&layout(true)).unwrap();
        let both = 2 * 122_080;
        assert_eq!(sent(&mut fabric, 0), [("b.up".to_owned(), both)]);
        let line = fabric.line("c", "ba").unwrap();
        assert!(fabric.direct(STATION, line, Nanos(1_000_000)));
        assert_eq!(sent(&mut fabric, 1_000_000), [("c.up".to_owned(), both)]);
        let mut fabric = Fabric::new(&layout(false)).unwrap();
        assert_eq!(sent(&mut fabric, 0).len(), 2, "it was never seen");
        assert!(fabric.direct(STATION, line, Nanos(1_000_000)));
        assert_eq!(sent(&mut fabric, 1_000_000), [("c.up".to_owned(), both)]);
        assert!(!fabric.direct(STATION, fabric.line("c", "ab").unwrap(), Nanos(0)), "no switch sends there");
    }

    /// Two switches in a row, whose middle link is cut; what was lost there, and when frames left that came.
    fn cut_between(foretells: bool, frames: u64) -> (u64, u64, Vec<u64>) {
        let text = r#"{"ports": ["a.up", "b.up"], "switches": {"s1": {}, "s2": {}},
            "links": {"a": {"ends": ["a.up", "s1.p1"], "rate_bit_per_s": 1000000000},
                      "m": {"ends": ["s1.p2", "s2.p1"], "rate_bit_per_s": 100000000, "cuts": true},
                      "b": {"ends": ["s2.p2", "b.up"], "rate_bit_per_s": 1000000000}},
            "forwarding": {"s1": {"02:00:00:00:00:09": "s1.p2", "02:00:00:00:00:01": "s1.p1"},
                           "s2": {"02:00:00:00:00:09": "s2.p2", "02:00:00:00:00:01": "s2.p1"}}}"#;
        let mut fabric = Fabric::new(&serde_json::from_str::<Layout>(text).unwrap()).unwrap();
        if foretells {
            fabric.foretell();
        }
        let (port, line) = (fabric.port("a.up").unwrap(), fabric.line("m", "ab").unwrap());
        let mut left = Vec::new();
        let mut told = Vec::new();
        for number in 0..frames {
            fabric.arrive(port, frame(), Nanos(number));
        }
        fabric.advance(Nanos(300_000), &mut left);
        assert!(fabric.cut(line, Nanos(300_000)));
        assert!(fabric.cut(line, Nanos(310_000)), "once more changes nothing");
        fabric.arrive(port, frame(), Nanos(400_000));
        fabric.advance(Nanos(600_000), &mut left);
        fabric.mend(line, Nanos(600_000));
        fabric.mend(line, Nanos(700_000));
        fabric.arrive(port, frame(), Nanos(650_000));
        fabric.advance(Nanos(10_000_000), &mut left);
        assert_eq!((fabric.next_event(), fabric.inside()), (None, if foretells { 3 } else { 0 }));
        fabric.foretold(&mut told);
        let counters =
            fabric.lines(Nanos(10_000_000)).find(|each| each.link == "m").unwrap().counters.clone();
        assert_eq!(counters.drops, counters.drops_by_reason[6]);
        assert_eq!(counters.packets + counters.drops, frames + 2);
        let times = left.iter().map(|one| one.at.0).chain(told.iter().map(|one| one.at.0)).collect();
        (counters.packets, counters.drops, times)
    }

    #[test]
    fn a_cut_link_loses_what_waits_what_is_on_it_and_what_comes_and_carries_what_comes_later() {
        let (fast, slow) = (12_208, 122_080);
        let times = [fast + slow + fast, fast + slow + fast + 123_040, 650_000 + fast + slow + fast];
        for foretells in [false, true] {
            // Of twenty that came at once two were over before 300 us, the third was on the wire.
            assert_eq!(cut_between(foretells, 20), (3, 19, times.to_vec()));
        }
    }

    #[test]
    fn a_link_whose_layout_does_not_say_so_is_not_cut() {
        let mut fabric = Fabric::new(&layout(true)).unwrap();
        let line = fabric.line("a", "ab").unwrap();
        assert!(!fabric.cut(line, Nanos(0)));
        assert_eq!(sent(&mut fabric, 0).len(), 1);
    }

    #[test]
    fn frames_that_start_later_have_the_new_rate() {
        let mut fabric = Fabric::new(&layout(true)).unwrap();
        let line = fabric.line_from(fabric.port("a.up").unwrap()).unwrap();
        assert_eq!(fabric.line("a", "ab"), Some(line));
        fabric.set_rate(line, 25_000_000);
        assert_eq!(sent(&mut fabric, 0)[0].1, 5 * 122_080);
        assert_eq!(fabric.offered_octets(line), 1538);
        fabric.set_rate(line, 100_000_000);
        assert_eq!(sent(&mut fabric, 10_000_000)[0].1, 2 * 122_080);
    }
}
