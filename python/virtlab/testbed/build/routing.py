"""OSPF in place of static routes: FRRouting's zebra and ospfd for each router, in its namespace of the private world.

Everything the daemons write (configuration, sockets, numbers of processes) lies on a tmpfs that only the private
world sees, mounted over /etc/frr, so it is gone with the world. FRRouting wants to be a member of the group frrvty,
which is one of the machine: each daemon gets a mount namespace of its own with a group file that says so, and stays
root of the world, which in the world of an ordinary user is that user. No daemon listens on a TCP port.

A world is ready when the kernel of every such router has a route to every subnet of its part of the network.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_interface, ip_network
from pathlib import Path

from virtlab.agents import Data, Notice
from virtlab.agents.requests.leader import Exec, Observe
from virtlab.errors import MachineError
from virtlab.plan import Guest, Observer, Plan
from virtlab.testbed.kinds.lowered import Lowered
from virtlab.testbed.kinds.platform import Running
from virtlab.testbed.leader.channels import ROUTING
from virtlab.testbed.leader.control import Control, RefusedError, ending, outcome

DAEMONS = Path("/usr/lib/frr")
RUN = "/etc/frr"  # exists where the package is installed
CONVERGENCE_S = 60.0
POLL_S = 0.1
TAIL_LINES = 6
TAIL_BYTES = 4096
CURE_DAEMON = "see whether the machine had memory left for it, or write 'routing: static'"
CURE = "install frr (Debian: apt install frr), or write 'routing: static'"
_PREPARE = (
    f"mount -t tmpfs none {RUN} && printf 'root:x:0:root\\nfrrvty:x:0:root\\n' >{RUN}/group"
    f" && for name; do mkdir {RUN}/$name && : >{RUN}/$name/zebra.conf || exit; done"
)
_START = (
    f"mount --bind {RUN}/group /etc/group && mount -t tmpfs none /var/tmp"
    ' && printf \'%s\' "$1" >"$2" && wait_for=$3 && shift 3'
    ' && until [ -z "$wait_for" ] || [ -S "$wait_for" ]; do sleep 0.05; done && exec "$@" >&2'
)


def missing() -> str | None:
    """Why OSPF cannot be run here; None when it can."""
    lacking = [name for name in ("zebra", "ospfd") if not (DAEMONS / name).is_file()]
    return f"{DAEMONS} has no {' and no '.join(lacking)}" if lacking else None


def routers(plan: Plan) -> dict[str, Guest]:
    """The routers that find their routes by OSPF."""
    return {name: guest for name, guest in plan.world.guests.items() if guest.routing == "ospf"}


def subnets(guest: Guest) -> set[str]:
    """IPv4 networks that a router is in."""
    found = (ip_interface(text).network for vnic in guest.vnics.values() for text in vnic.ip)
    return {str(network) for network in found if network.version == 4}


def wanted(plan: Plan) -> dict[str, set[str]]:
    """Router -> the subnets that it is to have a route to: those of its part of the network, without its own."""
    found = {name: subnets(guest) for name, guest in routers(plan).items()}
    parts: dict[str, set[str]] = {}
    for name, own in found.items():
        part = set(own)
        while len(grown := part.union(*(nets for nets in found.values() if nets & part))) > len(part):
            part = grown
        parts[name] = part - own
    return parts


def configuration(plan: Plan, lowered: Lowered, router: str) -> str:
    """The text of its ospfd.conf. One area; hellos each second; a port alone in its subnet is passive."""
    ospf = routers(plan)
    guest = ospf[router]
    lines, networks = [f"hostname {router}", "log stdout warnings"], []
    for name, vnic in guest.vnics.items():
        link = lowered.vnics[router, name].link
        own = [str(ip_interface(text).network) for text in vnic.ip if ":" not in text]
        standing = sum(bool(subnets(other) & set(own)) for other in ospf.values())
        lines += [f"interface {link}", " ip ospf hello-interval 1", " ip ospf dead-interval 4"]
        if standing == 2:
            lines.append(" ip ospf network point-to-point")
        elif standing < 2:
            lines.append(" ip ospf passive")
        networks += [f" network {network} area 0" for network in own]
    first = next(text for vnic in guest.vnics.values() for text in vnic.ip if ":" not in text)
    lines += [
        "router ospf",
        f" ospf router-id {first.partition('/')[0]}",
        " timers throttle spf 0 50 500",
        " maximum-paths 1",
    ]
    return "\n".join([*lines, *networks, ""])


@dataclass(slots=True)
class Routing(Running):
    """The daemons of one world."""

    control: Control
    plan: Plan
    lowered: Lowered
    cpus: Mapping[str, int] = field(default_factory=dict)  # router -> the processor it is pinned to
    names: dict[int, str] = field(default_factory=dict)  # channel -> 'ospfd of r1'
    _tails: dict[int, bytearray] = field(default_factory=dict)

    def start(self, observe: Observer) -> None:
        """Starts them and waits for routes. MachineError with the end of what a daemon wrote."""
        found = routers(self.plan)
        observe.progress("wait for routes")
        first = self.lowered.guests[next(iter(found))]
        # Names of routers may hold what a shell minds; directories are numbered.
        places = {name: f"{RUN}/{number}" for number, name in enumerate(found)}
        self._prepare(first, [place.rpartition("/")[2] for place in places.values()])
        for router, place in places.items():
            socket = f"{place}/zserv"
            for daemon, text, after in (
                ("zebra", "no zebra nexthop kernel enable\n", ""),
                ("ospfd", configuration(self.plan, self.lowered, router), socket),
            ):
                file = f"{place}/{daemon}.conf"
                argv = [
                    str(DAEMONS / daemon), "-u", "root", "-g", "root", "-P", "0", "-f", file, "-i", f"{place}/{daemon}.pid",
                    "-z", socket, "--vty_socket", place, "--log", "stdout", "--log-level", "warnings",
                ]  # fmt: skip
                shell = ["unshare", "-m", "sh", "-c", _START, "start", text, file, after, *argv]
                cpu = self.cpus.get(router)
                self._exec(
                    f"{daemon} of {router}", self.lowered.guests[router], shell, [] if cpu is None else [cpu]
                )
        self._converge(found)

    def ended(self, exited: Notice) -> MachineError | None:
        """Which daemon ended, with the end of what it wrote."""
        channel = int(exited.details["channel"])
        return self._death(channel, ending(exited)) if channel in self.names else None

    def deaths(self) -> Iterator[MachineError]:
        """An error for each daemon that ended, whether or not its end was reported."""
        for channel in self.names:
            if (how := self.control.ended(channel)) is not None:
                yield self._death(channel, how)

    def _death(self, channel: int, how: str) -> MachineError:
        router, said = self.names[channel].rpartition(" ")[2], self._said(channel)
        what = f"{self.names[channel]} ended with {how.partition(': ')[0]}" + (
            f"; it said: {said}" if said else ""
        )
        return MachineError(f"routers.{router}", what, CURE_DAEMON)

    def artefacts(self) -> Iterator[tuple[str, bytes]]:
        """What each daemon wrote, where it wrote something."""
        for channel, name in self.names.items():
            if self._tails.get(channel):
                yield f"{name.replace(' of ', '-')}.log", bytes(self._tails[channel])

    def _exec(self, name: str, namespace: str, argv: Sequence[str], cpus: Sequence[int] = ()) -> int:
        channel = ROUTING.at(len(self.names))
        self.control.listen(channel, lambda data: self._hear(channel, data))
        try:
            self.control.call(Exec(channel, namespace, argv, cpus=list(cpus)))
        except RefusedError as error:
            raise MachineError("routers", f"{name}: {error.what}", CURE) from error
        self.names[channel] = name
        return channel

    def _hear(self, channel: int, data: Data) -> None:
        tail = self._tails.setdefault(channel, bytearray())
        tail += data.content
        del tail[:-TAIL_BYTES]

    def _prepare(self, namespace: str, places: Sequence[str]) -> None:
        channel = self._exec(
            "the routing daemons' place", namespace, ["sh", "-c", _PREPARE, "prepare", *places]
        )
        del self.names[channel]  # it is no daemon
        end = time.monotonic() + CONVERGENCE_S
        while (how := self.control.ended(channel)) is None:
            if time.monotonic() > end:
                raise MachineError("routers", f"{RUN} was not prepared within {CONVERGENCE_S:g} s", CURE)
            self.control.await_news(POLL_S)
        self.control.forget_end(channel)
        if outcome(how) != "code 0":
            raise MachineError("routers", f"{RUN} cannot be prepared: {how}", CURE)

    def _converge(self, guests: dict[str, Guest]) -> None:
        need = wanted(self.plan)
        places = {name: self.lowered.guests[name] for name in guests}
        end = time.monotonic() + CONVERGENCE_S
        while True:
            self.control.pump(POLL_S)
            for death in self.deaths():
                raise death
            seen = self.control.call(Observe(list(places.values())), timeout_s=60.0)["namespaces"]
            left = {
                name: need[name]
                - {str(ip_network(each["to"], strict=False)) for each in seen[place]["routes"] if each["via"]}
                for name, place in places.items()
            }
            lacking = {name: nets for name, nets in left.items() if nets}
            if not lacking:
                return
            if time.monotonic() > end:
                name, nets = next(iter(lacking.items()))
                own = [channel for channel, daemon in self.names.items() if daemon.endswith(f" of {name}")]
                said = " | ".join(filter(None, map(self._said, own)))
                what = f"OSPF has no route to {', '.join(sorted(nets))} after {CONVERGENCE_S:g} s"
                what += f"; its daemons said: {said}" if said else ""
                raise MachineError(
                    f"routers.{name}", what, "write 'routing: static', or check links and addresses"
                )

    def _said(self, channel: int) -> str:
        """The end of what a daemon wrote, as one line."""
        return " | ".join(
            bytes(self._tails.get(channel, b"")).decode(errors="replace").splitlines()[-TAIL_LINES:]
        )
