//! What forwarding costs: frames wait at their guest, which forwards them one after the other on one of the
//! platform's processors.
//!
//! A guest that is pinned forwards on its own processor alone, which others may be pinned to as well; those that
//! are not take any that is free. A frame that comes to a pinned guest which has nothing to do has to wake that
//! processor, which takes so much longer. Where it is the guest's own processor that forwards, and the guest has a
//! quota of processor time, it waits for its next period once that is used up.
//!
//! A guest is one virtual processor, and as many guests forward at once as there are processors; those that wait
//! for one take turns, a frame each. So a single guest forwards at most `1 / cost`, and all of them `processors /
//! cost`. What finds the guest's backlog full is dropped. A guest that has had nothing to do for a while, or never
//! had, sleeps, and has to be roused by the next frame; a hypervisor that polls for so long before it halts a
//! processor does the same. Guests whose forwarding costs nothing forward at once.

use super::flights::Flight;
use crate::costs::{Costs, Forwarding};
use crate::input::Input;
use crate::network::frames::Outgoing;
use crate::processors::Turns;
use std::collections::VecDeque;

/// A frame that waits: through which vNIC it continues.
type Job = (usize, Outgoing);

#[derive(Default)]
struct Server {
    waiting: VecDeque<Job>,
    /// Being roused, waiting for a processor, or on one.
    awake: bool,
    /// Since when it has nothing to do.
    idle_ns: Option<u64>,
    /// The processor that it forwards on now.
    on: Option<usize>,
}

/// How a guest takes a frame that it is to forward.
pub enum Admission {
    /// There is no room for it.
    Refused,
    /// It waits, and the guest is busy already.
    Waits,
    /// It waits for its guest, which is ready after so long.
    Rouses(u64),
}

/// Guests that forward, and the processors that they share.
pub struct Service {
    servers: Vec<Server>,
    turns: Turns,
}

impl Service {
    pub fn new(input: &Input) -> Self {
        let processors = input.costs.as_ref().map_or(1, |costs| costs.processors.max(1));
        Self {
            servers: input.guests.iter().map(|_| Server::default()).collect(),
            turns: Turns::new(processors),
        }
    }

    /// A guest is to forward a frame.
    pub fn admit(&mut self, guest: usize, job: Job, given: &Forwarding, now_ns: u64) -> Admission {
        let server = &mut self.servers[guest];
        if server.waiting.len() >= given.backlog_packets as usize {
            return Admission::Refused;
        }
        server.waiting.push_back(job);
        if server.awake {
            return Admission::Waits;
        }
        server.awake = true;
        let asleep = server.idle_ns.is_none_or(|since| now_ns - since >= given.doze_ns);
        Admission::Rouses(given.steer_ns + if asleep { given.rouse_ns } else { 0 })
    }

    /// A guest is ready for its next frame.
    pub fn queue_up(&mut self, guest: usize) {
        self.turns.queue_up(guest);
    }

    /// The next guest that can forward, from a place in the queue of those that are ready; what that holds up, and
    /// until when.
    pub fn next_turn(&mut self, place: &mut usize, costs: &mut Costs, now_ns: u64) -> Option<(u64, Flight)> {
        let pinned = |costs: &Costs, guest| costs.forwarding(guest).and_then(|given| given.processor);
        while let Some((guest, processor)) = self.turns.next(place, |guest| pinned(costs, guest)) {
            let given = costs.forwarding(guest);
            let server = &mut self.servers[guest];
            let (Some(given), Some((_, next))) = (given, server.waiting.front()) else { continue };
            let work_ns = given.cost.of(next.bytes);
            if let Err(at_ns) = costs.may_forward(now_ns, guest, work_ns) {
                return Some((at_ns, Flight::Roused(guest)));
            }
            let Some((to, out)) = server.waiting.pop_front() else { continue };
            server.on = Some(processor);
            self.turns.take(processor);
            return Some((now_ns + work_ns, Flight::Forwarded(guest, to, out)));
        }
        None
    }

    /// A guest has forwarded a frame.
    pub fn done(&mut self, guest: usize, now_ns: u64) {
        let server = &mut self.servers[guest];
        if let Some(processor) = server.on.take() {
            self.turns.give_back(processor);
        }
        server.awake = !server.waiting.is_empty();
        server.idle_ns = Some(now_ns);
        if server.awake {
            self.turns.queue_up(guest);
        }
    }
}
