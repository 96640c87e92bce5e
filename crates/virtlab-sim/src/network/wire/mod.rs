//! The wire: physical switches and links, their ports, and what is known of paths through them.

pub mod paths;
pub mod ports;

use crate::input::{Finding, Input, Way};
use crate::network::edge::Edge;
use crate::network::frames::Carried;
use crate::post::Post;
use crate::transfers::Transfers;
use paths::Paths;
use ports::Ports;
use virtlab_fabric::{Fabric, Foretold, PortId};

/// Everything between vNICs or virtual switches of different hosts.
pub struct Wire {
    pub fabric: Fabric<Carried>,
    pub ports: Ports,
    pub paths: Paths,
    /// What crosses links in bulk.
    pub transfers: Transfers,
    /// What crosses them without packets.
    pub post: Post,
    /// Departures that have become certain, while they are looked at.
    pub certain: Vec<Foretold>,
}

impl Wire {
    /// Before the beginning. A finding when the fabric cannot be.
    pub fn new(input: &Input) -> Result<Self, Finding> {
        let mut fabric: Fabric<Carried> =
            Fabric::new(&input.fabric).map_err(|error| Finding::new(error.path, error.what, error.cure))?;
        fabric.foretell();
        let mut own = Self {
            ports: Ports::new(fabric.ports().len()),
            fabric,
            paths: Paths::default(),
            transfers: Transfers::default(),
            post: Post::default(),
            certain: Vec::new(),
        };
        for (bridge, vswitch) in input.vswitches.iter().enumerate() {
            for plug in &vswitch.ports {
                if let Way::Port(name) = &plug.way {
                    let at = own.port(name)?;
                    own.ports.all[at.0].bridge = Some(bridge);
                }
            }
        }
        Ok(own)
    }

    /// A port by its name. A finding where no link has it.
    pub fn port(&self, name: &str) -> Result<PortId, Finding> {
        self.fabric
            .port(name)
            .ok_or_else(|| Finding::new("links", format!("'{name}' is in no link"), "give it a link"))
    }

    /// Plugs in vNICs; `by_events`: every frame has its events from the start.
    pub fn plug(&mut self, edge: &Edge, by_events: bool) {
        for (place, nic) in edge.nics.iter().enumerate() {
            if let Some(at) = nic.port.filter(|_| !nic.is_shared()) {
                self.ports.all[at.0].nic = Some(place);
            }
        }
        self.paths = Paths::new(by_events);
    }
}
