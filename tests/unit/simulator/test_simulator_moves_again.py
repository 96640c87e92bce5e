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
from virtlab.prediction.migration import Moved, Policy, courses
from virtlab.prediction.moving import enough
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


def test_each_copy_crosses_the_links_between_its_own_hosts() -> None:
    plan = planned("over: network, bandwidth: 1 GB/s, timeout: 60 s")
    assert [plan.world.hosts[name].vnic is not None for name in ("h1", "h2", "h3", "h4")] == [True] * 3 + [
        False
    ]
    _, sink = played(plan)
    rate = 125e6 * 1448 / 1538
    assert sink.moved("migration_time") == [pytest.approx(256e6 / rate * S, rel=0.02)] * 3


DISK = 64 * MEGABYTE


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


def test_the_time_of_a_disk_is_foretold() -> None:
    text = FILE.replace("{platform: qemu, ", "{platform: qemu, disk: {size: 64 MB}, ").replace("ARP", "live")
    totals = []
    for kind in ("shared", "mirrored"):
        experiment = load_text(text.replace("MOVE", f"{PACE}, disk: {kind}"))
        totals.append(
            enough(plan_run(experiment, experiment.points()[0], 0), IDEAL_PROFILE)[0].course.total_s
        )
    assert totals[1] - totals[0] == pytest.approx(DISK / 100e6, rel=1e-6)
