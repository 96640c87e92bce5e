//! Sockets, IP, vNICs, bridges and the fabric: how a message gets from one guest to another.
//!
//! A frame takes no time on its way to the bridge and through it: on the wire it is once, on the link. What a platform
//! costs is added by `costs`.

mod bridges;
mod congestion;
mod counters;
mod flights;
mod landing;
mod licence;
mod meetings;
mod noise;
mod outages;
mod paths;
mod resolution;
mod routers;
mod service;
mod sockets;
mod together;
mod trains;
mod vnics;

pub use landing::{Address, Landed};
pub use together::most_segments;

use crate::agenda::Agenda;
use crate::costs::Costs;
use crate::input::{Act, Finding, Input, On, Way};
use crate::ip::Reassembly;
use crate::ip::addresses::{Book, Number};
use bridges::{Bridge, Place};
use flights::Flight;
use landing::Landing;
use licence::Licence;
use meetings::MeetingWay;
use paths::Paths;
use resolution::Resolution;
use routers::Host;
use service::Service;
use sockets::Socket;
use std::collections::{BTreeMap, VecDeque};
use trains::{Certain, Trains};
use virtlab_fabric::{Departure, Fabric, Foretold, Mac, Train};
use virtlab_qdisc::Headers;
use virtlab_wire::Nanos;
use virtlab_wire::ethernet::{HEADER_BYTES, serialisation, wire_bytes};
use vnics::{BURST_FRAMES, Carried, Incoming, Nic, Traffic};

