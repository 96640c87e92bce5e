//! The timeline has guests move to other hosts.

use super::World;
use crate::moves::Turn;
use crate::transfers::SEEN_EVERY_NS;
use virtlab_migration::Mode;

impl World {
    /// An action has a guest move.
    pub(super) fn begin_to_move(&mut self, action: usize) {
        let guest = self.input.timeline[action].guest.unwrap_or(0);
        self.under_way.moves.pass(&mut self.network);
        self.under_way.moves.begin(action, guest, &mut self.network);
        self.go_on_moving();
    }

    /// An action gives its guest's move up: the guest runs on where it is.
    pub(super) fn stop_moving(&mut self, action: usize) {
        self.under_way.moves.pass(&mut self.network);
        let Some(one) = self.under_way.moves.give_up(action) else { return };
        if one.is_paused() {
            self.network.thaw(one.guest, None);
        }
        self.go_on_moving();
    }

    /// A link has another rate from now on, for frames and for copies.
    pub(super) fn set_rate(&mut self, link: &str, rate_bit_per_s: u64) {
        self.under_way.moves.pass(&mut self.network);
        for line in
            ["ab", "ba"].into_iter().filter_map(|way| self.network.line(link, way)).collect::<Vec<_>>()
        {
            self.network.set_rate(line, rate_bit_per_s);
        }
        self.network.set_rate_of_bulk(link, rate_bit_per_s);
        let now_ns = self.network.now_ns;
        self.network.post().set_rate(now_ns, link, rate_bit_per_s);
        if self.under_way.moves.any() || self.network.transfers().any() {
            self.go_on_sending();
        }
    }

    /// Bulk transfers change, with those of guests that move.
    pub(super) fn go_on_sending(&mut self) {
        if self.under_way.moves.any() {
            self.go_on_moving();
        } else {
            self.network.go_on_sending();
        }
    }

    /// Lets happen what has by now, and looks when something else will.
    pub(super) fn go_on_moving(&mut self) {
        let now_ns = self.network.now_ns;
        self.under_way.moves.pass(&mut self.network);
        self.network.turn_bulk();
        if now_ns - self.network.transfers().seen_ns >= SEEN_EVERY_NS {
            self.network.see_bulk(false);
        }
        for (action, turn) in self.under_way.moves.turns(&self.network) {
            self.turn(action, turn);
        }
        for (guest, percent) in self.under_way.moves.slowed() {
            self.network.slow(guest, percent);
        }
        let moves = &mut self.under_way.moves;
        for one in moves.reached(now_ns) {
            self.network.reach(one.guest, &one.given.stations);
        }
        moves.sample(now_ns);
        moves.share_out(&mut self.network);
        moves.plan(&mut self.network);
    }

    fn turn(&mut self, action: usize, turn: Turn) {
        let now_ns = self.network.now_ns;
        let Some(one) = self.under_way.moves.note(action, turn, now_ns) else { return };
        let (guest, cold) = (one.guest, one.given.policy.mode == Mode::Cold);
        let id = self.input.timeline[action].id.clone();
        match turn {
            Turn::Pauses => {
                self.happened.push((now_ns, format!("{id}.paused")));
                if cold {
                    self.shut_down(guest);
                }
                self.network.freeze(guest);
            }
            Turn::Resumes => {
                self.happened.push((now_ns, format!("{id}.resumed")));
                self.network.thaw(guest, Some(&one.given));
                if cold {
                    self.boot(guest);
                }
            }
            Turn::Over => self.note(&format!("{id}.finished")),
        }
    }

    /// Nothing in a guest outlives that it is switched off.
    fn shut_down(&mut self, guest: usize) {
        for server in self.network.servers.in_guest(guest) {
            self.network.servers.fail(server, self.network.now_ns);
            self.network.look_at(server);
            for role in &mut self.roles {
                role.workload.server_failed(server, &mut self.network);
            }
        }
    }

    /// What served in a guest serves again, but what had failed before.
    fn boot(&mut self, guest: usize) {
        for server in self.network.servers.in_guest(guest) {
            let failed = self
                .network
                .servers
                .service_of(server)
                .is_some_and(|service| self.under_way.failed.contains(&(service.to_owned(), guest)));
            if !failed {
                self.network.servers.heal(server, self.network.now_ns);
                self.network.look_at(server);
            }
        }
    }
}
