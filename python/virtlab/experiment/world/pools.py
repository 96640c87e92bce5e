"""Processors of hosts: which pool each guest is in, and that pools fit into what their host has.

Where a host names pools, every guest of it is in one, or says that it is in none. A host with a single pool has all its
guests in that which do not say so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from virtlab.catalogue import PLATFORMS, bounded
from virtlab.experiment.read.findings import Findings, Steps
from virtlab.experiment.read.model import HostSpec, PlacedGuestSpec
from virtlab.experiment.world.places import platform_of
from virtlab.units import nearest

NONE = "none"  # what a guest says that is in no pool of its host


def pool_name(host: str, pool: str) -> str:
    """The name of a host's pool among those of all hosts.

    >>> pool_name("h1", "cores")
    'h1.cores'
    """
    return f"{host}.{pool}"


def pool_of(host: HostSpec, guest: PlacedGuestSpec) -> str | None:
    """The pool of a guest, by its name at the host; None where the host has none, or the guest does not say which."""
    if guest.pool is not None:
        return guest.pool if guest.pool != NONE else None
    pools = host.pools or {}
    return next(iter(pools)) if len(pools) == 1 else None


def check_pools(name: str, host: HostSpec, findings: Findings) -> None:
    """Adds every mistake about the processors of one host and its pools."""
    own = findings.root.find(("hosts", name))[0].value
    said = own if isinstance(own, dict) else {}

    def at(key: str) -> Steps:
        return ("hosts", name, key) if key in said else ("host", key)

    _check_platforms(at("cpus"), at("pools"), host, findings)
    pools = host.pools or {}
    together = sum(pool.cpus for pool in pools.values())
    if host.cpus is not None and together > host.cpus:
        what = f"pools of {together} processors on a host that has {host.cpus}"
        findings.add(at("pools"), what, f"write 'cpus: {together}' at the host, or make them smaller")
    for guest, spec in host.guests.items():
        _check_guest((*at("guests"), guest), host, spec, findings)
    for pool in pools:
        if pool == NONE:
            what = "is what a guest says that is in no pool"
            findings.add((*at("pools"), pool), what, "give the pool another name", key=True)


def check_use(hosts: Mapping[str, HostSpec], moved_into: Collection[str], findings: Findings) -> None:
    """Adds a mistake about each pool in which no guest is at any time; `moved_into`: those that moves name."""
    for name, host in hosts.items():
        pools = host.pools or {}
        used = {pool_of(host, spec) for spec in host.guests.values()}
        unsaid = len(pools) > 1 and any(spec.pool is None for spec in host.guests.values())
        for pool in pools:
            if pool in used or unsaid or pool_name(name, pool) in moved_into:
                continue
            own = findings.root.find(("hosts", name))[0].get("pools")
            steps = ("hosts", name, "pools", pool) if own is not None else ("host", "pools", pool)
            cure = f"write 'pool: {pool}' at a guest, or remove it"
            findings.add(steps, f"no guest is in pool '{pool}'", cure, key=True)


def _check_platforms(cpus: Steps, pools: Steps, host: HostSpec, findings: Findings) -> None:
    unable = next((each for each in _platforms(host) if "pool" not in PLATFORMS[each].limits), None)
    if unable is None:
        return
    for where, value in ((cpus, host.cpus), (pools, host.pools)):
        if value is not None:
            what = f"guests of platform {unable} cannot be confined to processors of their host"
            findings.add(where, what, f"remove it, or {bounded('pool')}", key=True)


def _platforms(host: HostSpec) -> Iterator[str]:
    yield host.platform
    for guest in host.guests.values():
        yield platform_of(host, guest)


def _check_guest(at: Steps, host: HostSpec, spec: PlacedGuestSpec, findings: Findings) -> None:
    pools = list(host.pools or ())
    if spec.weight is not None and pool_of(host, spec) is None and (not pools or spec.pool == NONE):
        cure = "remove it, or put the guest into a pool, e.g. 'pools: {cores: {cpus: 2}}' at its host"
        findings.add((*at, "weight"), "a weight is of guests that share a pool", cure, key=True)
    if spec.pool == NONE:
        return
    if spec.pool is not None and not pools:
        cure = "remove it, or write e.g. 'pools: {cores: {cpus: 2}}' at its host"
        findings.add((*at, "pool"), "its host has no pools", cure, key=True)
    elif spec.pool is not None and spec.pool not in pools:
        cure = nearest(spec.pool, pools) or f"there are {', '.join(pools)}"
        findings.add((*at, "pool"), f"its host has no pool '{spec.pool}'", cure)
    elif len(pools) > 1 and spec.pool is None:
        what = f"its host has {len(pools)} pools, and nothing says which is the guest's"
        findings.add(at, what, f"write 'pool: {' | '.join([*pools, NONE])}'")