/// Everything between two sockets.
pub struct Network {
    /// Virtual time.
    pub now_ns: u64,
    /// What is planned.
    pub agenda: Agenda,
    /// Frames that stand at vNICs now.
    pub inbox: VecDeque<Incoming>,
    fabric: Fabric<Carried>,
    departures: Vec<Departure<Carried>>,
    /// By port, the addresses met last that are its guest's own, and the vNIC.
    met: Vec<Option<(Address, u32)>>,
    /// Departures that have become certain, while they are looked at.
    certain: Vec<Foretold>,
    landings: Vec<VecDeque<Landing>>,
    certain_ways: Vec<Certain>,
    meeting_ways: Vec<MeetingWay>,
    /// What is left of a train at its way's end, while that is looked at.
    trains_left: Vec<Train>,
    /// By port, vNICs in whose queues frames wait for it.
    feeders: Vec<Vec<usize>>,
    /// Whether every frame has its events, because one has come whose way is not known from the start.
    by_events: bool,
    /// Whether a guest is reset while the world is played: what a vNIC takes is not known before it comes.
    outages: bool,
    /// Ports whose landings have grown beyond a crowd.
    pub crowded: Vec<usize>,
    port_nics: Vec<Option<usize>>,
    port_bridges: Vec<Option<usize>>,
    nics: Vec<Nic>,
    hosts: Vec<Host>,
    bridges: Vec<Bridge>,
    /// By vNIC, whether its port of the virtual switch is isolated.
    isolated: Vec<bool>,
    service: Service,
    book: Book,
    neighbours: BTreeMap<Number, Mac>,
    resolution: Option<Box<Resolution>>,
    sockets: Vec<Socket>,
    packets: u64,
    /// Headers of what sockets send, by flow, and TOS by role: what match rules look at.
    headers: BTreeMap<u64, Headers>,
    tos: BTreeMap<usize, u8>,
    /// By role: 802.1p priority of its frames.
    priority: BTreeMap<usize, u8>,
    congestion: congestion::Congestion,
    together: together::Together,
    noise: noise::Noise,
    paths: Paths,
    /// When the message that a role takes came to its kernel.
    pub stamp_ns: u64,
    costs: Option<Box<Costs>>,
    flights: Vec<Option<Flight>>,
    landed: Vec<usize>,
    /// Guests of the roles' sides.
    sides: Vec<[usize; 2]>,
}
impl Network {
    /// The world's network. A finding when the fabric cannot be.
    pub fn new(input: &Input, uplinks: &BTreeMap<String, usize>) -> Result<Self, Finding> {
        let mut fabric: Fabric<Carried> =
            Fabric::new(&input.fabric).map_err(|error| Finding::new(error.path, error.what, error.cure))?;
        fabric.foretell();
        let port = |name: &str| {
            fabric
                .port(name)
                .ok_or_else(|| Finding::new("links", format!("'{name}' is in no link"), "give it a link"))
        };
        let mut port_nics = vec![None; fabric.ports().len()];
        let mut port_bridges = vec![None; fabric.ports().len()];
        for (name, bridge) in uplinks {
            port_bridges[port(name)?.0] = Some(*bridge);
        }
        let mut nics = Vec::new();
        for (index, vnic) in input.vnics.iter().enumerate() {
            let (bridge, at) = match &vnic.on {
                On::Vswitch(bridge) => (Some(*bridge), None),
                On::Port(name) => (None, Some(port(name)?)),
            };
            if let Some(at) = at {
                port_nics[at.0] = Some(index);
            }
            let burst = vnic.pushback_bit_per_s.map_or(Nanos::ZERO, |rate| {
                serialisation(BURST_FRAMES * wire_bytes(vnic.mtu_bytes + HEADER_BYTES), rate)
            });
            nics.push(Nic {
                given: vnic.clone(),
                bridge,
                port: at,
                free_ns: -(burst.0 as i64),
                burst_ns: burst.0 as i64,
                queue: VecDeque::new(),
                trains: Trains::default(),
                last_costs: [(u32::MAX, 0); 2],
                licence: vnic.licence.as_ref().map(Licence::new),
                down: false,
                traffic: Traffic::default(),
            });
        }
        let mut bridges = Vec::new();
        let mut isolated = vec![false; nics.len()];
        for vswitch in &input.vswitches {
            let place = |way: &Way| {
                Ok(match way {
                    Way::Vnic(nic) => Place::Nic(*nic),
                    Way::Port(name) => Place::Port(port(name)?),
                })
            };
            let ways =
                vswitch.ways.iter().map(|(mac, way)| Ok((*mac, place(way)?))).collect::<Result<_, _>>()?;
            let ports = vswitch.ports.iter().map(|plug| place(&plug.way)).collect::<Result<_, _>>()?;
            for plug in &vswitch.ports {
                if let Way::Vnic(nic) = plug.way {
                    isolated[nic] = plug.isolated;
                }
            }
            bridges.push(Bridge { ways, ports, learns: vswitch.learns, floods: vswitch.floods });
        }
        let ports = fabric.ports().len();
        let costs = input.costs.clone().map(|given| Box::new(Costs::new(given, ports, input.roles.len())));
        let mut book = Book::default();
        let outages = input.timeline.iter().any(|action| action.act == Act::Reset);
        Ok(Self {
            now_ns: 0,
            agenda: Agenda::default(),
            inbox: VecDeque::new(),
            fabric,
            departures: Vec::new(),
            met: vec![None; port_nics.len()],
            certain: Vec::new(),
            landings: vec![VecDeque::new(); port_nics.len()],
            certain_ways: Vec::new(),
            meeting_ways: Vec::new(),
            trains_left: Vec::new(),
            feeders: vec![Vec::new(); port_nics.len()],
            by_events: outages || input.noise.is_some(),
            outages,
            crowded: Vec::new(),
            port_nics,
            port_bridges,
            nics,
            hosts: input
                .guests
                .iter()
                .enumerate()
                .map(|(place, guest)| Host {
                    given: guest.clone(),
                    reassembly: Reassembly::default(),
                    own: guest.addresses.iter().map(|address| book.number(*address)).collect(),
                    bridging: input.bridging.iter().find(|each| each.guest == place).cloned(),
                })
                .collect(),
            bridges,
            isolated,
            service: Service::new(input),
            neighbours: input.neighbours.iter().map(|(address, mac)| (book.number(*address), *mac)).collect(),
            book,
            resolution: Resolution::new(input),
            sockets: Vec::new(),
            packets: 0,
            headers: BTreeMap::new(),
            tos: BTreeMap::new(),
            priority: BTreeMap::new(),
            congestion: congestion::Congestion::default(),
            together: together::Together::default(),
            noise: noise::Noise::default(),
            paths: Paths::new(input),
            stamp_ns: 0,
            costs,
            flights: Vec::new(),
            landed: Vec::new(),
            sides: input
                .roles
                .iter()
                .map(|role| {
                    // A role without traffic has a guest, maybe one without a vNIC.
                    [0, 1]
                        .map(|side: usize| input.vnics.get(role.ends[side].vnic).map_or(0, |vnic| vnic.guest))
                })
                .collect(),
        })
    }

    /// Largest IP packet of a vNIC.
    pub fn mtu_bytes(&self, nic: usize) -> u32 {
        self.nics[nic].given.mtu_bytes
    }

    /// Whether something bounds how fast a process can send through a vNIC: its pushback, or what sending costs.
    pub fn bounds_a_flood(&self, nic: usize) -> bool {
        let given = &self.nics[nic].given;
        given.pushback_bit_per_s.is_some()
            || self.costs.as_ref().is_some_and(|costs| costs.bounds_a_flood(given.guest))
    }
}
