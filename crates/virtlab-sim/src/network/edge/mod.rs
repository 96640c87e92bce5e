//! Where guests are plugged in: their vNICs, and the virtual switches between these and the fabric.

pub mod bridges;
pub mod licence;
pub mod queue;
pub mod uplinks;
pub mod vnics;

use crate::input::{Act, Finding, Input, On};
use crate::network::frames::{Outgoing, Place};
use bridges::Bridges;
use virtlab_fabric::{Mac, PortId};
use vnics::Nic;

/// All vNICs and virtual switches of a world.
pub struct Edge {
    pub nics: Vec<Nic>,
    pub bridges: Bridges,
    /// By port of the fabric, the place in `nics` of the queue that guests share in front of it.
    shared: Vec<Option<usize>>,
    /// Whether a guest is reset or moves while the world is played, or a line is cut or not always as fast: what a
    /// vNIC takes is not known before it comes.
    pub outages: bool,
    /// What guests that stand still would have sent, by vNIC.
    pub held: Vec<(usize, Outgoing)>,
    /// When the last frame leaves its host of those that were in the fabric before.
    pub last_early_ns: u64,
}

impl Edge {
    /// As the world has them; `port`: of the fabric, by its name.
    pub fn new(input: &Input, port: impl Fn(&str) -> Result<PortId, Finding>) -> Result<Self, Finding> {
        let mut nics = Vec::new();
        for vnic in &input.vnics {
            nics.push(match &vnic.on {
                On::Vswitch(bridge) => Nic::new(vnic, Some(*bridge), None),
                On::Port(name) => Nic::new(vnic, None, Some(port(name)?)),
            });
        }
        let bridges = Bridges::new(&input.vswitches, nics.len(), &port)?;
        let mut shared = Vec::new();
        for uplink in &input.uplinks {
            let at = port(&uplink.port)?;
            shared.resize(shared.len().max(at.0 + 1), None);
            shared[at.0] = Some(nics.len());
            nics.push(Nic::in_front_of(uplink, at));
        }
        let outages = input.timeline.iter().any(|action| {
            matches!(action.act, Act::Reset | Act::Migrate)
                || action.slows().is_some()
                || action.cuts().is_some()
        }) || input.stores.iter().any(|store| store.fluid.is_some());
        Ok(Self { nics, bridges, shared, outages, held: Vec::new(), last_early_ns: 0 })
    }

    /// vNICs of a guest.
    pub fn of_guest(&self, guest: usize) -> Vec<usize> {
        (0..self.nics.len()).filter(|nic| self.nics[*nic].given.guest == guest).collect()
    }

    /// Where frames from a vNIC to an address enter the fabric, whatever happens; `None` where they do not, or that may
    /// change.
    #[inline]
    pub fn entrance(&self, nic: usize, destination: Mac) -> Option<PortId> {
        let own = &self.nics[nic];
        match own.bridge {
            Some(bridge) => match self.bridges.fixed_way(bridge, destination)? {
                // A queue that is shared comes before it.
                Place::Port(at) => Some(at).filter(|at| self.shared(*at).is_none()),
                Place::Nic(_) => None,
            },
            None => own.port,
        }
    }

    /// As [`Edge::entrance`], also where a queue that guests share comes before it.
    pub fn exit(&self, nic: usize, destination: Mac) -> Option<PortId> {
        let own = &self.nics[nic];
        match own.bridge {
            Some(bridge) => match self.bridges.fixed_way(bridge, destination)? {
                Place::Port(at) => Some(at),
                Place::Nic(_) => None,
            },
            None => own.port,
        }
    }

    /// Where frames from a vNIC to a group enter the fabric, whatever happens, if they go nowhere else.
    pub fn exit_of_groups(&self, nic: usize) -> Option<PortId> {
        match self.nics[nic].bridge {
            Some(bridge) => self.bridges.only_way_out(bridge, nic).filter(|_| self.bridges.floods(bridge)),
            None => self.nics[nic].port,
        }
    }

    /// Whether whatever enters the fabric at a port comes through this vNIC.
    pub fn is_alone(&self, nic: usize, at: PortId) -> bool {
        match self.nics[nic].bridge {
            Some(bridge) => self.bridges.only_way_out(bridge, nic) == Some(at),
            None => self.nics[nic].port == Some(at),
        }
    }

    /// As [`Edge::entrance`], behind the queue that guests share there: the port, and that queue. Only of a vNIC whose
    /// frames are still their sender's in it, and come to it faster than it lets them go.
    pub fn shared_entrance(&self, nic: usize, destination: Mac) -> Option<(PortId, usize)> {
        let own = &self.nics[nic];
        let Place::Port(at) = self.bridges.fixed_way(own.bridge?, destination)? else { return None };
        let queue = self.shared(at)?;
        let rate = |place: usize| self.nics[place].given.pushback_bit_per_s;
        let faster = rate(nic).is_none() || rate(nic) > rate(queue);
        (own.given.held && faster).then_some((at, queue))
    }
}
