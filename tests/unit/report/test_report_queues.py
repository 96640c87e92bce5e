"""Rows of queues in a report: which port, who queued there, how long packets waited, and where they waited most."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import duckdb
import numpy as np
import pytest

from virtlab.experiment.load import load_text
from virtlab.plan import Plan
from virtlab.planner import plan_run
from virtlab.report.gather.queues import LOST, MARK, queues
from virtlab.report.tables.queues import about, queues_table
from virtlab.testbed.build.lower import lower
from virtlab.testbed.build.ports import as_built
from virtlab.testbed.play.queue_waits import Waiting

if TYPE_CHECKING:
    from virtlab.report.gather.queues import LOST, Row

FILE = """
version: 1
name: ports
hosts: {h1: {queue: {kind: tbf, rate: 50 Mbit/s, burst: 10 kB, by: kernel}, queue_at: PLACE}, h2: {}}
topology: {shape: line, switches: 1}
link: {rate: 100 Mbit/s, realise: shaping}
roles: {probe: {workload: rtt, from: h2.g1, to: h1.g1}}
"""
GUEST_PORT = "h1.br → h1.g1"
RUN_NS = 2_000_000_000


@pytest.fixture
def db() -> Iterator[duckdb.DuckDBPyConnection]:
    """The counters of a dataset, as its view has them."""
    with duckdb.connect() as opened:
        opened.execute(
            "CREATE TABLE counter (run VARCHAR, entity VARCHAR, counter VARCHAR, t_ns BIGINT, value BIGINT, status VARCHAR)"
        )
        yield opened


def planned(place: str) -> Plan:
    made = load_text(FILE.replace("PLACE", place), name="ports.yaml")
    return plan_run(made, made.points()[0], 0)


def directions(plan: Plan) -> dict[str, tuple[str, str]]:
    """Link and direction of the guest's port and of the uplink, as the report names them."""
    link = plan.world.links["h1-s1"]
    return {GUEST_PORT: ("h1.g1.eth0", "ab"), " → ".join(link.ends): ("h1-s1", "ab")}


def run(
    db: duckdb.DuckDBPyConnection,
    plan: Plan,
    name: str,
    waiting: dict[str, list[tuple[int, int]]],
    packets: int,
) -> Any:
    """A run of the testbed: `waiting` has the sampled backlog of ports by direction (instant, packets waiting)."""
    lowered = lower(as_built(plan, "shaping"))
    known = directions(plan)
    samples = Waiting()
    for far, seen in waiting.items():
        queue = lowered.queues[known[far]]
        samples.take(
            {
                "t_ns": np.array([t_ns for t_ns, _ in seen]),
                "entity": np.array([f"{queue.namespace}/{queue.link}"] * len(seen), dtype=object),
                "metric": np.array(["backlog_packets"] * len(seen), dtype=object),
                "value": np.array([float(waits) for _, waits in seen]),
            }
        )
    rows = [
        (t_ns, line, counter, value)
        for t_ns, _, line, counter, value in samples.rows(lowered.queues, 0, RUN_NS)
    ]
    for far in waiting:
        line = "links." + ".".join(known[far])
        rows += [(0, line, "packets", 10), (RUN_NS, line, "packets", 10 + packets)]
        rows += [(0, line, "backlog_packets", 0), (RUN_NS, line, "backlog_packets", waiting[far][-1][1])]
    db.executemany(
        "INSERT INTO counter VALUES (?, ?, ?, ?, ?, 'ok')",
        [(name, line, counter, t_ns, value) for t_ns, line, counter, value in rows],
    )
    objects = {f"links.{link}": SimpleNamespace(by=by) for link, by in lowered.links.items()}
    return SimpleNamespace(
        name=name, point=0, plan=plan, backend="testbed", realised=SimpleNamespace(objects=objects)
    )


def by_direction(rows: tuple[Row, ...]) -> dict[str, Row]:
    return {row["direction"]: row for row in rows}


