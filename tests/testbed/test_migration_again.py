"""A virtual machine moves several times in one run: there and back, and on to a third host.

Two machines of it exist at a time, however often it moves. `VIRTLAB_TEST_MOVES=20` has it move so often there and back.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Any

import machine_world as machines
import numpy as np
import process_world as processes
import pytest
import testbed_world as worlds
from migration_world import S, of_migration, on_and_on, three_hosts, waiting_machine

from virtlab.errors import GuestError
from virtlab.plan import Event, Outcome, Plan, SeriesRequest, Trial
from virtlab.testbed import Testbed
from virtlab.testbed.session import TestbedSession

pytestmark = [
    pytest.mark.skipif(machines.missing() is not None, reason=str(machines.missing())),
    pytest.mark.timeout(1800),
]
ASKED = "VIRTLAB_TEST_MOVES"
MOVES = int(os.environ.get(ASKED, "3"))
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
GROWN_BYTES = 4 << 20  # of a leader: what it keeps of samples on their way
RATE_BYTE_PER_S = 80_000_000


class CountingSink(worlds.MemorySink):
    """Counts what the world holds each time that the machine has arrived."""

    def __init__(self, leader: int) -> None:
        super().__init__()
        self.leader = leader
        self.held: list[dict[str, int]] = []

    def event(self, event: Event) -> None:
        super().event(event)
        if event.what.endswith(".resumed"):
            self.held.append(held(self.leader))


def held(leader: int) -> dict[str, int]:
    """Descriptors, taps, resident memory and machines of a world, by the process that leads it."""
    inside = next(pid for pid in processes.named(b"virtlab-agent") if pid != leader)
    of = Path(f"/proc/{inside}")
    taps = sum("tap" in read_link(path) or "tun" in read_link(path) for path in (of / "fd").iterdir())
    return {
        "descriptors": len(list((of / "fd").iterdir())),
        "taps": taps,
        "memory": int((of / "statm").read_text().split()[1]) * PAGE_BYTES,
        "machines": len(processes.named(b"qemu-system-x86_64")),
    }


def read_link(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return ""


def played(session: TestbedSession, sink: worlds.MemorySink, number: int = 0) -> Outcome:
    outcome = session.run(Trial(f"t{number}", 1 + number), sink)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    return outcome


def opened(plan: Plan) -> TestbedSession:
    assert Testbed().check(plan) == []
    session = Testbed().open(plan, worlds.Patient())
    assert isinstance(session, TestbedSession)
    return session


def answers(sink: worlds.MemorySink) -> tuple[Any, Any]:
    """Numbers in the order of the answers, and when each answer was there, in ns."""
    kept = [columns for _, schema, columns in sink.blocks if schema == "rtt/1"]
    numbers = np.concatenate([each["seq"] for each in kept])
    at_ns = np.concatenate([each["sent_ns"] + each["rtt_ns"] for each in kept])
    order = np.argsort(at_ns, kind="stable")
    return numbers[order], at_ns[order]


def check_each_stay(sink: worlds.MemorySink, moves: list[str]) -> None:
    """Its clients find it wherever it is, no number is answered twice, and none while it stands still."""
    numbers, at_ns = answers(sink)
    assert len(np.unique(numbers)) == len(numbers)
    at = {event.what: event.t_ns for event in sink.events}
    for name, onwards in zip(moves, [*moves[1:], None], strict=True):
        assert not ((at_ns > at[f"{name}.paused"] + 10**7) & (at_ns < at[f"{name}.resumed"])).any()
        leaves_ns = at[f"{onwards}.paused"] if onwards is not None else at_ns[-1] + 1
        assert ((at_ns > at[f"{name}.resumed"]) & (at_ns < leaves_ns)).sum() > 50, name
    assert len(of_migration(sink, "pause")) == len(moves)


@pytest.mark.parametrize("arp", ["live", "static"])
def test_a_machine_moves_there_and_on_to_a_third_host_and_back(arp: str) -> None:
    with opened(
        on_and_on("h3", "h1", rate_byte_per_s=RATE_BYTE_PER_S, world=three_hosts() | {"arp": arp})
    ) as session:
        for number in range(2):
            sink = worlds.MemorySink()
            outcome = played(session, sink, number)
            assert {"go.finished", "go1.finished", "go2.finished"} <= outcome.marks.keys()
            check_each_stay(sink, ["go", "go1", "go2"])
            entries = [event for event in sink.events if event.what.endswith(".entry")]
            assert bool(entries) == (arp == "static")
            # Who is back where it began can move again: a world takes several trials.


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="two hosts with a processor each need two")
def test_a_machine_moves_back_by_being_shut_down_to_the_processors_of_its_host() -> None:
    world = three_hosts()
    for link in world["links"].values():
        link["realise"] = "shaping"  # the soft switch would take a processor
    for name in ("h1", "h2"):
        world["hosts"][name] = {"cpus": 1}
    # At its first host it is in a pool of all of its processors, and at the other in none.
    world["pools"] = {"h1.p": {"host": "h1", "cpus": 1}}
    world["guests"]["v"]["pool"] = "h1.p"
    plan = on_and_on("h1", world=world, rate_byte_per_s=RATE_BYTE_PER_S, modes={1: "cold"})
    series = (SeriesRequest(source="guest.cpu", every_ns=S // 20),)
    into = {"h1": "h1.p", "h2": "none"}
    timeline = tuple(
        each.model_copy(update={"pool": into[str(each.to)]}) if each.do == "migrate" else each
        for each in plan.timeline
    )
    collect = plan.collect.model_copy(update={"series": series})
    plan = plan.model_copy(update={"collect": collect, "timeline": timeline})
    with opened(plan) as session:
        objects = session.realised.objects
        given = [objects[f"hosts.{name}"].applied["processors"] for name in ("h1", "h2")]
        assert given[0] != given[1]
        assert [objects[f"hosts.{name}"].read_back["v"]["processors"] for name in ("h1", "h2")] == given
        there = waiting_machine()
        (here,) = set(processes.named(b"qemu-system-x86_64")) - {there}
        assert [may_run_on(here), may_run_on(there)] == given
        sink = worlds.MemorySink()
        outcome = played(session, sink)
        assert {"go.finished", "go1.finished"} <= outcome.marks.keys()
        (back,) = set(processes.named(b"qemu-system-x86_64")) - {here, there}
        assert may_run_on(back) == given[0]
        objects = session.realised.objects
        assert [objects[f"hosts.{name}"].read_back["v"]["processors"] for name in ("h1", "h2")] == given
        assert objects["pools.h1.p"].read_back == {"v": {"processors": given[0]}}
        # It has a machine at one host alone now, on a processor that the world has, but its host has not.
        os.sched_setaffinity(back, given[1])
        (wrong,) = session._guests.confinement.look(session.leader.control)  # type: ignore[union-attr]
        told = f"may run on processors {given[1][0]}, not only on {given[0][0]}, where it is at h1"
        assert told in str(wrong)
    at = {event.what: event.t_ns for event in sink.events}
    assert {"go1.off", "go1.on"} <= at.keys()
    assert len(of_migration(sink, "pause")) == 2
    # What either machine uses is told apart, and used of the host where it is.
    before = used(sink, "guests.v.at.h1", 0, at["go.paused"])
    there = at["go.resumed"] + S // 4, at["go1.off"]  # the machine that it has left may be ending for a while
    assert used(sink, "guests.v.at.h1", *there) < before / 2
    assert used(sink, "guests.v.at.h1", *there) < used(sink, "guests.v.at.h2", *there)
    for host in ("h1", "h2"):
        both = [of_series(sink, entity, metric) for entity, metric in (
            (f"hosts.{host}", "cpu"), (f"guests.v.at.{host}", "cpu"), (f"guests.v.at.{host}", "host_cpu_share"),
        )]  # fmt: skip
        assert len(both[0]) > 10
        assert min(both[0].values()) >= 0
        assert [*both[1].values()] == pytest.approx([*both[2].values()])  # one processor


def of_series(sink: worlds.MemorySink, entity: str, metric: str) -> dict[int, float]:
    """Values of a series by instant."""
    found: dict[int, float] = {}
    for columns in (columns for _, schema, columns in sink.blocks if schema == "series/1"):
        chosen = (columns["entity"] == entity) & (columns["metric"] == metric)
        found |= dict(zip(columns["t_ns"][chosen].tolist(), columns["value"][chosen].tolist(), strict=True))
    return found


def used(sink: worlds.MemorySink, entity: str, begin_ns: int, end_ns: int) -> float:
    """Processors that an entity used in a time, on average; 0 where it had no process."""
    values = [value for t_ns, value in of_series(sink, entity, "cpu").items() if begin_ns <= t_ns <= end_ns]
    return float(np.mean(values)) if values else 0.0


def may_run_on(pid: int) -> list[int]:
    """Processors of all threads of a process together."""
    found: set[int] = set()
    for thread in list(Path(f"/proc/{pid}/task").iterdir()):
        with contextlib.suppress(ProcessLookupError):  # it has ended meanwhile
            found |= os.sched_getaffinity(int(thread.name))
    return sorted(found)


def test_a_move_from_where_the_machine_never_came_is_no_move() -> None:
    values = on_and_on("h1", rate_byte_per_s=1_000_000).model_dump(mode="json", by_alias=True)
    go, back = values["timeline"][1:3]
    go["timeout_ns"] = S
    back["after"] = {"any": ["go.finished", "go.cancelled"]}
    values["timeline"][3]["after"] = {"any": ["go1.finished", "go.cancelled"]}
    with (
        opened(Plan.model_validate(values)) as session,
        pytest.raises(GuestError, match="is at h1, and 'go1' expects it at h2"),
    ):
        session.run(Trial("t0", 1), worlds.MemorySink())


def test_moves_there_and_back_grow_no_descriptor_no_tap_and_no_memory() -> None:
    hosts = ["h1" if number % 2 else "h2" for number in range(1, MOVES)]
    with opened(on_and_on(*hosts, rate_byte_per_s=RATE_BYTE_PER_S)) as session:
        leader = session.leader.process.pid  # type: ignore[attr-defined]
        before, sink = held(leader), CountingSink(leader)
        outcome = played(session, sink)
        moves = ["go", *(f"go{number}" for number in range(1, MOVES))]
        assert {f"{name}.finished" for name in moves} <= outcome.marks.keys()
        check_each_stay(sink, moves)
        deadline = time.monotonic() + 10
        while len(processes.named(b"qemu-system-x86_64")) > 1 and time.monotonic() < deadline:
            time.sleep(0.1)
        after = held(leader)
    assert after["machines"] == 1
    assert before["machines"] == 2
    assert all(each["machines"] <= 2 for each in sink.held)
    assert after["descriptors"] <= before["descriptors"]
    assert after["taps"] == before["taps"]
    assert after["memory"] - sink.held[0]["memory"] <= GROWN_BYTES
    assert not processes.named(b"qemu-system-x86_64")
