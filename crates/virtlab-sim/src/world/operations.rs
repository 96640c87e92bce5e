//! Servers that the timeline has fail and serve again, which takes no time, nodes of stores that fail, and actions that
//! wait until all of some serve, until a store has recovered, or until so much has come to a role.
//!
//! A wait looks every so often, so it is over at the first of its looks at which they serve. No look before that is
//! played. What has come to a role changes with every answer, and a store with every copy, so there each look is.

use super::{Playing, World};
use crate::input::Operation;
use crate::workloads::store;

impl World {
    /// Servers fail, or serve again, or both in this order.
    pub(super) fn operate(&mut self, operation: Option<&Operation>) {
        let Some(operation) = operation else { return };
        if let Some(place) = self.network.servers.stores.of_service(&operation.service) {
            return store::operate(place, operation, &mut self.network);
        }
        let Operation { service, guests, ends, starts, .. } = operation;
        for guest in guests {
            let known = (service.clone(), *guest);
            if *ends && self.under_way.failed.insert(known.clone()) {
                self.fail(service, *guest);
            }
            if *starts
                && self.under_way.failed.remove(&known)
                && let Some(server) = self.network.servers.of_service(service, *guest)
            {
                self.network.servers.heal(server, self.network.now_ns);
                self.network.look_at(server);
            }
        }
        self.poll();
    }

    fn fail(&mut self, service: &str, guest: usize) {
        let Some(server) = self.network.servers.of_service(service, guest) else { return };
        self.network.servers.fail(server, self.network.now_ns);
        self.network.look_at(server);
        for role in &mut self.roles {
            role.workload.server_failed(server, &mut self.network);
        }
    }

    /// Has waits whose servers serve by now end at their next look.
    pub(super) fn poll(&mut self) {
        for (index, begun_ns) in &self.under_way.waits {
            let Some(operation) = &self.input.timeline[*index].operation else { continue };
            if self.serves(operation) {
                let every_ns = operation.every_ns.max(1);
                let looks = (self.network.now_ns - begun_ns).div_ceil(every_ns);
                self.timeline.expect(*index, begun_ns.saturating_add(looks.saturating_mul(every_ns)));
                self.unsettled = true;
            }
        }
    }

    /// Whether what an action waited for has come, now that it looks.
    pub(super) fn has_come(&mut self, index: usize) -> bool {
        let action = &self.input.timeline[index];
        let come = if let Some(progress) = &action.progress {
            let Some(_) = self.under_way.waits.get(&index) else { return false }; // its time was over before
            let Playing { workload, started, .. } = &self.roles[progress.role];
            let come = workload.come().is_some_and(|come| *started && progress.holds(come));
            if !come {
                self.timeline.expect(index, self.network.now_ns + progress.every_ns.max(1));
            }
            come
        } else if let Some((place, every_ns)) = self.store_of(index) {
            let Some(_) = self.under_way.waits.get(&index) else { return false }; // its time was over before
            let come = self.network.servers.stores.at(place).is_recovered();
            if !come {
                self.timeline.expect(index, self.network.now_ns + every_ns.max(1));
            }
            come
        } else {
            action.operation.as_ref().is_none_or(|operation| self.serves(operation))
        };
        if come {
            self.under_way.waits.remove(&index);
        }
        come
    }

    /// The place of the store that an action waits for, and how often it looks.
    pub(super) fn store_of(&self, index: usize) -> Option<(usize, u64)> {
        let operation = self.input.timeline[index].operation.as_ref()?;
        Some((self.network.servers.stores.of_service(&operation.service)?, operation.every_ns))
    }

    fn serves(&self, operation: &Operation) -> bool {
        let Operation { service, guests, .. } = operation;
        guests.iter().all(|guest| !self.under_way.failed.contains(&(service.clone(), *guest)))
    }
}