@pytest.mark.slow
def test_a_row_of_a_kernels_port_names_it_with_the_wait_by_littles_law_and_the_backlog(
    db: duckdb.DuckDBPyConnection,
) -> None:
    plan = planned("guest")
    # 4 packets wait for one second and 1 for the other: 5 packet seconds, of 1000 packets 5 ms each.
    record = run(db, plan, "p0-r0", {GUEST_PORT: [(0, 4), (10**9, 1)]}, packets=1000)
    (row,), (seen,) = queues(db, [record], {})
    assert (row["direction"], row["queue"]) == (GUEST_PORT, "tbf, kernel, at the port itself")
    assert (row["packets"], row["mean wait"]) == ("1000", "5 ms")
    assert (row["most waiting"], row["waiting at the end"]) == ("4", "1")
    assert seen.wait_mean_ns == 5e6
    assert row[MARK] == "", "with one queue there is nothing to tell apart"


@pytest.mark.slow
def test_of_the_two_ports_the_one_where_packets_really_waited_is_said(db: duckdb.DuckDBPyConnection) -> None:
    plan = planned("both")
    (uplink,) = set(directions(plan)) - {GUEST_PORT}
    records = [
        run(db, plan, "p0-r0", {GUEST_PORT: [(0, 1)], uplink: [(0, 30)]}, packets=1000),
        run(db, plan, "p0-r1", {GUEST_PORT: [(0, 3)], uplink: [(0, 10)]}, packets=1000),
    ]
    rows, _ = queues(db, records, {})
    found = by_direction(rows)
    assert found[GUEST_PORT]["queue"] == "tbf, kernel, at the port itself"
    assert found[uplink]["queue"] == "tbf, kernel, shaped by HTB"
    assert (found[GUEST_PORT]["mean wait"], found[uplink]["mean wait"]) == ("4 ms", "40 ms")
    assert (found[GUEST_PORT][MARK], found[uplink][MARK]) == ("", "here")
    shown = queues_table(rows)
    assert shown is not None
    assert MARK in str(shown["head"])
    assert "waited longest" in about(rows)


@pytest.mark.slow
def test_the_port_towards_the_guest_is_said_where_it_is_the_one(db: duckdb.DuckDBPyConnection) -> None:
    plan = planned("both")
    (uplink,) = set(directions(plan)) - {GUEST_PORT}
    rows, _ = queues(db, [run(db, plan, "p0-r0", {GUEST_PORT: [(0, 9)], uplink: [(0, 2)]}, packets=100)], {})
    assert {row["direction"] for row in rows if row[MARK]} == {GUEST_PORT}


@pytest.mark.slow
def test_where_nothing_waited_no_port_is_said(db: duckdb.DuckDBPyConnection) -> None:
    plan = planned("both")
    (uplink,) = set(directions(plan)) - {GUEST_PORT}
    rows, _ = queues(db, [run(db, plan, "p0-r0", {GUEST_PORT: [(0, 0)], uplink: [(0, 0)]}, packets=100)], {})
    assert len(rows) == 2
    assert not [row for row in rows if row[MARK]]
    assert "waited longest" not in about(rows)


def test_what_a_cut_of_its_link_cost_is_in_the_row_of_a_queue(db: duckdb.DuckDBPyConnection) -> None:
    plan = planned("guest")
    record = run(db, plan, "p0-r0", {GUEST_PORT: [(0, 4)]}, packets=1000)
    (row,), _ = queues(db, [record], {})
    assert row[LOST] == ""
    line = "links." + ".".join(directions(plan)[GUEST_PORT])
    for t_ns, value in ((0, 5), (RUN_NS, 12)):
        db.execute(
            "INSERT INTO counter VALUES ('p0-r0', ?, 'link_down_drops', ?, ?, 'ok')", [line, t_ns, value]
        )
    (row,), _ = queues(db, [record], {})
    assert row[LOST] == "7"
