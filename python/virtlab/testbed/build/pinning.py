"""Routers on a processor of their own choice: `pin` of a guest that forwards.

A router that is a namespace has no process that forwards. A veth hands a packet to the kernel's backlog of the
processor that sent it, so without more the sender's processor does all routers' work. What can be chosen is where a
port's received packets are handed on: receive packet steering (`rps_cpus` of its queues) moves them to the backlog of
the processor named, which then routes them, puts them into the licence's token bucket and, by a timer pinned there too,
sends them off. So a router whose ports all steer to one processor is pinned to it; the next hop takes the packet from
there.

Transmit steering (XPS) chooses among transmit queues and moves no work; a veth has one queue, so it is left alone.
`one` puts all such routers on the last processor, `spread` each on another in turn, beginning with the last. Processes
inside them (routing daemons, a probe) are bound to the same processor. Only root may steer: the kernel asks for
CAP_NET_ADMIN outside of any user namespace. Files are those of a sysfs of the guest's namespace, in a mount namespace
that ends with the shell that writes them.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from virtlab.agents import Data, Notice
from virtlab.agents.requests.leader import Exec
from virtlab.catalogue import PLATFORMS
from virtlab.errors import MachineError
from virtlab.plan import Plan
from virtlab.testbed.kinds.lowered import Lowered
from virtlab.testbed.leader.channels import PINNING
from virtlab.testbed.leader.control import Control, RefusedError, ending

STEERING = Path("/sys/class/net/lo/queues/rx-0/rps_cpus")
WAIT_S = 30.0
CURE = "write 'pin: none'"
_WRITE = (
    "mount -t sysfs none /sys && mask=$1 && shift && for link; do for queue in /sys/class/net/$link/queues/rx-*; do"
    ' echo "$mask" >$queue/rps_cpus && echo "$link $(cat $queue/rps_cpus)" || exit; done; done'
)


def pinned(plan: Plan) -> list[str]:
    """Guests that are to be pinned, in the order of the Plan."""
    return [name for name, guest in plan.world.guests.items() if guest.pin != "none"]


def processors(plan: Plan, available: Sequence[int]) -> dict[str, int]:
    """Guest -> the processor that it forwards on.

    >>> from virtlab.plan import Guest, Plan, World
    >>> guests = {name: Guest(platform="any", host="h", vnics={}, pin="spread") for name in ("r1", "r2", "r3")}
    >>> processors(Plan(world=World(hosts={"h": {}}, guests=guests)), [0, 1])
    {'r1': 1, 'r2': 0, 'r3': 1}
    """
    found: dict[str, int] = {}
    spread = 0
    for name in pinned(plan):
        if plan.world.guests[name].pin == "spread":
            found[name] = available[-1 - spread % len(available)]
            spread += 1
        else:
            found[name] = available[-1]
    return found


def why_not(plan: Plan, available: Sequence[int], *, root: bool) -> list[tuple[str, str, str]]:
    """(path, reason, cure) of what cannot be pinned here; empty when all can."""
    found = []
    for name in pinned(plan):
        guest, path = plan.world.guests[name], f"guests.{name}.pin"
        if not guest.forwards:
            found.append((path, "only a guest that forwards can be pinned", CURE))
        elif guest.platform not in PLATFORMS or not PLATFORMS[guest.platform].shares_kernel:
            reason = f"a '{guest.platform}' router forwards on its own virtual processors, which are not pinned here"
            found.append((path, reason, CURE))
        elif not root:
            reason = "only root may choose the processor of received packets"
            found.append((path, reason, f"run as root, or {CURE}"))
        elif not STEERING.exists():
            found.append((path, "this kernel has no receive packet steering (CONFIG_RPS)", CURE))
        elif guest.pin == "spread" and len(available) < 2:
            found.append((path, "there is one processor, nothing can be spread over it", "write 'pin: one'"))
    return found


def mask(cpu: int) -> str:
    """A processor as the kernel writes sets of them: hexadecimal, commas between words of 32 bits.

    >>> mask(1), mask(33)
    ('2', '2,00000000')
    """
    word, bit = divmod(cpu, 32)
    return ",".join([f"{1 << bit:x}", *["00000000"] * word])


def _same(mask: str, other: str) -> bool:
    return int(mask.replace(",", ""), 16) == int(other.replace(",", ""), 16)


def pin(control: Control, lowered: Lowered, chosen: Mapping[str, int]) -> dict[str, dict[str, Any]]:
    """Steers every port of each guest to its processor; guest -> what was applied and read back.

    MachineError when the kernel refuses or reads back another set.
    """
    found = {}
    for number, (guest, cpu) in enumerate(chosen.items()):
        links = {place.link: vnic for (owner, vnic), place in lowered.vnics.items() if owner == guest}
        argv = ["unshare", "-m", "sh", "-c", _WRITE, "pin", mask(cpu), *links]
        try:
            control.call(Exec(PINNING.at(number), lowered.guests[guest], argv))
        except RefusedError as error:
            raise MachineError(f"guests.{guest}.pin", error.what, CURE) from error
        said = dict(line.split() for line in _answer(control, PINNING.at(number), guest).splitlines())
        for link, vnic in links.items():
            if not _same(said.get(link, "0"), mask(cpu)):
                what = f"packets of {vnic} are steered to set {said.get(link)}, not to {mask(cpu)}"
                raise MachineError(f"guests.{guest}.pin", what, CURE)
        found[guest] = {"processor": cpu, "rps_cpus": {vnic: said[link] for link, vnic in links.items()}}
    return found


def _answer(control: Control, channel: int, guest: str) -> str:
    """The output of the shell, once it ended without a failure."""
    said = bytearray()
    end = time.monotonic() + WAIT_S
    while time.monotonic() < end:
        for message in control.messages(0.1):
            if isinstance(message, Data) and message.channel == channel:
                said += message.content
            elif isinstance(message, Notice) and message.details.get("channel") == channel:
                if message.details.get("code") == 0:
                    return said.decode(errors="replace")
                raise MachineError(f"guests.{guest}.pin", f"it cannot be pinned: {ending(message)}", CURE)
    raise MachineError(f"guests.{guest}.pin", f"it was not pinned within {WAIT_S:g} s", CURE)
