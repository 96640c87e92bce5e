"""A backend in closed form: what a round trip across idle FIFO links takes is a sum of serialisation times.

It plays the whole timeline in virtual time and obeys the contract of `virtlab.plan.Backend`, so it stands in
wherever a campaign needs many runs quickly, and it is the reference for arms that measure: an echo cannot be
faster.

A frame of an IP packet of b bytes is at the far end after preamble 8 and max(b + 18, 64) octets, and the link
is free for the next one 12 octets later (IEEE 802.3). Store and forward: one frame takes the sum over its
links; fragments follow each other through them, each as soon as it is there and the link is free.

What it adds for the guests' stacks is exponential with a mean of `STACK_MEAN_NS`, drawn from the trial's
seed.
"""

from __future__ import annotations

import heapq
import ipaddress
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import numpy as np

from virtlab.errors import ExperimentError, GuestError, MachineError
from virtlab.plan import (
    Access,
    Action,
    Capabilities,
    Event,
    Mark,
    Observer,
    Outcome,
    Plan,
    Realised,
    RealisedObject,
    Refusal,
    Role,
    Sink,
    Trial,
)

STACK_MEAN_NS = 20_000
IP_HEADER_BYTES = {4: 20, 6: 40}
ECHO_HEADER_BYTES = 8  # ICMP echo and UDP alike
BLOCK_ROWS = 1000
ACTIONS = ("start", "stop", "run", "set", "wait")


