//! Guests: their addresses and routes, and what their kernels know and say.

pub mod hosts;
pub mod memory;
pub mod neighbours;
pub mod noise;
pub mod paths;

use crate::input::Input;
use hosts::Hosts;
use memory::Memory;
use neighbours::Neighbours;
use noise::Noise;
use paths::Paths;
use virtlab_fabric::PortId;

/// All guests of a world.
pub struct Guests {
    pub hosts: Hosts,
    pub paths: Paths,
    /// Absent where guests know each other's hardware addresses from the start.
    pub neighbours: Option<Box<Neighbours>>,
    pub noise: Noise,
    pub memory: Memory,
}

impl Guests {
    /// Guests before the beginning; `port`: of the fabric, by its name.
    pub fn new(input: &Input, port: impl Fn(&str) -> Option<PortId>) -> Self {
        Self {
            hosts: Hosts::new(input),
            paths: Paths::new(input),
            neighbours: Neighbours::new(input),
            noise: Noise::new(input, port),
            memory: Memory::default(),
        }
    }
}
