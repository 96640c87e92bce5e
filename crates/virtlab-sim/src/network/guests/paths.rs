//! What guests know of how long packets on a path may be.
//!
//! A guest believes what a router told it for ten minutes, for packets to that address. Of IPv4 it believes in no MTU
//! below 552 B (`net.ipv4.route.min_pmtu`): after news of a shorter one it sends packets of 552 B, and allows routers
//! to cut them (Linux: `ip_rt_update_pmtu` locks the MTU, `ip_dont_fragment` looks at that).

use crate::input::{Input, Versions};
use crate::ip::addresses::Number;
use core::net::IpAddr;
use std::collections::{BTreeMap, BTreeSet};
use virtlab_load::size::IpVersion;

/// Linux's `mtu_expires` and `route.mtu_expires`.
const BELIEVED_NS: u64 = 600_000_000_000;
/// The least path MTU of IPv4 that a guest believes in.
const LEAST_BELIEVED_BYTES: u32 = 552;

/// What guests know of paths.
#[derive(Default)]
pub struct Paths {
    /// By role, the addresses of its sides.
    ends: Vec<[Option<IpAddr>; 2]>,
    /// By role and flow, guest and address of a server that is another than the one at which the role ends.
    elsewhere: BTreeMap<(usize, u32), (usize, IpAddr)>,
    /// Roles whose packets of IPv4 must not be cut.
    uncut: BTreeSet<usize>,
    /// By guest and destination: MTU, and until when it is believed.
    known: BTreeMap<(usize, Number), (u32, u64)>,
    /// Guests and destinations to which routers may cut after all.
    cut: BTreeSet<(usize, Number)>,
    /// Guests that have learnt since somebody asked.
    news: Vec<usize>,
}

impl Paths {
    pub fn new(input: &Input) -> Self {
        let ends = input.roles.iter().map(|role| [0, 1].map(|side: usize| role.ends[side].address));
        Self { ends: ends.collect(), ..Self::default() }
    }

    /// Whether any guest has learnt anything of a path.
    #[inline]
    pub fn known(&self) -> bool {
        !self.known.is_empty()
    }

    /// Routers must not cut packets of a role.
    pub fn never_cut(&mut self, role: usize) {
        self.uncut.insert(role);
    }

    /// Whether routers may cut a role's packets of IPv4 to an address; `sender`: the guest that sends them, asked only
    /// of a role that is one.
    pub fn may_cut(&self, role: usize, sender: impl FnOnce() -> usize, to: Number) -> bool {
        !self.uncut.contains(&role) || self.cut.contains(&(sender(), to))
    }

    /// Guests that have learnt since this was asked last.
    pub fn news(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.news)
    }

    /// The address of a role's side; none of a role that does not exist, as those of kernels.
    pub fn end(&self, role: usize, side: usize) -> Option<IpAddr> {
        self.ends.get(role).and_then(|ends| ends[side])
    }

    /// A flow of a role ends at another server.
    pub fn end_elsewhere(&mut self, role: usize, flow: u32, guest: usize, address: IpAddr) {
        self.elsewhere.insert((role, flow), (guest, address));
    }

    /// Guest and address of the server of a flow that ends at another than its role.
    pub fn elsewhere(&self, role: usize, flow: u32) -> Option<(usize, IpAddr)> {
        self.elsewhere.get(&(role, flow)).copied()
    }

    /// Whether a flow of a role ends at another server, in a guest.
    pub fn ends_in(&self, role: usize, guest: usize) -> bool {
        let of_role = self.elsewhere.range((role, 0)..=(role, u32::MAX));
        of_role.map(|(_, (own, _))| own).any(|own| *own == guest)
    }

    /// The MTU towards an address that a guest believes in now.
    pub fn mtu_bytes(&self, guest: usize, to: Number, now_ns: u64) -> Option<u32> {
        let known = self.known.get(&(guest, to)).filter(|(_, until_ns)| now_ns < *until_ns);
        known.map(|(mtu_bytes, _)| *mtu_bytes)
    }

    /// A guest learns the MTU towards an address.
    pub fn learn(&mut self, guest: usize, to: Number, mtu_bytes: u32, now_ns: u64) {
        let mut believed_bytes = mtu_bytes;
        if to.version() == IpVersion::V4 && mtu_bytes < LEAST_BELIEVED_BYTES {
            believed_bytes = LEAST_BELIEVED_BYTES;
            self.cut.insert((guest, to));
        }
        self.known.insert((guest, to), (believed_bytes, now_ns.saturating_add(BELIEVED_NS)));
        self.news.push(guest);
    }

    /// A guest forgets what it learnt of paths of some versions of IP.
    pub fn forget(&mut self, guest: usize, of: Versions) {
        let known = self.known.iter_mut().filter(|((own, to), _)| *own == guest && of.has(to.version()));
        for (_, (_, until_ns)) in known {
            *until_ns = 0;
        }
        self.cut.retain(|(own, to)| *own != guest || !of.has(to.version()));
        self.news.push(guest);
    }
}
