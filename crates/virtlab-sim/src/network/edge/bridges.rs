//! Virtual switches: which way a frame goes; what lies there is a vNIC or a port of the fabric.
//!
//! Who is where is in its table from the start. Where it learns, a source address moves to the port at which it is
//! seen, as in Linux an entry that is not fixed does. A frame to an unknown address leaves through every port but its
//! own, where the switch floods. Two isolated ports exchange no frame, known or flooded.

use crate::input::{Finding, Vswitch, Way};
use crate::network::frames::Place;
use std::collections::BTreeMap;
use virtlab_fabric::{Mac, PortId};

struct Bridge {
    places: BTreeMap<Mac, Place>,
    ports: Vec<Place>,
    learns: bool,
    floods: bool,
}

/// All virtual switches.
pub struct Bridges {
    all: Vec<Bridge>,
    /// By vNIC, whether its port of the virtual switch is isolated.
    isolated: Vec<bool>,
}

/// Where a frame continues.
pub enum Exits {
    /// Nowhere.
    None,
    /// To one place.
    One(Place),
    /// To each of these.
    Flood(Vec<Place>),
}

impl Bridges {
    /// The switches of a world of so many vNICs.
    pub fn new(
        vswitches: &[Vswitch],
        nics: usize,
        port: impl Fn(&str) -> Result<PortId, Finding>,
    ) -> Result<Self, Finding> {
        let mut own = Self { all: Vec::new(), isolated: vec![false; nics] };
        for vswitch in vswitches {
            let place = |way: &Way| {
                Ok(match way {
                    Way::Vnic(nic) => Place::Nic(*nic),
                    Way::Port(name) => Place::Port(port(name)?),
                })
            };
            let places =
                vswitch.ways.iter().map(|(mac, way)| Ok((*mac, place(way)?))).collect::<Result<_, _>>()?;
            let ports = vswitch.ports.iter().map(|plug| place(&plug.way)).collect::<Result<_, _>>()?;
            for plug in &vswitch.ports {
                if let Way::Vnic(nic) = plug.way {
                    own.isolated[nic] = plug.isolated;
                }
            }
            own.all.push(Bridge { places, ports, learns: vswitch.learns, floods: vswitch.floods });
        }
        Ok(own)
    }

    /// Where a frame continues that comes from one of a switch's ports, which may learn its source.
    pub fn exits(&mut self, bridge: usize, from: Place, source: Mac, destination: Mac) -> Exits {
        let Self { all, isolated } = self;
        let own = &mut all[bridge];
        if own.learns && !source.is_group() {
            own.places.insert(source, from);
        }
        match own.places.get(&destination).copied() {
            Some(to) if joined(isolated, from, to) => Exits::One(to),
            None if own.floods => {
                Exits::Flood(own.ports.iter().copied().filter(|to| joined(isolated, from, *to)).collect())
            }
            Some(_) | None => Exits::None,
        }
    }

    /// Which way frames to an address go, whatever happens; `None` where it is unknown, or may change.
    #[inline]
    pub fn fixed_way(&self, bridge: usize, destination: Mac) -> Option<Place> {
        let own = &self.all[bridge];
        if own.learns { None } else { own.places.get(&destination).copied() }
    }

    /// The vNIC to which alone a switch floods what comes from a port of the fabric, where it learns nothing from that.
    pub fn only_listener(&self, bridge: usize, from: PortId) -> Option<usize> {
        let own = &self.all[bridge];
        match own.ports[..] {
            [Place::Nic(nic), Place::Port(port)] | [Place::Port(port), Place::Nic(nic)]
                if port == from && own.floods && !own.learns =>
            {
                Some(nic)
            }
            _ => None,
        }
    }

    /// The port of the fabric to which alone a switch leads what comes from a vNIC, where that is all it has.
    pub fn only_way_out(&self, bridge: usize, from: usize) -> Option<PortId> {
        match self.all[bridge].ports[..] {
            [Place::Nic(nic), Place::Port(port)] | [Place::Port(port), Place::Nic(nic)] if nic == from => {
                Some(port)
            }
            _ => None,
        }
    }

    /// Whether a switch sends what is for a group to all, and learns nothing.
    pub fn floods(&self, bridge: usize) -> bool {
        self.all[bridge].floods && !self.all[bridge].learns
    }

    /// All ports of a switch.
    pub fn ports(&self, bridge: usize) -> &[Place] {
        &self.all[bridge].ports
    }

    /// A vNIC is plugged into another switch.
    pub fn plug(&mut self, nic: usize, from: Option<usize>, to: usize) {
        if let Some(from) = from {
            self.all[from].ports.retain(|place| *place != Place::Nic(nic));
        }
        self.all[to].ports.push(Place::Nic(nic));
    }

    /// From now on frames to an address leave a switch that way.
    pub fn direct(&mut self, bridge: usize, mac: Mac, to: Place) {
        self.all[bridge].places.insert(mac, to);
    }

    /// What switches had learnt at some vNICs is lost.
    pub fn forget(&mut self, nics: &[usize]) {
        for bridge in self.all.iter_mut().filter(|bridge| bridge.learns) {
            bridge.places.retain(|_, place| !matches!(place, Place::Nic(nic) if nics.contains(nic)));
        }
    }
}

/// Whether a switch passes frames from one of its ports to another.
fn joined(isolated: &[bool], from: Place, to: Place) -> bool {
    let held = |place| matches!(place, Place::Nic(nic) if isolated[nic]);
    from != to && !(held(from) && held(to))
}
