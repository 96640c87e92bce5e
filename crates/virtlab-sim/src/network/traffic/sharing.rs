//! Trains through the queue that guests share in front of a wire.
//!
//! Behind such a queue vNICs let frames go at the rate of a tap, and the frames of all guests wait together. When a
//! frame comes to it is known as soon as its vNIC queues it; when it starts there is known once all that come before it
//! are. So frames have no event where they join it: what has left the vNICs is merged, in the order of its instants,
//! before anybody looks at the queue or at the wire behind it.
//!
//! Of a train whose frames come at `r + k s`, for `k` = 0, 1, ..., frame `k` starts at `max(r + k s, f + k c)`: `c` is
//! what a frame costs the queue's bucket, and `f = max(free, r - burst)`. That follows from the bucket's rule, frame
//! after frame, where `s <= c`, because then `f + k c` never falls more than the burst behind. So a train becomes two
//! at the most: frames that start as they come, and frames that wait, one every `c`.

use crate::agenda::Planned;
use crate::network::edge::queue::Waiting;
use crate::network::frames::Outgoing;
use crate::network::whole::Network;
use virtlab_fabric::Train;

impl Network {
    /// The queue that guests share which a frame joins as it leaves its vNIC, where its way is certain.
    #[inline]
    pub(super) fn shared_on_its_way(&self, nic: usize, out: &Outgoing) -> Option<usize> {
        let socket = out.socket.filter(|socket| self.goes_certainly(*socket))?;
        let queue = self.sockets[socket].queue;
        (queue != nic).then_some(queue)
    }

    /// A frame joins a shared queue, or starts as it comes, or is refused; `came` is the instant, and as what that
    /// would have been planned. All that came before it has joined.
    pub(super) fn join(&mut self, shared: usize, out: &Outgoing, came: (u64, Planned)) {
        self.leave_shared(shared, came);
        let (came_ns, _) = came;
        let own = &mut self.edge.nics[shared];
        if !own.queue.has_place(1) {
            own.traffic.refused += 1;
            return;
        }
        let start_ns = match &mut own.bucket {
            Some(bucket) => {
                let cost_ns = bucket.cost_ns(out.bytes);
                bucket.start_ns(came_ns, cost_ns)
            }
            None => came_ns,
        };
        if start_ns == came_ns && own.queue.is_empty() {
            return self.pass_on(shared, out, came_ns);
        }
        self.queue(shared, Waiting::of_one(start_ns, *out), came_ns);
    }

    /// As [`Network::join`], of a train, which is amid its message; `came` of its first frame. False, and nothing has
    /// joined, where its frames do not fare as two trains.
    pub(super) fn join_train(
        &mut self,
        shared: usize,
        out: &Outgoing,
        train: Train,
        came: (u64, Planned),
    ) -> bool {
        self.leave_shared(shared, came);
        let own = &mut self.edge.nics[shared];
        let Some(bucket) = &mut own.bucket else { return false };
        let (cost, step) = (bucket.cost_ns(out.bytes), train.step.0 as i64);
        let free = bucket.first_ns(train.at.0);
        let at_once = match train.at.0 as i64 - free {
            _ if cost < step => return false,
            behind if behind < 0 => 0,
            _ if cost == step => train.count,
            behind => (behind / (cost - step) + 1).min(i64::from(train.count)) as u32,
        };
        let waiting = train.count - at_once;
        if !own.queue.has_place(waiting) || (at_once > 0 && !own.queue.is_empty()) {
            return false;
        }
        if let Some(bucket) = &mut own.bucket {
            bucket.take(free, i64::from(train.count) * cost);
        }
        if at_once > 0 {
            self.pass_train_on(shared, out, Train { count: at_once, ..train });
        }
        if waiting > 0 {
            let at_ns = (free + i64::from(at_once) * cost) as u64;
            let waiting = Waiting { at_ns, step_ns: cost as u64, count: waiting, out: *out };
            self.queue(shared, waiting, train.nth(at_once).0);
        }
        true
    }

    /// Frames that come at this instant join a shared queue.
    pub(super) fn join_at_once(&mut self, shared: usize, out: &Outgoing, train: Train) {
        let came = (train.at.0, (0, 0));
        if !self.join_train(shared, out, train, came) {
            (0..train.count).for_each(|_| self.join(shared, out, came));
        }
    }

    /// Passes on what has left a shared queue before something comes to it.
    fn leave_shared(&mut self, shared: usize, before: (u64, Planned)) {
        while let Some(&waiting) = self.edge.nics[shared].queue.front()
            && (waiting.at_ns, self.edge.nics[shared].queue.first_planned()) < before
            && self.is_certain(&waiting.out)
        {
            if !self.let_train_go(shared, &waiting, before.0) {
                self.let_go(shared, waiting.at_ns, &waiting.out);
            }
        }
    }
}