def octets_ns(octets: int, rate_bit_per_s: int) -> int:
    """How long octets take on a link, to the nearest nanosecond."""
    return (octets * 8 * 10**9 + rate_bit_per_s // 2) // rate_bit_per_s


def serialisation_ns(ip_packet_bytes: int, rate_bit_per_s: int) -> int:
    """From a frame's first bit of preamble to its last bit."""
    return octets_ns(max(ip_packet_bytes + 18, 64) + 8, rate_bit_per_s)


def holding_ns(ip_packet_bytes: int, rate_bit_per_s: int) -> int:
    """From a frame's first bit of preamble to the first one of the next."""
    return octets_ns(max(ip_packet_bytes + 18, 64) + 20, rate_bit_per_s)


def fragments(ip_packet_bytes: int, mtu_bytes: int, header_bytes: int = 20) -> list[int]:
    """Sizes of the IP packets that carry one packet across a smaller MTU; all but the last hold a multiple of
    8.
    """
    if ip_packet_bytes <= mtu_bytes:
        return [ip_packet_bytes]
    room = (mtu_bytes - header_bytes) // 8 * 8
    left, sizes = ip_packet_bytes - header_bytes, []
    while left > 0:
        sizes.append(header_bytes + min(room, left))
        left -= room
    return sizes


def one_way_ns(sizes: list[int], path: list[tuple[int, int, int]]) -> int:
    """When the last bit of the last frame is at the far end; `path` is (rate bit/s, propagation ns,
    processing ns).
    """
    free = [0] * len(path)
    arrived = 0
    for size in sizes:
        now = 0
        for hop, (rate, propagation, processing) in enumerate(path):
            begin = max(now, free[hop])
            free[hop] = begin + holding_ns(size, rate)
            now = begin + serialisation_ns(size, rate) + propagation + processing
        arrived = now
    return arrived


def path_between(plan: Plan, source: str, target: str) -> list[tuple[int, int, int]]:
    """Links from guest to guest as (rate, propagation, processing of the switch behind it); [] on one
    vswitch.

    LookupError when there is no path.
    """
    world = plan.world
    edges: dict[str, list[tuple[str, tuple[int, int, int]]]] = {}

    def node(end: str) -> str:
        owner = next((name for name, v in world.vswitches.items() if end in v.uplinks), None)
        if owner:
            return owner
        guest = next(
            (g for g, v in world.guests.items() if any(n.uplink == end for n in v.vnics.values())), None
        )
        return guest or end.rpartition(".")[0]

    def join(a: str, b: str, cost: tuple[int, int]) -> None:
        for here, there in ((a, b), (b, a)):
            processing = world.switches[there].processing_ns if there in world.switches else 0
            edges.setdefault(here, []).append((there, (*cost, processing)))

    for link in world.links.values():
        join(node(link.ends[0]), node(link.ends[1]), (link.rate_bit_per_s, link.propagation_ns))
    for name, guest in world.guests.items():
        for vnic in guest.vnics.values():
            if vnic.vswitch:
                join(name, vnic.vswitch, (0, 0))
    queue: list[tuple[str, list[tuple[int, int, int]]]] = [(source, [])]
    seen = {source}
    while queue:
        here, so_far = queue.pop(0)
        if here == target:
            return [hop for hop in so_far if hop[0]]
        for there, cost in edges.get(here, []):
            if there not in seen:
                seen.add(there)
                queue.append((there, [*so_far, cost]))
    raise LookupError(f"no path from {source} to {target}")


class ClosedForm:
    """The backend.

    For tests: `disturb(plan, n)` is the status of the n-th opened world (or "raise", when its guest fails, or
    "machine"); `slow_s` makes a run take that long in real time, so that it can be killed or interrupted.
    """

    def __init__(
        self,
        *,
        stack_mean_ns: int = STACK_MEAN_NS,
        slow_s: float = 0.0,
        disturb: Callable[[Plan, int], str] = lambda _plan, _opened: "ok",
    ) -> None:
        self.stack_mean_ns = stack_mean_ns
        self.slow_s = slow_s
        self.disturb = disturb
        self.opened: list[Plan] = []

    def capabilities(self) -> Capabilities:
        """Namespaces on bridges, idle FIFO links, echo streams."""
        return Capabilities(
            backend="closed_form",
            platforms={"namespace": None, "native": None},
            vswitches={"linux_bridge": None},
            qdiscs={"fifo/virtlab": None},
            workloads={"rtt": None},
            actions=dict.fromkeys(ACTIONS),
            links={"computed": None},
            parallel_sessions=1024,
            fingerprint={"model": "serialisation sums"},
        )

    def check(self, plan: Plan) -> list[Refusal]:
        """Everything but idle FIFO networks with echo streams."""
        able = self.capabilities()
        found = [
            Refusal(f"roles.{name}.workload", f"'{role.workload}' has no closed form", "use workload rtt")
            for name, role in plan.roles.items()
            if role.workload not in able.workloads
        ]
        for name, guest in plan.world.guests.items():
            if guest.platform not in able.platforms:
                cure = "use platform namespace"
                found.append(
                    Refusal(f"world.guests.{name}.platform", f"'{guest.platform}' has no closed form", cure)
                )
        for name, link in plan.world.links.items():
            for direction, queue in (("ab", link.queue.ab), ("ba", link.queue.ba)):
                if queue.kind != "fifo":
                    path = f"world.links.{name}.queue.{direction}.kind"
                    found.append(Refusal(path, f"'{queue.kind}' has no closed form", "use fifo"))
        found += [
            Refusal(
                f"timeline.{action.id}.do", f"'{action.do}' has no closed form", f"use {', '.join(ACTIONS)}"
            )
            for action in plan.timeline
            if action.do not in ACTIONS
        ]
        return found

    def estimate_ns(self, plan: Plan) -> int:
        """Real time, not virtual."""
        return round(self.slow_s * 1e9) + 5_000_000

    def open(self, plan: Plan, observe: Observer) -> ClosedFormSession:
        """MachineError when `check` refuses."""
        if refusals := self.check(plan):
            raise MachineError(refusals[0].path, refusals[0].reason, refusals[0].cure)
        self.opened.append(plan)
        observe.progress("computing", 0.0)
        return ClosedFormSession(self, plan, observe, self.disturb(plan, len(self.opened) - 1))


@dataclass
class _Echo:
    """One echo role while it runs."""

    role: str
    sent: list[tuple[int, int]] = field(default_factory=list)  # seq, instant
    replies: list[tuple[int, int, int]] = field(default_factory=list)  # seq, sent, rtt
    size: int = 0
    stopped: bool = False


class ClosedFormSession:
    """A world of numbers."""

    def __init__(self, backend: ClosedForm, plan: Plan, observe: Observer, disturbance: str) -> None:
        self._backend = backend
        self._plan = plan
        self._observe = observe
        self._disturbance = disturbance
        self.realised = Realised(
            {
                f"links.{name}": RealisedObject(
                    link.model_dump(exclude_defaults=True),
                    {"rate_bit_per_s": link.rate_bit_per_s},
                    {"rate_bit_per_s": link.rate_bit_per_s},
                    "computed",
                )
                for name, link in plan.world.links.items()
            },
            {"closed_form": "1"},
        )

    def describe(self) -> Access:
        """Addresses only; nobody can walk around in numbers."""
        return Access(
            {
                name: tuple(ip for v in g.vnics.values() for ip in v.ip)
                for name, g in self._plan.world.guests.items()
            }
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._backend = self._backend

    def run(self, trial: Trial, sink: Sink) -> Outcome:
        """Plays the timeline in virtual time."""
        plan = _overridden(self._plan, trial.overrides)
        end = time.monotonic() + self._backend.slow_s
        while time.monotonic() < end:
            if self._observe.cancelled():
                return Outcome("cancelled")
            time.sleep(0.005)
        if self._observe.cancelled():
            return Outcome("cancelled")
        if self._disturbance == "raise":
            raise GuestError("world", "broke down", "mend it")
        if self._disturbance == "machine":
            raise MachineError("world", "the machine cannot now", "mend the machine")
        outcome = _Player(plan, trial.seed, self._backend.stack_mean_ns, sink).play()
        self._observe.progress("computed", 1.0)
        if self._disturbance != "ok" and outcome.status == "ok":
            return Outcome(
                self._disturbance,  # type: ignore[arg-type]
                ("disturbed on purpose",),
                outcome.marks,
                outcome.windows,
                outcome.clocks,
                outcome.censored,
            )
        return outcome


def _overridden(plan: Plan, overrides: Mapping[str, Any]) -> Plan:
    """The Plan with a trial's overrides. ExperimentError when one is not tunable."""
    roles = dict(plan.roles)
    for path, value in overrides.items():
        name, _, parameter = path.partition(".")
        if name not in roles or parameter not in roles[name].tunable:
            raise ExperimentError(
                f"roles.{path}", "is not tunable", f"list {parameter} in roles.{name}.tunable"
            )
        roles[name] = Role.model_validate({**roles[name].model_dump(by_alias=True), parameter: value})
    return plan.model_copy(update={"roles": roles})


class _Player:
    """The timeline in virtual time: a queue of (instant, order, what happens)."""

    def __init__(self, plan: Plan, seed: int, stack_mean_ns: int, sink: Sink) -> None:
        self.plan = plan
        self.seed = seed
        self.stack_mean_ns = stack_mean_ns
        self.sink = sink
        self.now = 0
        self.marks: dict[str, Mark] = {}
        self.censored: list[str] = []
        self.failed: list[str] = []
        self.echoes: dict[str, _Echo] = {}
        self.parameters = {name: role.parameters for name, role in plan.roles.items()}
        self.queue: list[tuple[int, int, Callable[[], None]]] = []
        self.order = 0
        self.begun: set[str] = set()
        self.waiting: dict[str, Action] = {}

    def at(self, instant: int, what: Callable[[], None]) -> None:
        self.order += 1
        heapq.heappush(self.queue, (instant, self.order, what))

    def emit(self, event: str) -> None:
        self.marks.setdefault(event, Mark(self.now))
        self.sink.event(Event(self.now, event))
        for action in self.plan.timeline:
            trigger = action.after
            if trigger is None or action.id in self.begun:
                continue
            met = (
                trigger.event in self.marks
                if trigger.event
                else any(e in self.marks for e in trigger.any)
                if trigger.any
                else all(e in self.marks for e in trigger.all)
            )
            if met:
                self.begun.add(action.id)
                self.at(self.now + trigger.plus_ns, lambda action=action: self.begin(action))

    def play(self) -> Outcome:
        for action in self.plan.timeline:
            if action.after is None:
                self.begun.add(action.id)
                self.at(0, lambda action=action: self.begin(action))
        while self.queue and not self.failed:
            instant, _, what = heapq.heappop(self.queue)
            if instant > self.plan.limits.run_ns:
                self.failed.append(f"the run exceeds limits.run_ns ({self.plan.limits.run_ns} ns)")
                break
            self.now = instant
            what()
        for name, echo in self.echoes.items():
            self.deliver(name, echo)
        windows = {
            name: (self.marks[w.from_].t_ns, self.marks[w.to].t_ns)
            for name, w in self.plan.windows.items()
            if w.from_ in self.marks and w.to in self.marks
        }
        status = "failed" if self.failed else "ok"
        return Outcome(
            status, tuple(self.failed), self.marks, windows, {"virtual": True}, tuple(self.censored)
        )

    def begin(self, action: Action) -> None:
        self.emit(f"{action.id}.started")
        if action.do in {"start", "run"}:
            assert action.role is not None
            self.start(action.id, action.role)
        elif action.do == "stop":
            assert action.role is not None
            if action.role in self.echoes:
                self.echoes[action.role].stopped = True
            self.emit(f"{action.id}.done")
        elif action.do == "set":
            assert action.role is not None
            self.parameters[action.role] |= action.args
            self.emit(f"{action.id}.done")
        elif action.until is None:
            self.at(self.now + (action.for_ns or 0), lambda: self.emit(f"{action.id}.done"))
        else:
            assert action.timeout_ns is not None
            self.poll(action, self.now + action.timeout_ns)

    def poll(self, action: Action, deadline: int) -> None:
        wait = action.until
        assert wait is not None
        if self.holds(wait.series or "", wait.op or ">=", wait.value or 0.0):
            self.emit(f"{action.id}.done")
        elif self.now >= deadline:
            if action.on_timeout == "censor":
                self.censored.append(action.id)
            elif action.on_timeout == "fail":
                self.failed.append(f"{action.id} did not end within {action.timeout_ns} ns")
            self.emit(f"{action.id}.timeout")
        else:
            self.at(min(self.now + wait.every_ns, deadline), lambda: self.poll(action, deadline))

    def holds(self, series: str, op: str, value: float) -> bool:
        """`ROLE.replies` is the only series here: replies so far."""
        role, _, _ = series.rpartition(".")
        replies = (
            sum(s + rtt <= self.now for _, s, rtt in self.echoes[role].replies) if role in self.echoes else 0
        )
        return {
            "<": replies < value,
            "<=": replies <= value,
            ">": replies > value,
            "==": replies == value,
        }.get(op, replies >= value)

    def start(self, id: str, name: str) -> None:  # noqa: A002 - the field's name
        role = self.plan.roles[name]
        assert role.from_ is not None
        assert role.to is not None
        parameters = self.parameters[name]
        header = self.ip_header(role.from_) + ECHO_HEADER_BYTES
        size = parameters.get("ip_packet_bytes") or (
            parameters["frame_bytes"] - 18
            if "frame_bytes" in parameters
            else parameters["payload_bytes"] + header
        )
        echo = self.echoes[name] = _Echo(name, size=size)
        draws = random.Random(f"{self.seed}/{name}")
        mtu = min(v.mtu_bytes for v in self.plan.world.guests[role.from_].vnics.values())
        sizes = fragments(size, mtu, header - ECHO_HEADER_BYTES)
        path = path_between(self.plan, role.from_, role.to)
        wire = one_way_ns(sizes, path) + one_way_ns(sizes, path_between(self.plan, role.to, role.from_))
        left = parameters.get("count")

        def send(number: int) -> None:
            if echo.stopped or number == left:
                self.at(self.now, lambda: self.emit(f"{id}.finished"))
                return
            rtt = wire + round(draws.expovariate(1.0) * self.stack_mean_ns)
            echo.sent.append((number, self.now))
            echo.replies.append((number, self.now, rtt))
            pause = parameters["interval_ns"] if number + 1 != left else rtt
            self.at(self.now + pause, lambda: send(number + 1))

        send(0)

    def ip_header(self, guest: str) -> int:
        first = next(ip for vnic in self.plan.world.guests[guest].vnics.values() for ip in vnic.ip)
        return IP_HEADER_BYTES[ipaddress.ip_interface(first).version]

    def deliver(self, name: str, echo: _Echo) -> None:
        payload = echo.size - self.ip_header(self.plan.roles[name].from_ or "") - ECHO_HEADER_BYTES
        sent = np.array(echo.sent, dtype=np.int64).reshape(-1, 2)
        replies = np.array(echo.replies, dtype=np.int64).reshape(-1, 3)
        if name in self.plan.collect.packets:
            for low in range(0, len(sent), BLOCK_ROWS):
                rows = sent[low : low + BLOCK_ROWS]
                zero = np.zeros(len(rows), dtype=np.int32)
                columns = {"seq": rows[:, 0], "flow": zero, "intended_ns": rows[:, 1], "sent_ns": rows[:, 1]}
                self.sink.block(name, "sent/1", columns | {"payload_bytes": zero + np.int32(payload)})
            for low in range(0, len(replies), BLOCK_ROWS):
                rows = replies[low : low + BLOCK_ROWS]
                columns = {
                    "seq": rows[:, 0],
                    "flow": np.zeros(len(rows), dtype=np.int32),
                    "intended_ns": rows[:, 1],
                    "sent_ns": rows[:, 1],
                    "received_ns": rows[:, 1] + rows[:, 2],
                    "rtt_ns": rows[:, 2],
                    "path_rtt_ns": rows[:, 2],
                }
                self.sink.block(name, "rtt/1", columns)
        counters = {
            "sent_packets": len(sent),
            "sent_bytes": len(sent) * payload,
            "received_packets": len(replies),
            "received_bytes": len(replies) * payload,
            "send_errors": 0,
        }
        self.sink.block(
            name,
            "counter/1",
            {
                "t_ns": np.full(len(counters), self.now, dtype=np.int64),
                "mark": np.array(["stop"] * len(counters), dtype=object),
                "entity": np.array([name] * len(counters), dtype=object),
                "counter": np.array(list(counters), dtype=object),
                "value": np.array(list(counters.values()), dtype=np.int64),
            },
        )
