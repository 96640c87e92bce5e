"""Why a domain of Xen cannot be started, found before anything is built."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from virtlab.catalogue.platforms.xen import XEN
from virtlab.plan import Plan, Refusal
from virtlab.testbed.kinds.findings import Findings
from virtlab.testbed.kinds.platform import GuestPlatform, Running, Surroundings
from virtlab.testbed.platforms.xen.config import MEMORY_BYTES, MIB
from virtlab.testbed.platforms.xen.domains import Domains
from virtlab.testbed.platforms.xen.xentop import DOMAIN_0

NO_XEN = "Xen takes a machine as a whole: `virtlab run FILE --in xen` boots one (experimental)"
MEMORY_MIN_BYTES = 112 << 20  # with less the kernel has no room to unpack what it boots
MEMORY_MAX_BYTES = 1920 << 20  # of all guests, beside domain 0
VCPUS_MAX = 32
_NAME = re.compile(r"[A-Za-z0-9_.+-]{1,60}\Z")


def domain_refusals(path: str, name: str, plan: Plan, findings: Findings) -> Iterator[Refusal]:
    """Every refusal of one guest."""
    guest = plan.world.guests[name]
    if not findings.xen:
        yield Refusal(
            f"{path}.platform", "a guest of Xen needs the hypervisor beneath it", "run it with --in xen"
        )
    if not _NAME.match(name) or name == DOMAIN_0:
        yield Refusal(
            path,
            f"'{name}' is not a valid name that Xen can give a guest",
            "use letters, digits, '.', '-' and '_'",
        )
    if guest.memory_bytes is not None and guest.memory_bytes < MEMORY_MIN_BYTES:
        reason = f"a kernel does not boot in {guest.memory_bytes / MIB:.4g} MiB"
        yield Refusal(f"{path}.memory_bytes", reason, f"write at least '{MEMORY_MIN_BYTES // MIB} MiB'")
    if guest.vcpus is not None and guest.vcpus > VCPUS_MAX:
        yield Refusal(
            f"{path}.vcpus", f"{guest.vcpus} are more than are given here", f"write {VCPUS_MAX} or less"
        )
    if guest.idle == "poll":
        yield Refusal(f"{path}.idle", "a domain has no processor of this machine", "write 'idle: sleep'")
    if guest.routing == "ospf":
        yield Refusal(f"{path}.routing", "its image has no routing daemon", "write 'routing: static'")
    for vnic_name, vnic in guest.vnics.items():
        if vnic.model is not None:
            cure = "remove 'model': its ports are xen-netfront"
            yield Refusal(f"{path}.vnics.{vnic_name}.model", "no device is emulated for a PV guest", cure)
        if vnic.uplink is not None:
            cure = "write 'vswitch: linux_bridge'"
            yield Refusal(f"{path}.vnics.{vnic_name}", "a domain stands on a virtual switch", cure)


def memory_refusals(plan: Plan) -> Iterator[Refusal]:
    """The refusal that all guests together want more memory than the machine has."""
    wanted = {
        name: guest.memory_bytes or MEMORY_BYTES
        for name, guest in plan.world.guests.items()
        if guest.platform == XEN.name
    }
    if sum(wanted.values()) > MEMORY_MAX_BYTES:
        what = f"{len(wanted)} guests want {sum(wanted.values()) // MIB} MiB, and {MEMORY_MAX_BYTES // MIB} MiB are there"
        largest = max(wanted, key=lambda name: wanted[name])
        yield Refusal(f"guests.{largest}.memory_bytes", what, "use fewer guests, or give them less memory")


def _running(world: Surroundings, names: Sequence[str]) -> Running:
    return Domains(world.control, world.plan, world.lowered, names, world.now)


IMPLEMENTATION = GuestPlatform(lambda findings: None if findings.xen else NO_XEN, domain_refusals, _running)
