"""Why an existing host cannot be used from here, found before anything is reached."""

from __future__ import annotations

from collections.abc import Iterator

from virtlab.catalogue import PLATFORMS
from virtlab.errors import VirtlabError
from virtlab.plan import Guest, Plan, Refusal
from virtlab.testbed.platforms.libvirt.connections import uri_of
from virtlab.testbed.platforms.ssh.connection import client_missing

CURE = "install openssh-client"


def existing_refusals(path: str, guest: Guest, plan: Plan) -> Iterator[Refusal]:
    """All of one guest."""
    why = client_missing()
    if why is not None:
        yield Refusal(f"{path}.platform", why, CURE)
    if guest.host in plan.world.hosts and plan.world.hosts[guest.host].address is None:
        reason = "nothing says how ssh reaches it"
        yield Refusal(f"{path}.host", reason, "write 'address: USER@NAME' at its host")
    host = plan.world.hosts.get(guest.host)
    if host is not None and host.hypervisor is not None:
        try:
            uri_of(path, host.hypervisor)
        except VirtlabError as error:
            yield Refusal(error.where, error.what, error.cure)
    if guest.forwards or guest.bridges:
        yield Refusal(path, "an existing host forwards as it was set up", "write 'forwarding: none'")
    if len(guest.vnics) != 1 or any(vnic.network is None for vnic in guest.vnics.values()):
        reason = "an existing host is measured through its own network or a VXLAN, one vNIC each"
        yield Refusal(f"{path}.vnics", reason, "write no links to it")


def ends_apart(path: str, plan: Plan, ends: tuple[str | None, str | None]) -> Iterator[Refusal]:
    """A role joins two existing hosts, or two guests that are made: nothing leads from one kind to the other."""
    networks = {
        next(iter(guest.vnics.values())).network
        if guest.platform in PLATFORMS and PLATFORMS[guest.platform].existing
        else None
        for end in ends
        if end is not None and (guest := plan.world.guests.get(end)) is not None
    }
    if len(networks) > 1:
        reason = "its ends are on networks that nothing joins"
        cure = "let both be existing hosts on one kind of network, or neither"
        yield Refusal(path, reason, cure)
