//! Counters of vNICs and of link directions, as the testbed names them.

use crate::network::edge::vnics::{Nic, Traffic};
use crate::network::whole::Network;
use crate::network::wire::ports::Stage;
use crate::samples::readings::{ENDED, Readings};
use virtlab_fabric::PortId;
use virtlab_wire::Nanos;

impl Network {
    /// Counters of the requested groups.
    pub fn read(&mut self, groups: &[String], mark: &str, readings: &mut Readings) {
        let later = self.later_now();
        let at_wires = later.iter().filter(|(_, stage)| *stage == Stage::Wire);
        let at_wires: Vec<PortId> = at_wires.map(|(at, _)| *at).collect();
        self.wire.fabric.settle_counters_but(Nanos(self.now_ns), &at_wires);
        self.count_post();
        let wanted = |group: &str| groups.iter().any(|each| each == group);
        if wanted("vnics") {
            for nic in self.edge.nics.iter().filter(|nic| !nic.is_shared()) {
                let Traffic {
                    received_packets,
                    received_bytes,
                    sent_packets,
                    sent_bytes,
                    strangers,
                    overflows,
                    unresolved,
                    missed,
                    vanished,
                    refused: _,
                } = nic.traffic;
                readings.note(
                    self.now_ns,
                    mark,
                    &nic.given.name,
                    &[
                        ("received_packets", received_packets),
                        ("received_bytes", received_bytes),
                        ("rx_dropped", strangers + overflows + missed),
                        ("sent_packets", sent_packets),
                        ("sent_bytes", sent_bytes),
                        (
                            "tx_dropped",
                            unresolved + vanished + nic.licence.as_ref().map_or(0, |licence| licence.drops()),
                        ),
                    ],
                );
            }
        }
        if wanted("disks") {
            for (name, counters) in self.servers.disks.counters(self.now_ns) {
                readings.note(self.now_ns, mark, name, &counters);
            }
        }
        if wanted("links") {
            for nic in self.edge.nics.iter().filter(|nic| mark == ENDED && !nic.is_shared()) {
                let waiting = u64::from(nic.queue.waiting(self.now_ns));
                readings.note(self.now_ns, mark, &nic.given.name, &[("backlog_packets", waiting)]);
            }
            for Nic { given, traffic, queue, port, .. } in self.edge.nics.iter().filter(|nic| nic.is_shared())
            {
                let comes_later = port.is_some_and(|at| later.contains(&(at, Stage::Shared)));
                let waiting = queue.waiting(self.now_ns - u64::from(comes_later));
                readings.note(
                    self.now_ns,
                    mark,
                    &given.name,
                    &[
                        ("packets", traffic.sent_packets),
                        ("bytes", traffic.sent_bytes),
                        ("drops", traffic.refused),
                        ("backlog_packets", u64::from(waiting)),
                    ],
                );
            }
            for line in self.wire.fabric.lines(Nanos(self.now_ns)) {
                let entity = format!("links.{}.{}", line.link, line.direction);
                readings.note(
                    self.now_ns,
                    mark,
                    &entity,
                    &[
                        ("packets", line.counters.packets),
                        ("bytes", line.counters.bytes),
                        ("drops", line.counters.drops),
                        ("backlog_packets", line.backlog.packets),
                        ("backlog_max_packets", line.counters.backlog_max_packets),
                        ("busy_ns", line.counters.busy_ns),
                        ("marked_packets", line.counters.marked_packets),
                        ("residence_ns", line.counters.residence_ns),
                        ("residence_max_ns", line.counters.residence_max_ns),
                        ("residence_p50_ns", line.residence_p50_ns),
                        ("residence_p99_ns", line.residence_p99_ns),
                    ],
                );
                if let Some(drops) = line.cut_drops {
                    readings.note(self.now_ns, mark, &entity, &[("link_down_drops", drops)]);
                }
                for (name, class) in &line.classes {
                    readings.note(
                        self.now_ns,
                        mark,
                        &format!("{entity}.{name}"),
                        &[
                            ("packets", class.packets),
                            ("bytes", class.bytes),
                            ("drops", class.drops),
                            ("marked_packets", class.marked_packets),
                            ("backlog_packets", class.backlog_packets),
                            ("backlog_bytes", class.backlog_bytes),
                            ("backlog_max_packets", class.backlog_max_packets),
                            ("residence_ns", class.residence_ns),
                            ("residence_max_ns", class.residence_max_ns),
                            ("residence_p50_ns", class.residence_p50_ns),
                            ("residence_p99_ns", class.residence_p99_ns),
                        ],
                    );
                }
            }
        }
    }
}
