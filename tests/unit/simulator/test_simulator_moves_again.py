"""Guests that move several times in one run of the simulator: back, and on to a third host."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from tests.unit.simulator.test_simulator_moves import MEGABYTE, Kept, S, answered, played

from virtlab.experiment import load_text
from virtlab.plan import Plan
from virtlab.planner import plan_run
from virtlab.planner.mobility.moves import moves, source_of
from virtlab.prediction.migration import Moved, Policy, courses
from virtlab.prediction.migration.enough import enough
from virtlab.simulator import Simulator
from virtlab.simulator.profile import IDEAL_PROFILE

FILE = """\
version: 1
name: moves
title: A guest moves, and moves again
hosts:
  h1: {platform: qemu, memory: 256 MB, vcpus: 2, cpus: 2}
  h2: {cpus: 2}
  h3: {cpus: 2}
  h4: {}
topology: star
link: {rate: 1 Gbit/s}
network: {arp: ARP}
roles:
  probe: {workload: rtt, from: h4.g1, to: h1.g1, size: 100 B ip_packet, interval: 5 ms, count: 100000, timeout: 100 ms}
  ask: {workload: request_response, from: h4.g1, to: h1.g1, duration: 120 s, rate: 100 request/s, demand: 5 ms,
        threads: 4, connections: 4, timeout: 5 s}
timeline:
  - {id: load, do: start, role: probe}
  - {id: asking, do: start, role: ask}
  - {id: go, do: migrate, guest: h1.g1, to: h2, MOVE, after: load.started + 2 s}
  - {id: on, do: migrate, guest: h1.g1, to: h3, MOVE, after: go.finished + 2 s}
  - {id: home, do: migrate, guest: h1.g1, to: h1, MOVE, after: on.finished + 2 s}
  - {id: settle, do: wait, for: 2 s, after: home.finished}
  - {id: end, do: stop, role: probe, after: settle.done}
  - {id: asked, do: stop, role: ask, after: settle.done}
