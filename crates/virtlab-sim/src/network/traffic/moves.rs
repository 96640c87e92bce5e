//! A guest stands still, runs again at another host, and is reached there.
//!
//! While it stands still frames to it are lost, as at the tap of a machine that is paused, and what it would have sent
//! waits in its memory. From when it runs again its vNICs are at the other host's virtual switches; frames still go to
//! where it was, and are lost, until every table has been told. In a world where that can happen every frame has its
//! events.

use crate::input::{Migration, Station, Way};
use crate::network::edge::vnics::Presence;
use crate::network::frames::{Outgoing, Place};
use crate::network::whole::Network;
use virtlab_fabric::LineId;
use virtlab_wire::Nanos;

impl Network {
    /// A guest stands still, with what serves in it.
    pub fn freeze(&mut self, guest: usize) {
        for nic in self.edge.of_guest(guest) {
            self.edge.nics[nic].presence = Presence::Frozen;
        }
        self.guests.memory.stand(guest, true, self.now_ns);
        for server in self.servers.in_guest(guest) {
            self.servers.freeze(server, self.now_ns);
            self.look_at(server);
        }
    }

    /// A guest runs again: at its destination, or where it stood still.
    pub fn thaw(&mut self, guest: usize, there: Option<&Migration>) {
        let presence = if there.is_none() { Presence::Here } else { Presence::Unreached };
        for nic in self.edge.of_guest(guest) {
            self.edge.nics[nic].presence = presence;
        }
        self.guests.memory.stand(guest, false, self.now_ns);
        if let Some(given) = there {
            for &(nic, bridge) in &given.plugs {
                self.edge.bridges.plug(nic, self.edge.nics[nic].bridge, bridge);
                self.edge.nics[nic].bridge = Some(bridge);
            }
            if let Some(pool) = given.pool {
                self.servers.processors.arrive(guest, pool);
            }
            self.servers.disks.arrive(guest, given.host);
        }
        for server in self.servers.in_guest(guest) {
            self.servers.thaw(server, self.now_ns);
            self.look_at(server);
        }
        let (own, others) = std::mem::take(&mut self.edge.held)
            .into_iter()
            .partition(|(nic, _)| self.edge.nics[*nic].given.guest == guest);
        self.edge.held = others;
        let own: Vec<_> = own;
        for (nic, out) in own {
            self.transmit(nic, &out);
        }
    }

    /// Whether what would leave a vNIC vanishes or waits, because its guest is not there or stands still.
    #[cold]
    pub(super) fn keeps(&mut self, nic: usize, out: &Outgoing) -> bool {
        match self.edge.nics[nic].presence {
            Presence::Down => self.edge.nics[nic].traffic.vanished += 1,
            Presence::Frozen => self.edge.held.push((nic, *out)),
            Presence::Here | Presence::Unreached => return false,
        }
        true
    }

    /// Every table leads to where a guest is now.
    pub fn reach(&mut self, guest: usize, stations: &[Station]) {
        for station in stations {
            for (bridge, way) in &station.vswitches {
                if let Some(place) = self.place(way) {
                    self.edge.bridges.direct(*bridge, station.mac, place);
                }
            }
            for (link, direction) in &station.lines {
                if let Some(line) = self.wire.fabric.line(link, direction) {
                    self.wire.fabric.direct(station.mac, line, Nanos(self.now_ns));
                }
            }
            for &(bridging, nic) in &station.bridges {
                self.guests.hosts.direct(bridging, station.mac, nic);
            }
        }
        for nic in self.edge.of_guest(guest) {
            let presence = &mut self.edge.nics[nic].presence;
            if *presence == Presence::Unreached {
                *presence = Presence::Here; // else it stands still again already
            }
        }
    }

    fn place(&self, way: &Way) -> Option<Place> {
        match way {
            Way::Vnic(nic) => Some(Place::Nic(*nic)),
            Way::Port(name) => self.wire.fabric.port(name).map(Place::Port),
        }
    }

    /// A role writes to the memory of a guest from now on: so many bytes a second, to so many bytes.
    pub fn write_memory(&mut self, role: usize, guest: usize, asked: (u64, u64)) {
        self.guests.memory.write(role, guest, asked, self.now_ns);
    }

    /// A role writes to memory no longer: from when on it wrote how many bytes a second, of how many it was to.
    pub fn cease_memory(&mut self, role: usize) -> Vec<(u64, u64, u64)> {
        self.guests.memory.cease(role, self.now_ns)
    }

    /// The processors of a guest are stopped for a part of the time from now on, in percent, and it writes less.
    pub fn slow(&mut self, guest: usize, percent: u32) {
        self.guests.memory.slow(guest, percent, self.now_ns);
    }

    /// How fast roles dirty the memory of a guest, in bytes a second, and how much of it.
    pub fn dirtied(&self, guest: usize) -> Option<(u64, u64)> {
        self.guests.memory.dirtied(guest)
    }

    /// A direction of a link, by name.
    pub fn line(&self, link: &str, direction: &str) -> Option<LineId> {
        self.wire.fabric.line(link, direction)
    }

    /// Both directions of a link are cut from now on, or carry frames again.
    pub fn set_state(&mut self, link: &str, up: bool) {
        let now = Nanos(self.now_ns);
        self.advance_fabric();
        let lines = ["ab", "ba"].map(|way| self.wire.fabric.line(link, way));
        for line in lines.into_iter().flatten() {
            if up {
                self.wire.fabric.mend(line, now);
            } else {
                assert!(self.wire.fabric.cut(line, now), "a link that the timeline cuts is laid out so");
            }
        }
    }

    /// Packets find a line so fast from now on, and so do the queues in front of it that hold back their senders.
    pub fn set_rate(&mut self, line: LineId, rate_bit_per_s: u64) {
        self.wire.fabric.set_rate(line, rate_bit_per_s);
        for nic in &mut self.edge.nics {
            if nic.port.is_some_and(|at| self.wire.fabric.line_from(at) == Some(line)) {
                nic.go_at(rate_bit_per_s);
            }
        }
    }
}
