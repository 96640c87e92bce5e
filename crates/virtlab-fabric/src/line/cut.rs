//! A line whose link is cut: what waits and what is on the wire is lost, and so is whatever comes until it is whole.
//!
//! Only a line whose discipline is asked frame by frame can be cut, because a FIFO in closed form has sent its frames
//! into the cable before they start. The queue begins afresh, as a kernel's does.

use super::{Line, Queueing};
use virtlab_qdisc::{DropReason, Dropped, Packet};
use virtlab_wire::Nanos;

/// Whether the link is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    /// It is cut at present.
    down: bool,
    /// When it was whole again: what had come before is lost, however late it is known here.
    since: Nanos,
}

impl State {
    pub(crate) const UP: Self = Self { down: false, since: Nanos::ZERO };

    /// Whether a frame that comes at an instant is lost.
    pub(crate) fn is_down_at(self, now: Nanos) -> bool {
        self.down || now < self.since
    }
}

impl Line {
    /// The link is cut: everything inside is lost. `fresh` is the queue as it is from then on. Nothing is done where it
    /// is cut already.
    pub(crate) fn cut(&mut self, now: Nanos, fresh: Queueing, drops: &mut Vec<Dropped>) {
        if self.link.down {
            return;
        }
        self.run(now, drops);
        self.link.down = true;
        while let Some(delivery) = self.deliver() {
            self.counters.packets -= 1;
            self.counters.bytes -= u64::from(delivery.packet.bytes);
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
        if self.link.down {
            self.link = State { down: false, since: now };
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
