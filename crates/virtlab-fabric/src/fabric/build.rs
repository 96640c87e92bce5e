//! From a layout to lines, tables, ways out and timers.

use super::bound::{self, Way};
use super::comings::Comings;
use super::forecast::Forecast;
use super::graph::{Course, Graph, LineEnds, NONE};
use super::machine::{Clock, Fabric, Wants};
use super::schedule::{Schedule, Timed};
use super::store::Store;
use super::switch::{Switch, SwitchCounters};
use super::table::Table;
use crate::layout::{End, Layout, LayoutError};
use crate::line::{Line, Queueing};
use std::collections::BTreeMap;
use virtlab_wire::Nanos;

impl<P: Clone> Fabric<P> {
    /// A fabric as the layout has it: FIFOs in closed form, other disciplines asked frame by frame.
    ///
    /// # Errors
    /// What [`Layout::check`] finds.
    pub fn new(layout: &Layout) -> Result<Self, LayoutError> {
        Self::with_queueing(layout, |queue| queue.queueing().expect("the layout was checked"))
    }

    /// A fabric whose queues `queueing` makes.
    ///
    /// # Errors
    /// What [`Layout::check`] finds.
    pub fn with_queueing(
        layout: &Layout,
        mut queueing: impl FnMut(&crate::QueueLayout) -> Queueing,
    ) -> Result<Self, LayoutError> {
        layout.check()?;
        let mut lines = Vec::new();
        let mut ends: Vec<LineEnds> = Vec::new();
        let mut steps = Vec::new();
        let mut queues = BTreeMap::new();
        let mut port_lines = vec![usize::MAX; layout.ports.len()];
        let mut outs: Vec<Vec<usize>> = vec![Vec::new(); layout.switches.len()];
        let processing: Vec<u64> = layout.switches.values().map(|switch| switch.processing_ns).collect();
        let mut named = BTreeMap::new();
        for (name, link) in &layout.links {
            let sides = [layout.end(name, &link.ends[0])?, layout.end(name, &link.ends[1])?];
            for (from, direction, queue) in [(0, "ab", &link.queue.ab), (1, "ba", &link.queue.ba)] {
                let at = lines.len();
                let far = sides[1 - from];
                match sides[from] {
                    End::Port(port) => port_lines[port] = at,
                    End::Switch(switch) => outs[switch].push(at),
                }
                named.insert(link.ends[from].as_str(), at);
                let delay = link.propagation_ns
                    + match far {
                        End::Port(_) => 0,
                        End::Switch(switch) => processing[switch],
                    };
                steps.push(bound::step(link.rate_bit_per_s, delay));
                let mut queueing = queueing(queue);
                if link.cuts {
                    queueing = queueing.by_frames();
                    queues.insert(at, queue.clone());
                }
                let asked = !matches!(queueing, Queueing::Fifo { .. });
                lines.push(Line::new(link.rate_bit_per_s, Nanos(delay), queueing));
                ends.push(LineEnds {
                    link: name.clone(),
                    direction,
                    far,
                    reverse: if from == 0 { at + 1 } else { at - 1 },
                    ways: Vec::new(),
                    asked,
                });
            }
        }
        let mut switches: Vec<Switch> = outs
            .into_iter()
            .zip(layout.switches.keys())
            .map(|(out, name)| Switch {
                name: name.clone(),
                table: Table::default(),
                out,
                counters: SwitchCounters::default(),
            })
            .collect();
        for (index, name) in layout.switches.keys().enumerate() {
            for (&mac, port) in layout.forwarding.get(name).into_iter().flatten() {
                switches[index].table.fix(mac, named[port.as_str()]);
            }
        }
        let mut known: Vec<Option<Vec<Way>>> = vec![None; lines.len()];
        for line in 0..lines.len() {
            ends[line].ways = ways_behind(line, &ends, &switches, &steps, &mut known);
        }
        let wants = Wants {
            flow: lines.iter().any(Line::wants_flow),
            ecn: lines.iter().any(Line::wants_ecn),
            headers: lines.iter().any(Line::wants_headers),
        };
        let ports = layout.ports.iter().cloned().collect();
        let mut fabric = Self {
            graph: Graph { ports, port_lines, ends, courses: Vec::new() },
            switches,
            schedule: Schedule::new(Vec::new()),
            store: Store::new(),
            comings: Comings::new(lines.len()),
            lines,
            forecast: Forecast::default(),
            clock: Clock::default(),
            wants,
            drops: Vec::new(),
            queues,
        };
        fabric.set_course();
        Ok(fabric)
    }

    /// Gives lines the timers that they need.
    pub(super) fn set_course(&mut self) {
        let foretells = self.forecast.on;
        self.comings = Comings::new(self.lines.len());
        let course = |ends: &LineEnds| Course {
            far: ends.far,
            reverse: ends.reverse,
            start: NONE,
            arrival: NONE,
            next: NONE,
            settled: None,
            closed: foretells && !ends.asked,
        };
        let queues = &self.queues;
        let Graph { ends, courses, .. } = &mut self.graph;
        *courses = ends.iter().map(course).collect();
        let mut timed = Vec::new();
        for (line, _) in ends.iter().enumerate().filter(|(_, ends)| ends.asked) {
            courses[line].start = timed.len();
            timed.push(Timed::Start(line));
        }
        for (line, ends) in ends.iter().enumerate() {
            if !(foretells && matches!(ends.far, End::Port(_))) || queues.contains_key(&line) {
                courses[line].arrival = timed.len();
                timed.push(Timed::Arrival(line));
            }
        }
        self.schedule = Schedule::new(timed);
        if foretells {
            self.chain();
        }
    }
}

/// The ways out from the far end of `line`, which never lead back over the same link. The graph has no loop, so this
/// ends.
fn ways_behind(
    line: usize,
    ends: &[LineEnds],
    switches: &[Switch],
    steps: &[Way],
    known: &mut Vec<Option<Vec<Way>>>,
) -> Vec<Way> {
    if let Some(ways) = &known[line] {
        return ways.clone();
    }
    let ways = match ends[line].far {
        End::Port(_) => vec![Way { fixed_ns: 0, ps_per_octet: 0 }],
        End::Switch(switch) => {
            let mut ways = Vec::new();
            for &out in &switches[switch].out {
                if out != ends[line].reverse {
                    ways.extend(ways_behind(out, ends, switches, steps, known).into_iter().map(|rest| Way {
                        fixed_ns: rest.fixed_ns + steps[out].fixed_ns,
                        ps_per_octet: rest.ps_per_octet + steps[out].ps_per_octet,
                    }));
                }
            }
            bound::best(ways)
        }
    };
    known[line] = Some(ways.clone());
    ways
}
