//! The links of a client's connections: one is opened, replaced by another, and broken.
//!
//! A link ends where its server has failed, and is refused by a server that has. The request on it is broken, or asked
//! again, and its connection rests, as on the testbed; the next request that enters there begins another link.

use super::{Attempt, Link, RequestResponse};
use crate::network::Network;
use crate::servers::UNSERVED;
use std::cmp::Reverse;
use virtlab_load::parameters::request_response::Ending;

/// For how long a connection rests whose link was broken.
const REST_NS: u64 = 20_000_000;

impl RequestResponse {
    /// Begins a new link of a connection to an entry.
    pub(super) fn dial(&mut self, seat: usize, entry: usize, network: &mut Network) -> usize {
        let new = self.link(seat, entry, network).expect("both ends had a link before");
        self.seats[seat].links[entry] = new;
        self.links[new].flow.connect(network);
        new
    }

    /// A new link instead of one whose request was given up, as what may still come on that would be taken for the
    /// answer to another; its connection is free once it is open.
    pub(super) fn replace(&mut self, seat: usize, entry: usize, network: &mut Network) {
        let old = self.seats[seat].links[entry];
        self.links[old].left = true;
        let new = self.dial(seat, entry, network);
        self.seats[seat].opening = Some(new);
    }

    /// A link is there: the request that waits for it leaves, or its connection is free.
    pub(super) fn is_open(&mut self, place: usize, network: &mut Network) {
        let Link { seat, entry, .. } = self.links[place];
        let waits = self.seats[seat].attempt.is_some_and(|attempt| attempt.wanted.entry == entry);
        let opens = self.seats[seat].opening.take_if(|opening| *opening == place).is_some();
        if waits && self.seats[seat].links[entry] == place {
            self.write(place, network);
        } else if opens {
            self.is_free(seat, network.now_ns);
        }
    }

    /// A link is over, with the request on it.
    pub(super) fn broke(&mut self, place: usize, network: &Network) {
        let Link { seat, entry, .. } = self.links[place];
        self.links[place].left = true;
        let opens = self.seats[seat].opening.take_if(|opening| *opening == place).is_some();
        let now_ns = network.now_ns;
        let on_it = |attempt: &mut Attempt| attempt.wanted.entry == entry;
        let Some(attempt) = self.seats[seat].attempt.take_if(on_it) else {
            if opens {
                self.is_free(seat, now_ns);
            }
            return;
        };
        let rested_ns = now_ns.saturating_add(REST_NS);
        let until_ns = if let Some(at_ns) = self.next_try(attempt) {
            self.counted.retries += 1;
            self.client.retrying += 1;
            self.seats[seat].again = Some(Attempt { left: attempt.left - 1, ..attempt });
            at_ns.max(rested_ns)
        } else {
            self.end(attempt.wanted, attempt.sent_ns, now_ns, Ending::Broken, UNSERVED);
            rested_ns
        };
        self.client.thinking.push(Reverse((until_ns, seat)));
    }
}
