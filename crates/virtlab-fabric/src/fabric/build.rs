//! From a layout to lines, tables, ways out and timers.

use super::bound::{self, Way};
use super::table::Table;
use super::{Course, End, Fabric, LineEnds, NONE, Switch, SwitchCounters, Timed};
use crate::layout::{Layout, LayoutError};
use crate::line::{Line, Queueing};
use crate::timers::Timers;
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
        let mut port_lines = vec![usize::MAX; layout.ports.len()];
        let mut outs: Vec<Vec<usize>> = vec![Vec::new(); layout.switches.len()];
        let processing: Vec<u64> = layout.switches.values().map(|switch| switch.processing_ns).collect();
        let mut named = std::collections::BTreeMap::new();
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
                let queueing = queueing(queue);
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
        let wants_flow = lines.iter().any(Line::wants_flow);
        let wants_ecn = lines.iter().any(Line::wants_ecn);
        let wants_headers = lines.iter().any(Line::wants_headers);
        let mut fabric = Self {
            ports: layout.ports.iter().cloned().collect(),
            port_lines,
            switches,
            agenda: Timers::new(0),
            timed: Vec::new(),
            courses: Vec::new(),
            lines,
            ends,
            foretells: false,
            foretold: Vec::new(),
            comings: Vec::new(),
            still_coming: 0,
            met: Vec::new(),
            passing: Vec::new(),
            strays: false,
            present: Nanos::ZERO,
            held: Vec::new(),
            vacant: Vec::new(),
            drops: Vec::new(),
            played: Nanos::ZERO,
            late_arrivals: 0,
            wants_flow,
            wants_ecn,
            wants_headers,
        };
        fabric.set_course();
        Ok(fabric)
    }

    /// Gives lines the timers that they need.
    pub(super) fn set_course(&mut self) {
        self.comings = std::iter::repeat_with(Vec::new).take(self.ends.len()).collect();
        let course = |ends: &LineEnds| Course {
            far: ends.far,
            reverse: ends.reverse,
            start: NONE,
            arrival: NONE,
            next: NONE,
            settled: None,
            closed: self.foretells && !ends.asked,
        };
        self.courses = self.ends.iter().map(course).collect();
        self.timed.clear();
        for (line, _) in self.ends.iter().enumerate().filter(|(_, ends)| ends.asked) {
            self.courses[line].start = self.timed.len();
            self.timed.push(Timed::Start(line));
        }
        for (line, ends) in self.ends.iter().enumerate() {
            if !(self.foretells && matches!(ends.far, End::Port(_))) {
                self.courses[line].arrival = self.timed.len();
                self.timed.push(Timed::Arrival(line));
            }
        }
        self.agenda = Timers::new(self.timed.len());
        if self.foretells {
            self.chain();
        }
    }
}

/// The ways out from the far end of `line`, which never lead back over the same link. The graph has no loop, so this ends.
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
