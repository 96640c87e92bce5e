//! A line whose link is cut: what waits and what is on the wire is lost, and so is whatever comes until it is whole.
//!
//! Only a line whose discipline is asked frame by frame can be cut, because a FIFO in closed form has sent its frames
//! into the cable before they start. The queue begins afresh, as a kernel's does.

use super::state::State;
use super::{Line, Queueing};
use virtlab_qdisc::{DropReason, Dropped, Packet};
use virtlab_wire::Nanos;

impl Line {
    /// The link is cut: everything inside is lost. `fresh` is the queue as it is from then on. Nothing is done where it
    /// is cut already.
    pub(crate) fn cut(&mut self, now: Nanos, fresh: Queueing, drops: &mut Vec<Dropped>) {
        if self.link == State::DOWN {
            return;
        }
        self.run(now, drops);
        self.link = State::DOWN;
        while let Some(delivery) = self.deliver() {
            self.counters.packets = self.counters.packets.saturating_sub(1); // where counts began in between
            let bytes = u64::from(delivery.packet.bytes);
            self.counters.bytes = self.counters.bytes.saturating_sub(bytes);
            self.lose(delivery.packet, drops);
        }
        let (Queueing::Discipline(qdisc) | Queueing::Classes { qdisc, .. }) = &mut self.queueing else {
            unreachable!("a line that can be cut is asked frame by frame")
        };
        let mut held = Vec::new();
        let mut at = self.transmitter.busy_until.max(self.transmitter.clock);
        while let Some(next) = qdisc.next_event(at) {
            at = at.max(next);
            if let Some(packet) = qdisc.dequeue(at, &mut held) {
                held.push(Dropped { packet, reason: DropReason::LinkDown });
            }
        }
        for Dropped { packet, .. } in held {
            self.classes.drop(&packet);
            self.lose(packet, drops);
        }
        self.queueing = fresh;
        self.transmitter.busy_until = self.transmitter.clock;
    }

    /// The link is whole again, for frames that come from now on. Nothing is done where it is.
    pub(crate) fn mend(&mut self, now: Nanos) {
        if self.link == State::DOWN {
            self.link = State::up_since(now);
        }
    }

    /// A frame comes while the link is cut.
    pub(super) fn refuse(&mut self, packet: Packet, drops: &mut Vec<Dropped>) {
        self.classes.refuse(&packet);
        self.lose(packet, drops);
    }

    fn lose(&mut self, packet: Packet, drops: &mut Vec<Dropped>) {
        self.counters.note_drop(packet.bytes, DropReason::LinkDown);
        drops.push(Dropped { packet, reason: DropReason::LinkDown });
    }
}
