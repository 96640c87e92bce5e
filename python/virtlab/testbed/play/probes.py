"""Probes: one agent per guest that has a role, started when it is first needed, kept for all trials of the session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from ipaddress import ip_address
from typing import Any

from virtlab.agents.requests.leader import Spawn
from virtlab.agents.requests.probe import Arm, Collect, StartRole, StopRole
from virtlab.catalogue import WORKLOADS
from virtlab.errors import AgentError, GuestError
from virtlab.plan import Plan, Role
from virtlab.plan.seeds import stream_seed
from virtlab.planner.guests.clusters import entries
from virtlab.planner.topology.ends import RoleEnd, interfaces, next_hop_mac, role_ends, via_macs
from virtlab.testbed.kinds.lowered import Lowered
from virtlab.testbed.leader.channels import PROBES
from virtlab.testbed.leader.control import HEARTBEAT_NS, Control, RefusedError
from virtlab.testbed.platforms.guests import Guests
from virtlab.testbed.play.holders import Holders
from virtlab.testbed.play.priority import Priorities
from virtlab.testbed.services.service import services

CURE_PROBE = "see whether that guest has memory left for it, and its console"
NOT_OF_THE_PROBE = frozenset(
    {"family", "histogram_buckets", "histogram_edges_ns", "ecn", "port", "address"}
)  # of the testbed, of the report


@dataclass(slots=True)
class Side:
    """One armed end of a role."""

    role: str
    side: str  # client, server
    guest: str
    channel: int
    started: bool = False
    finished: bool = False
    before: dict[str, int] = field(default_factory=dict)  # what it had counted when its guest booted again

    @property
    def place(self) -> str:
        """Where reasons have it."""
        return f"roles.{self.role}: guest {self.guest}"


@dataclass(slots=True)
class Probes:
    """The probes of a session, by guest."""

    control: Control
    plan: Plan
    lowered: Lowered
    stations: Guests
    priorities: Priorities
    tasks: Mapping[str, list[str]] = field(
        default_factory=dict
    )  # guest -> `tasks` files of its control groups
    cpus: Mapping[str, list[int]] = field(default_factory=dict)  # guest -> processors, where guests poll
    channels: dict[str, int] = field(default_factory=dict)
    guests: dict[int, str] = field(default_factory=dict)
    holders: Holders = field(init=False)
    _servers: dict[str, Arm] = field(default_factory=dict)  # role -> how its server was armed
    _halted: set[str] = field(default_factory=set)  # roles whose server had begun

    def __post_init__(self) -> None:
        self.holders = Holders(self.control, self.plan)

    def take_over(self, role: str) -> None:
        """Before it begins: a role gets what is known of its objects from the guest that worked with them last."""
        self.holders.take_over(role, self.channels)

    def channel(self, guest: str) -> int:
        """The channel of the guest's probe; starts it if none exists."""
        if guest not in self.channels:
            reach = self.stations.reach(guest)
            inside = guest in self.lowered.machines
            channel = reach.channels[0] if reach.channels is not None else PROBES.at(len(self.channels))
            cpus, tasks = (None, None) if inside else (self.cpus.get(guest), self.tasks.get(guest))
            spawn = Spawn(channel, "probe", self.lowered.guests[guest], cpus, cgroups=tasks)
            self.control.call(spawn, channel=reach.leader)
            try:
                self.control.greet(channel, heartbeat_ns=HEARTBEAT_NS)
            except AgentError as error:
                what = f"its probe does not answer: {error.what}"
                raise GuestError(f"guests.{guest}", what, error.cure or CURE_PROBE) from error
            self.control.beat(channel)
            self.channels[guest] = channel
            self.guests[channel] = guest
            self.stations.probes[channel] = guest
        return self.channels[guest]

    def arm(self, name: str, role: Role, parameters: Mapping[str, Any], seed: int) -> list[Side]:
        """Arms both ends of a role (one, if it has one or ends at a service), the server first. GuestError when an end
        refuses.
        """
        if role.to is None and "address" in role.parameters:
            return [self._arm_outside(name, role, parameters, seed)]
        if role.to is None:
            return [self._arm_alone(name, role, parameters, seed)]
        ends = role_ends(self.plan, role)
        if ends is None:
            raise GuestError(
                f"roles.{name}",
                "its two ends share no address to talk to",
                "give both guests IPv4 or both IPv6",
            )
        client, server = ends
        armed: list[Side] = []
        port: int | None = role.parameters.get("port")
        both = ((server, client, "server"), (client, server, "client"))
        for end, other, side in both[1:] if role.parameters.get("service") else both:
            channel = self.channel(end.guest)
            peer = self._endpoint(other, end)
            if side == "client" and port is not None:
                peer["port"] = port
            own = {key: value for key, value in parameters.items() if key not in NOT_OF_THE_PROBE}
            if own.get("via"):
                own["via"] = via_macs(self.plan, client, own["via"])
            if self.plan.world.guests[end.guest].idle != "sleep":
                own["idle"] = self.plan.world.guests[end.guest].idle
            if WORKLOADS[role.workload].works(parameters):
                own["work_per_s"] = self.stations.work_per_s(end.guest)
            if entered := [each for each in entries(self.plan, role) if side == "client"]:
                own["entries"] = [
                    {"place": each.place, "local": str(near.address.ip), "address": str(far.address.ip)}
                    for each in entered
                    for near, far in [each.ends]
                    if near.address is not None and far.address is not None
                ]
            if side == "client":
                own |= self._client_parameters(name, role)
            local, priority = (
                self._endpoint(end, other, local=True),
                self.priorities.fifo(name, parameters, end.guest),
            )
            arm = Arm(name, side, role.workload, own, local, peer, stream_seed(seed, name, side), priority)
            try:
                reply = self.control.call(arm, channel=channel)
            except RefusedError as error:
                what = f"guest {end.guest}, {side}: {error.what}"
                raise GuestError(f"roles.{name}", what, error.cure) from error
            port = reply.get("port", port)
            if side == "server":
                self._servers[name] = replace(arm, local={**local, "port": port})
            armed.append(Side(name, side, end.guest, channel))
        return armed

    def _client_parameters(self, name: str, role: Role) -> dict[str, Any]:
        """What its client has to know of the service that it asks as a whole."""
        service = self.plan.world.services.get(str(role.parameters.get("service")))
        return {} if service is None else services.of(service.kind).client_parameters(self.plan, name, role)

    def halt(self, side: Side) -> None:
        """Ends a server whose guest is about to be shut down, and keeps what it counted."""
        if side.started:
            self._halted.add(side.role)
            self.control.call(StopRole(side.role), channel=side.channel)
            counted = self.control.call(Collect(side.role), channel=side.channel)["counters"]
            side.before = {name: int(count) + side.before.get(name, 0) for name, count in counted.items()}
        side.started = False

    def forget(self, guest: str) -> None:
        """The guest's kernel ends, and its probe with it."""
        if (channel := self.channels.pop(guest, None)) is not None:
            del self.guests[channel], self.stations.probes[channel]
            self.holders.forget(guest)
            self.control.rest(channel)

    def serve_again(self, side: Side) -> None:
        """A server answers again whose guest has booted, at the port that its clients know. GuestError when it does
        not.
        """
        channel = self.channel(side.guest)
        try:
            self.control.call(self._servers[side.role], channel=channel)
            if side.role in self._halted:
                self.control.call(StartRole(side.role), channel=channel)
        except RefusedError as error:
            what = f"guest {side.guest}, {side.side}: {error.what}"
            raise GuestError(f"roles.{side.role}", what, error.cure) from error
        side.started = side.role in self._halted
        self._halted.discard(side.role)

    def _arm_outside(self, name: str, role: Role, parameters: Mapping[str, Any], seed: int) -> Side:
        """Arms the client of a role whose server is an address outside. GuestError when it refuses."""
        guest, address = str(role.from_), ip_address(role.parameters["address"])
        entry = self.plan.world.guests[guest]
        own = next((each for each in interfaces(entry) if each[2].version == address.version), None)
        if own is None:
            what = f"guest {guest} has no IPv{address.version} address to reach {address} from"
            raise GuestError(f"roles.{name}", what, "name an address of its IP version")
        vnic, port, source = own
        here = RoleEnd(guest, vnic, port.mac, port.mtu_bytes, source)
        there = {"vnic": self.lowered.vnics[guest, vnic].link, "mac": port.mac, "mtu_bytes": port.mtu_bytes}
        said = {key: value for key, value in parameters.items() if key not in NOT_OF_THE_PROBE}
        arm = Arm(
            name,
            "client",
            role.workload,
            parameters={**said, "service": str(address)},
            local=self._endpoint(here, here, local=True),
            peer={**there, "address": str(address), "port": role.parameters["port"]},
            seed=stream_seed(seed, name, "client"),
        )
        return self._armed_client(name, guest, arm)

    def _armed_client(self, name: str, guest: str, arm: Arm) -> Side:
        channel = self.channel(guest)
        try:
            self.control.call(arm, channel=channel)
        except RefusedError as error:
            raise GuestError(f"roles.{name}", f"guest {guest}: {error.what}", error.cure) from error
        return Side(name, "client", guest, channel)

    def _arm_alone(self, name: str, role: Role, parameters: Mapping[str, Any], seed: int) -> Side:
        """Arms a role that sends no traffic."""
        seed = stream_seed(seed, name, "client")
        arm = Arm(name, "client", role.workload, dict(parameters), local={}, peer={}, seed=seed)
        return self._armed_client(name, str(role.from_), arm)

    def _endpoint(self, end: RoleEnd, other: RoleEnd, *, local: bool = False) -> dict[str, Any]:
        place = self.lowered.vnics[end.guest, end.vnic]
        out: dict[str, Any] = {"vnic": place.link, "mac": end.mac, "mtu_bytes": end.mtu_bytes}
        if end.address is not None:
            out["address"] = str(end.address.ip)
        if not local:
            hop = next_hop_mac(self.plan, other, end)
            if hop != end.mac:
                out["next_hop_mac"] = hop
        return out
