"""What holds a sender back where nothing else does: the rate that its network device says of itself.

Where sending costs nothing, a process that sends as fast as possible sends without end in no time. A link on its way
holds it back, by way of its vNIC; where its vNIC does not push back, or there is no link on its way, the vNIC's own
rate does. A veth and a tap say 10 Gbit/s of themselves (`ethtool`: Speed: 10000Mb/s; in Linux `veth_get_link_ksettings`
and `tun_default_link_ksettings`). On a machine it is the processor that holds such a sender back, at a rate of its own,
so figures that rest on this one say nothing of machines; that is said with the results. A profile's costs of sending
take its place.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from virtlab.catalogue import WORKLOADS
from virtlab.plan import Plan
from virtlab.planner.queues.pushback import is_held, sharing
from virtlab.planner.topology.ends import role_ends
from virtlab.simulator.lower import lower, vnic_path
from virtlab.simulator.once import Remembered, structure
from virtlab.simulator.paths import over_links
from virtlab.simulator.profile import Profile, costs

NOMINAL_BIT_PER_S = 10_000_000_000

Overrides = Mapping[str, Mapping[str, Any]]


def held_by_nominal_rate(
    plan: Plan, profile: Profile, overrides: Overrides | None = None
) -> dict[str, tuple[str, ...]]:
    """Path of each vNIC that nothing else holds back -> the roles that send through it as fast as possible."""
    found: dict[str, tuple[str, ...]] = {}
    for name in plan.roles:
        for guest, vnic in _senders(plan, name, (overrides or {}).get(name, {})):
            if plan.world.guests[guest].vnics[vnic].pushback_bit_per_s is None and not _costs(
                plan, profile, guest
            ):
                path = vnic_path(guest, vnic)
                found[path] = (*found.get(path, ()), name)
    return found


def with_nominal_rates(lowered: Mapping[str, Any], held: Mapping[str, Any]) -> dict[str, Any]:
    """The core's input in which those vNICs hold back what comes faster than they say of themselves."""
    if not held:
        return dict(lowered)
    vnics = [
        {**vnic, "pushback_bit_per_s": NOMINAL_BIT_PER_S} if vnic["name"] in held else vnic
        for vnic in lowered["vnics"]
    ]
    return {**lowered, "vnics": vnics}


def assumed(plan: Plan, profile: Profile) -> dict[str, str]:
    """Role -> what is taken for its sending as fast as possible; not of one whose rate every trial sets."""
    held = held_by_nominal_rate(plan, profile)
    by_wire = _held_by_the_wire(plan, profile)
    roles = dict.fromkeys(
        role
        for path, names in held.items()
        for role in names
        if WORKLOADS[plan.roles[role].workload].pace not in plan.roles[role].tunable
        and not (path in by_wire and role in _over_links(plan))
    )
    rate = f"{NOMINAL_BIT_PER_S / 1e9:g} Gbit/s"
    what = (
        f"as fast as possible is {rate} here, the rate that a virtual network device says of itself; "
        "on a machine the processor sets it, so no figure that rests on it says anything of one"
    )
    return dict.fromkeys(roles, what)


def _held_by_the_wire(plan: Plan, profile: Profile) -> set[str]:
    """Paths of vNICs whose senders a shared queue holds back: only what is between them and it goes at a nominal
    rate.
    """
    shared = sharing(plan)
    return {
        vnic_path(guest, name)
        for guest, entry in plan.world.guests.items()
        for name, vnic in entry.vnics.items()
        if vnic.vswitch in shared and (profile.is_ideal or is_held(plan, guest, name))
    }


def _senders(plan: Plan, role_name: str, overrides: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Guests and vNICs of a role that send as fast as possible, with no link on their way that would hold them back."""
    role = plan.roles[role_name]
    parameters = {**role.parameters, **overrides}
    declared = WORKLOADS[role.workload]
    floods = declared.pace is not None and declared.fills(parameters)
    endless = declared.endless and role_name not in _over_links(plan)
    ends = role_ends(plan, role) if floods or endless else None
    for end in (ends or ())[: 1 if floods else 2]:
        yield end.guest, end.vnic


_linked: Remembered[frozenset[str]] = Remembered()


def _over_links(plan: Plan) -> frozenset[str]:
    """Roles that cross a link, worked out once for all runs of a world."""
    if not plan.world.links:
        return frozenset()
    return _linked.of(structure(plan), lambda: over_links(plan, lower(plan, plan.seed)))


def _costs(plan: Plan, profile: Profile, guest: str) -> bool:
    """Whether sending takes a guest any time."""
    paid = costs(profile, plan, 0)
    if paid is None:
        return False
    own = paid["guests"][list(plan.world.guests).index(guest)]
    return bool(own["send_ns"] or own["again"])
