"""Building a world: Steps applied in batches, the soft switch started, every pair that has to talk checked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from ipaddress import ip_interface
from typing import Any, NamedTuple

from virtlab.agents.requests.leader import Apply, Ping, Spawn
from virtlab.agents.requests.switch import Forward
from virtlab.errors import GuestError, MachineError
from virtlab.plan import Observer, Plan
from virtlab.testbed.build import switch_capacity
from virtlab.testbed.build.hosts import copying_pairs
from virtlab.testbed.kinds.lowered import Lowered
from virtlab.testbed.kinds.platform import Guests
from virtlab.testbed.leader.channels import SWITCH
from virtlab.testbed.leader.control import Control, Pending, RefusedError
from virtlab.testbed.steps.neighbours import reach_pairs
from virtlab.testbed.steps.operations import Step, TapAdd

Reached = tuple[str, str, str, str, int]  # 'a -> b', where it asks, far guest, far address, size

BATCH_STEPS = 3000
BATCH_BYTES = 900_000  # a frame holds 1 MiB
APPLY_TIMEOUT_S = 120.0
REACH_DEADLINE_NS = 5_000_000_000
ECHO_TRIES = 4
SMALL_PACKET_BYTES = 84
FIFO_PRIORITY = 10


class Batch(NamedTuple):
    """Steps that fit one frame, and their operations as the agent takes them."""

    steps: list[Step]
    operations: list[dict[str, Any]]


def batches(steps: Sequence[Step]) -> list[Batch]:
    """Steps in order, cut so that each batch fits one frame."""
    found = [Batch([], [])]
    size = 0
    for step in steps:
        operation = step.op.json()
        length = len(json.dumps(operation)) + 2
        if found[-1].steps and (len(found[-1].steps) >= BATCH_STEPS or size + length > BATCH_BYTES):
            found.append(Batch([], []))
            size = 0
        found[-1].steps.append(step)
        found[-1].operations.append(operation)
        size += length
    return found


@dataclass(frozen=True, slots=True)
class Sent:
    """Steps on their way to a leader: requests whose replies `finish` waits for."""

    requests: tuple[tuple[Pending[Any], list[Step]], ...]


def send(control: Control, steps: Sequence[Step], *, channel: int) -> Sent:
    """Has the leader of a channel begin all Steps, while others do theirs."""
    return Sent(tuple((_ask(control, batch, channel), batch.steps) for batch in batches(steps)))


def finish(control: Control, sent: Sent) -> None:
    """Waits until Steps that were sent are applied. MachineError names the Plan's object, with the kernel's words."""
    for number, batch in sent.requests:
        try:
            control.wait(number, timeout_s=APPLY_TIMEOUT_S)
        except RefusedError as error:
            raise _refused(batch, error) from error


def apply(control: Control, steps: Sequence[Step], observe: Observer, *, channel: int = 0) -> None:
    """Applies all Steps by the leader of a channel, none after a batch that failed. MachineError as of `finish`."""
    done = 0
    for batch in batches(steps):
        finish(control, Sent(((_ask(control, batch, channel), batch.steps),)))
        done += len(batch.steps)
        if channel == 0:
            observe.progress("build the world", done / len(steps))


def _ask(control: Control, batch: Batch, channel: int) -> Pending[Any]:
    return control.send(Apply(batch.operations), channel=channel)


def _refused(batch: Sequence[Step], error: RefusedError) -> MachineError:
    index = error.error.get("index")
    step = batch[index] if isinstance(index, int) and index < len(batch) else None
    what = error.error.get("kernel") or error.error.get("what")
    if step is not None and isinstance(step.op, TapAdd):
        what = error.error.get("what")  # which device could not be opened
    where = step.because if step is not None else "world"
    doing = f"{step.op.op}: " if step is not None else ""
    return MachineError(where, f"{doing}{what}", "`virtlab doctor` lists what this machine can do")


def start_switch(control: Control, lowered: Lowered, *, cpu: int | None, root: bool) -> dict[str, Any]:
    """Starts the soft switch in `fabric` and configures it; what it said of its sleeps. MachineError when it cannot."""
    request = lowered.soft_switch
    assert request is not None
    if root and request.spin != "always":
        # Beside other work only a real-time priority keeps departures on time; it sleeps, then spins briefly.
        request = replace(request, fifo_priority=FIFO_PRIORITY)
    control.call(Spawn(SWITCH, "switch", "fabric", None if cpu is None else [cpu]))
    control.greet(SWITCH)
    try:
        said = control.call(request, channel=SWITCH)
        control.call(Forward(), channel=SWITCH)
    except RefusedError as error:
        raise MachineError("links", f"the soft switch refused: {error.what}", error.cure) from error
    stored = switch_capacity.stored()
    capacity = (
        {}
        if stored is None
        else {"capacity_small_pps": stored.small_pps, "capacity_full_pps": stored.full_pps}
    )
    return {**said, **capacity, "fifo_priority": request.fifo_priority, "cpu": cpu}


def check_reach(
    control: Control, plan: Plan, lowered: Lowered, guests: Guests, *, patience: int = 1
) -> dict[str, int]:
    """Every pair that talks answers an echo, a small one and one of the full MTU; 'a -> b' to the RTT in ns.

    So do hosts between which a guest is copied over links, at addresses of their own.

    `patience`: how many times longer than on this machine an answer may take. GuestError names the first pair that does
    not. From an existing host whose user may send no echoes nothing is asked, which its record says; its roles will
    show it.
    """
    pairs = reach_pairs(plan)
    queries: dict[int, tuple[list[dict[str, Any]], list[Reached]]] = {}
    for (guest, address, mtu), (far_guest, far_address, far_mtu) in pairs:
        requests, names = queries.setdefault(guests.reach(guest).leader, ([], []))
        for size in (SMALL_PACKET_BYTES, min(mtu, far_mtu)):
            requests.append(
                {
                    "namespace": lowered.guests[guest],
                    "from": address,
                    "to": far_address,
                    "ip_packet_bytes": size,
                }
            )
            names.append((f"{guest} -> {far_guest}", f"guests.{guest}", far_guest, far_address, size))
    _ask_hosts(plan, lowered, queries)
    deadline_ns = REACH_DEADLINE_NS * (
        4 if lowered.machines else patience
    )  # an emulated guest takes its time
    deadline_s = deadline_ns / 1e9
    answers: dict[Reached, int | None] = {}
    for _ in range(ECHO_TRIES):
        answers |= _echoes(control, guests, queries, deadline_ns // ECHO_TRIES)
        # One echo may be lost where a virtual switch decides for the first time: what was not answered is asked again.
        queries = {
            at: ([each for each, name in lost], [name for each, name in lost])
            for at, (requests, names) in queries.items()
            if (
                lost := [
                    (each, name)
                    for each, name in zip(requests, names, strict=True)
                    if name in answers and answers[name] is None
                ]
            )
        }
        if not queries:
            break
    reached: dict[str, int] = {}
    for (name, where, far, address, size), rtt_ns in answers.items():
        if rtt_ns is None:
            what = f"does not reach {far} ({address}) with packets of {size} B within {deadline_s:g} s"
            raise GuestError(
                where,
                what,
                "check MTU, links and routes of the path: `virtlab plan FILE --point 0`",
            )
        reached[name] = int(rtt_ns)
    return reached


def _ask_hosts(
    plan: Plan, lowered: Lowered, queries: dict[int, tuple[list[dict[str, Any]], list[Reached]]]
) -> None:
    """Adds the echoes from each host from which a guest is copied to the one where it goes, by the world's leader."""
    for source, to in copying_pairs(plan):
        pair = plan.world.hosts[source].vnic, plan.world.hosts[to].vnic
        if pair[0] is None or pair[1] is None:
            continue
        here, there = (str(ip_interface(vnic.ip[0]).ip) for vnic in pair if vnic is not None)
        requests, names = queries.setdefault(0, ([], []))
        for size in (SMALL_PACKET_BYTES, min(vnic.mtu_bytes for vnic in pair if vnic is not None)):
            namespace = lowered.hosts[source].namespace
            requests.append({"namespace": namespace, "from": here, "to": there, "ip_packet_bytes": size})
            own = f"hosts.{source}.vnic"
            names.append((f"{own} -> hosts.{to}.vnic", own, f"hosts.{to}.vnic", there, size))


def _echoes(
    control: Control,
    guests: Guests,
    queries: Mapping[int, tuple[list[dict[str, Any]], list[Reached]]],
    deadline_ns: int,
) -> dict[Reached, int | None]:
    """One echo each, by the leaders that can send it: its RTT in ns, None when none came."""
    answers: dict[Reached, int | None] = {}
    # Leaders inside guests first, all at once: the world's own does nothing else while it asks.
    order = sorted(queries, reverse=True)
    for leaders in ([at for at in order if at], [at for at in order if not at]):
        numbers = [control.send(Ping(queries[at][0], deadline_ns), channel=at) for at in leaders]
        for at, number in zip(leaders, numbers, strict=True):
            try:
                reply = control.wait(number, timeout_s=deadline_ns / 1e9 + 10)
            except RefusedError as error:
                if not any(each.unasked(at, error.what) for each in guests.running):
                    raise
                continue
            if len(reply["answers"]) != len(queries[at][1]):
                told = f"it has {len(reply['answers'])} answers to {len(queries[at][1])} echoes"
                raise control.breach(at, told, "ping")
            answers |= dict(zip(queries[at][1], reply["answers"], strict=True))
    return answers
