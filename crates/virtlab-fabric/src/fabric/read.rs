//! What a fabric's lines and switches have seen, for reports.

use super::machine::Fabric;
use super::switch::SwitchCounters;
use crate::{ClassCounters, LineCounters};
use virtlab_qdisc::{Backlog, DropReason};
use virtlab_wire::Nanos;

/// One direction of a link, for reports.
#[derive(Debug)]
pub struct LineView<'a> {
    /// The link.
    pub link: &'a str,
    /// `ab` or `ba`.
    pub direction: &'static str,
    /// What it has seen.
    pub counters: &'a LineCounters,
    /// Half of the frames had waited no longer, within an eighth.
    pub residence_p50_ns: u64,
    /// 99 % of the frames had waited no longer, within an eighth.
    pub residence_p99_ns: u64,
    /// Frames lost because the link was cut; of one that may be.
    pub cut_drops: Option<u64>,
    /// What waits now.
    pub backlog: Backlog,
    /// Its classes by name, where the queue has some.
    pub classes: Vec<(&'a str, ClassCounters)>,
}

impl<P: Clone> Fabric<P> {
    /// All directions of links.
    pub fn lines(&self, now: Nanos) -> impl Iterator<Item = LineView<'_>> {
        let lines = self.lines.iter().zip(&self.graph.ends).enumerate();
        lines.map(move |(number, (line, ends))| LineView {
            link: &ends.link,
            direction: ends.direction,
            counters: &line.counters,
            residence_p50_ns: line.residence_quantile_ns(0.5),
            residence_p99_ns: line.residence_quantile_ns(0.99),
            cut_drops: self
                .queues
                .contains_key(&number)
                .then(|| line.counters.dropped_as(DropReason::LinkDown)),
            backlog: line.backlog(now),
            classes: line.class_counters().collect(),
        })
    }

    /// All switches.
    pub fn switches(&self) -> impl Iterator<Item = (&str, &SwitchCounters)> {
        self.switches.iter().map(|switch| (switch.name.as_str(), &switch.counters))
    }

    /// Counters begin again at zero; frames inside and learned addresses stay.
    pub fn reset_counters(&mut self) {
        for line in &mut self.lines {
            line.reset_counters();
        }
        for switch in &mut self.switches {
            switch.counters = SwitchCounters::default();
        }
        self.clock.late_arrivals = 0;
    }
}
