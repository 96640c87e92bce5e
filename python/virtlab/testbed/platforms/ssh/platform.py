"""Why an existing host cannot be used from here, found before anything is reached."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from virtlab.errors import VirtlabError
from virtlab.plan import Plan, Refusal
from virtlab.testbed.kinds.findings import Findings
from virtlab.testbed.kinds.platform import GuestPlatform, Running, Surroundings
from virtlab.testbed.platforms.libvirt.connections import uri_of
from virtlab.testbed.platforms.ssh.connection import client_missing
from virtlab.testbed.platforms.ssh.existing import Existing

CURE = "install openssh-client"


def existing_refusals(path: str, name: str, plan: Plan, findings: Findings) -> Iterator[Refusal]:
    """Every refusal of one guest."""
    del findings
    guest = plan.world.guests[name]
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


def running(world: Surroundings, names: Sequence[str]) -> Running:
    """Existing hosts of a session, of whatever platform: they are met together, before the world is built."""
    return Existing(world.control, world.plan, names)


IMPLEMENTATION = GuestPlatform(lambda _: client_missing(), existing_refusals, running)
