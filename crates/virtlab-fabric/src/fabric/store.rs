//! Frames inside, each in a slot, by which queues and cables name it.

use crate::Frame;
use virtlab_qdisc::Packet;
use virtlab_wire::Nanos;

/// A frame inside.
pub(crate) struct Held<P> {
    pub(crate) frame: Frame<P>,
    pub(crate) arrived: Nanos,
}

/// All frames inside.
pub(crate) struct Store<P> {
    held: Vec<Option<Held<P>>>,
    vacant: Vec<usize>,
}

impl<P> Store<P> {
    pub(crate) fn new() -> Self {
        Self { held: Vec::new(), vacant: Vec::new() }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.held.len() - self.vacant.len()
    }

    /// Holds a frame; as what queues know it.
    #[inline]
    pub(crate) fn hold(&mut self, held: Held<P>) -> Packet {
        let (bytes, flow, ecn) = (held.frame.bytes, held.frame.flow, held.frame.ecn);
        let slot = match self.vacant.pop() {
            Some(slot) => {
                self.held[slot] = Some(held);
                slot
            }
            None => {
                self.held.push(Some(held));
                self.held.len() - 1
            }
        };
        Packet { id: slot as u64, bytes, flow, class: 0, ecn }
    }

    /// The frame of a packet.
    #[inline]
    pub(crate) fn frame(&self, packet: &Packet) -> &Frame<P> {
        self.frame_in(packet.id as usize)
    }

    /// The frame in a slot.
    #[inline]
    pub(crate) fn frame_in(&self, slot: usize) -> &Frame<P> {
        &self.held[slot].as_ref().expect("a frame is held until it is released").frame
    }

    /// Takes the frame of a packet out.
    #[inline]
    pub(crate) fn release(&mut self, packet: &Packet) -> Held<P> {
        self.release_slot(packet.id as usize)
    }

    /// Takes the frame in a slot out.
    #[inline]
    pub(crate) fn release_slot(&mut self, slot: usize) -> Held<P> {
        self.vacant.push(slot);
        self.held[slot].take().expect("a packet is released once")
    }

    /// Lets the frame in a slot go.
    #[inline]
    pub(crate) fn forget(&mut self, slot: usize) {
        self.held[slot] = None;
        self.vacant.push(slot);
    }
}