windows: {measured: {from: load.started, to: end.done}}
collect: {series: {host.cpu: 100 ms}}
"""
MOVES = ("go", "on", "home")
PACE = "bandwidth: 100 MB/s, timeout: 60 s"


def planned(move: str, arp: str = "live") -> Plan:
    experiment = load_text(FILE.replace("MOVE", move).replace("ARP", arp))
    return plan_run(experiment, experiment.points()[0], 0)


def used(sink: Kept, host: str, begin_ns: int, end_ns: int) -> float:
    """Processors of a host that were used on average."""
    found: list[Any] = []
    for stream, schema, columns in sink.blocks:
        if (stream, schema) == ("series", "series/1"):
            own = (columns["entity"] == f"hosts.{host}") & (columns["metric"] == "cpu")
            inside = own & (columns["t_ns"] > begin_ns + S // 10) & (columns["t_ns"] <= end_ns)
            found.extend(columns["value"][inside])
    assert found, host
    return float(np.mean(found))


@pytest.mark.slow
@pytest.mark.parametrize("arp", ["live", "static"])
def test_a_guest_is_found_and_works_wherever_it_has_moved(arp: str) -> None:
    outcome, sink = played(planned(PACE, arp))
    assert {f"{name}.finished" for name in MOVES} <= set(outcome.marks)
    one = courses([Moved(256 * MEGABYTE)], 100e6, Policy(rule="qemu"))[0]
    assert sink.moved("pause") == [pytest.approx(one.pause_s * S, abs=10)] * 3
    assert sink.moved("migration_time") == [pytest.approx(one.total_s * S, abs=10)] * 3
    _, arrived = answered(sink)
    edges = [
        outcome.windows["measured"][0],
        *(sink.at(f"{name}.{edge}") for name in MOVES for edge in ("paused", "resumed")),
        outcome.windows["measured"][1],
    ]
    stays = list(pairwise(edges))[::2]
    for begin, end in stays:
        assert ((arrived > begin) & (arrived < end)).sum() > 300
    for begin, end in list(pairwise(edges))[1::2]:
        assert not ((arrived > begin) & (arrived < end)).any()
    for (begin, end), host in zip(stays, ("h1", "h2", "h3", "h1"), strict=True):
        for each in ("h1", "h2", "h3"):
            busy = used(sink, each, begin, end)
            assert busy == pytest.approx(0.25 if each == host else 0.0, abs=0.05), (host, each)


def test_each_move_has_what_is_enough_for_it() -> None:
    assert [each.action for each in enough(planned(PACE), IDEAL_PROFILE)] == list(MOVES)


@pytest.mark.slow
def test_each_copy_crosses_the_links_between_its_own_hosts() -> None:
    plan = planned("over: network, bandwidth: 1 GB/s, timeout: 60 s")
    assert [plan.world.hosts[name].vnic is not None for name in ("h1", "h2", "h3", "h4")] == [True] * 3 + [
        False
    ]
    _, sink = played(plan)
    rate = 125e6 * 1448 / 1538
    assert sink.moved("migration_time") == [pytest.approx(256e6 / rate * S, rel=0.02)] * 3


DISK = 64 * MEGABYTE


@pytest.mark.slow
def test_a_disk_that_is_mirrored_is_copied_before_the_memory_and_one_that_is_shared_is_not() -> None:
    words = f"disk: {{size: {DISK // 10**6} MB}}, "
    text = FILE.replace("{platform: qemu, ", f"{{platform: qemu, {words}").replace("ARP", "live")

    def of_kind(kind: str) -> Kept:
        experiment = load_text(text.replace("MOVE", f"{PACE}, disk: {kind}"))
        return played(plan_run(experiment, experiment.points()[0], 0))[1]

    shared, mirrored = of_kind("shared"), of_kind("mirrored")
    assert shared.moved("migration_disk_sent") == []
    assert mirrored.moved("migration_disk_sent") == [pytest.approx(DISK, rel=1e-9)] * 3
    assert mirrored.moved("pause") == [pytest.approx(each, abs=10) for each in shared.moved("pause")]
    longer = DISK / 100e6 * S
    assert mirrored.moved("migration_time") == [
        pytest.approx(each + longer, abs=10) for each in shared.moved("migration_time")
    ]
    for sink in (shared, mirrored):
        assert sink.moved("migration_sent") == [pytest.approx(256e6, rel=1e-9)] * 3


@pytest.mark.slow
def test_the_time_of_a_disk_is_foretold() -> None:
    text = FILE.replace("{platform: qemu, ", "{platform: qemu, disk: {size: 64 MB}, ").replace("ARP", "live")
    totals = []
    for kind in ("shared", "mirrored"):
        experiment = load_text(text.replace("MOVE", f"{PACE}, disk: {kind}"))
        totals.append(
            enough(plan_run(experiment, experiment.points()[0], 0), IDEAL_PROFILE)[0].course.total_s
        )
    assert totals[1] - totals[0] == pytest.approx(DISK / 100e6, rel=1e-6)


@pytest.mark.slow
def test_what_a_guest_writes_to_its_disk_while_that_is_mirrored_is_sent_again() -> None:
    write_bytes = 64 << 10
    text = FILE.replace("{platform: qemu, ", "{platform: qemu, disk: {size: 64 MB}, ").replace("ARP", "live")
    text = text.replace("demand: 5 ms,", f"demand: 5 ms, write: {write_bytes} B, write_mode: fsync,")
    experiment = load_text(text.replace("MOVE", f"{PACE}, disk: mirrored"))
    _, sink = played(plan_run(experiment, experiment.points()[0], 0))
    rate = 100 * write_bytes
    sent_bytes, total_ns = sink.moved("migration_disk_sent"), sink.moved("migration_time")
    for name, sent, took_ns in zip(MOVES, sent_bytes, total_ns, strict=True):
        until_paused_s = (sink.at(f"{name}.paused") - sink.at(f"{name}.started")) / S
        assert sent - DISK == pytest.approx(until_paused_s * rate, abs=4 * write_bytes), name
        # The disk has what its writes leave of the bandwidth; memory is copied beside them.
        assert took_ns / S == pytest.approx(DISK / (100e6 - rate) + 256e6 / 100e6, rel=0.01), name


def tried_again(*, first: str, mode: str = "pre_copy") -> Plan:
    """A move to h2 at a rate, given up after 4 s, another try at 100 MB/s, and then home."""
    rate = "" if mode == "cold" else f"bandwidth: {first}, "
    slow = f"to: h2, mode: {mode}, {rate}timeout: 4 s, on_timeout: cancel"
    text = FILE.replace("ARP", "static").replace("to: h2, MOVE", slow)
    text = text.replace(
        "{id: on, do: migrate, guest: h1.g1, to: h3, MOVE, after: go.finished + 2 s}",
        f"{{id: on, do: migrate, guest: h1.g1, to: h2, {PACE}, after: {{any: [go.cancelled, go.failed]}}}}",
    ).replace("MOVE, after: on.finished + 2 s", f"{PACE}, after: {{any: [go.finished, on.finished]}}")
    experiment = load_text(text)
    return plan_run(experiment, experiment.points()[0], 0)


@pytest.mark.slow
@pytest.mark.parametrize(("first", "again"), [("10 MB/s", True), ("100 MB/s", False)])
def test_a_move_that_is_given_up_is_tried_again_from_where_it_was_to_begin(
    first: str, *, again: bool
) -> None:
    plan = tried_again(first=first)
    assert [source_of(plan, action) for action in moves(plan)["h1.g1"]] == ["h1", "h1", "h2"]
    outcome, sink = played(plan)
    arrived = {"on" if again else "go", "home"}
    assert {name for name in MOVES if f"{name}.finished" in outcome.marks} == arrived
    assert ("on.started" in outcome.marks) == again
    assert len(sink.moved("pause")) == 2
    _, at_ns = answered(sink)
    for name in arrived:
        begin_ns = outcome.marks[f"{name}.finished"].t_ns
        assert ((at_ns > begin_ns) & (at_ns < begin_ns + S)).sum() > 100, f"it is found after {name}"


def test_who_was_shut_down_is_not_moved_again_from_where_it_was() -> None:
    found = {each.path: each.reason for each in Simulator().check(tried_again(first="10 MB/s", mode="cold"))}
    assert "is shut down by 'go'" in found["timeline.on.after"]
