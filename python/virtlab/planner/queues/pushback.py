"""Who queues on a host: frames that guests send faster than the host's wire takes them, on every backend.

With `pushback: uplink` a vNIC takes frames as fast as they are sent, and they wait in one FIFO in front of the wire,
which all guests of the host share as they share its one network card. A sender whose frames stay its own up to there is
held back by that queue: one in the machine's kernel behind a virtual switch that is the kernel's, too. Of any other
(a machine behind its tap) the excess is dropped there, and counted apart from loss on the way.

With `guest` each vNIC holds its own sender back at the wire's rate, so no guest waits for another. With `none` only
the link's own queue is there.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from virtlab.catalogue import PLATFORMS, VSWITCHES
from virtlab.plan import Plan
from virtlab.planner.queues.ports import is_port
from virtlab.units.ethernet import MTU_BYTES

UPLINK_PACKETS = 1000  # that may wait there: an interface's usual queue length
BURST_FRAMES = 10  # that go at once after a pause
TAP_BIT_PER_S = (
    10_000_000_000  # that a veth and a tap say of themselves: the rate of a vNIC behind such a queue
)


@dataclass(frozen=True, slots=True)
class SharedQueue:
    """The queue in front of a host's wire: of the link whose end is `port`."""

    port: str
    link: str
    direction: str
    host: str
    vswitch: str
    rate_bit_per_s: int
    mtu_bytes: int

    @property
    def path(self) -> str:
        """Its place in counters and in what was realised."""
        return f"uplinks.{self.port}"


def shared_queues(plan: Plan) -> Iterator[SharedQueue]:
    """Every queue that guests share in front of a wire."""
    world = plan.world
    for name, vswitch in world.vswitches.items():
        host = world.hosts.get(vswitch.host)
        if host is None or host.pushback != "uplink":
            continue  # a host that is not there is refused elsewhere
        mtus = (
            vnic.mtu_bytes
            for guest in world.guests.values()
            for vnic in guest.vnics.values()
            if vnic.vswitch == name
        )
        mtu_bytes = max(mtus, default=MTU_BYTES)
        for link_name, link in world.links.items():
            for direction, end in zip(("ab", "ba"), link.ends, strict=True):
                if end in vswitch.uplinks and not is_port(link_name, link):
                    rate = link.rate_bit_per_s
                    yield SharedQueue(end, link_name, direction, vswitch.host, name, rate, mtu_bytes)


def sharing(plan: Plan) -> frozenset[str]:
    """Virtual switches whose guests' frames wait for a wire in a queue that they share."""
    return frozenset(each.vswitch for each in shared_queues(plan))


def is_held(plan: Plan, guest: str, vnic: str) -> bool:
    """Whether a frame that waits there is still its sender's, who is held back by it."""
    entry = plan.world.guests[guest]
    vswitch = plan.world.vswitches.get(str(entry.vnics[vnic].vswitch))
    by_kernel = vswitch is not None and not VSWITCHES[vswitch.kind].process
    return PLATFORMS[entry.platform].shares_kernel and by_kernel
