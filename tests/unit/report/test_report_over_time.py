"""Response times per interval, of a server that stands still for a second: in the report, and as a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.requests_file import requests_file
from tools.drawable import expected_names, measured

import virtlab as vl
from virtlab.api.tables import Table
from virtlab.errors import ExperimentError
from virtlab.experiment import load_text

ROLE = "rate: 100 request/s, connections: 90, demand: 1 ms, duration: 4 s, pause: 1 s, pause_after: 1 s"


@pytest.fixture(scope="module")
def paused(tmp_path_factory: pytest.TempPathFactory) -> vl.Results:
    folder = tmp_path_factory.mktemp("over-time") / "requests.results"
    return vl.run(load_text(requests_file(ROLE)), dataset=folder, backend="simulator")


@pytest.mark.slow
def test_an_interval_has_the_exact_quantiles_of_the_requests_due_in_it(paused: vl.Results) -> None:
    table = paused.over_time("clients", every="500 ms")
    rows = table.rows()
    samples = paused.samples("response")
    names = samples.columns
    all_rows = {name: np.array([row[names.index(name)] for row in samples.rows()]) for name in names}
    assert table.columns == ["run", "point", "begin_ns", "requests", "median_ns", "p99_ns", "max_ns"]
    assert [row[2] for row in rows] == [at * 500_000_000 for at in range(8)]
    for run, _, begin, requests, median, p99, largest in rows:
        due = all_rows["intended_ns"] - all_rows["intended_ns"].min()
        mine = (all_rows["run"] == run) & (due >= begin) & (due < begin + 500_000_000)
        times = np.sort((all_rows["finished_ns"] - all_rows["intended_ns"])[mine])
        assert requests == times.size == 50
        assert (median, p99, largest) == (times[24], times[49], times[-1])


@pytest.mark.slow
def test_a_pause_stands_where_requests_waited_for_it(paused: vl.Results) -> None:
    worst = [row[6] for row in paused.over_time("clients").rows()]
    assert worst[1] > 900_000_000
    assert max(worst[0], worst[3]) < 50_000_000


@pytest.mark.slow
def test_the_report_draws_them_under_the_name_that_the_file_alone_tells(paused: vl.Results) -> None:
    name = "clients-response-time-over-time"
    assert name in paused.figures
    picture = paused.figure(name)
    assert "p99 is at most" in picture.alt
    workloads = load_text(requests_file(ROLE)).role_workloads()
    assert name in expected_names(measured(workloads), [])


@pytest.mark.slow
def test_transactions_have_them_too(tmp_path: Path) -> None:
    text = requests_file(ROLE).replace("request_response", "tcp_rr").replace(ROLE, "duration: 200 ms")
    results = vl.run(load_text(text), dataset=tmp_path / "rr.results", backend="simulator")
    rows = results.over_time("clients", metric="transaction_time", every="50 ms").rows()
    assert len(rows) == 4
    assert sum(row[3] for row in rows) == len(results.samples("transaction").rows())
    assert "clients-transaction-time-over-time" in results.figures


LOAD = "workload: objects, to: depot, operations: {create: 1, read: 1}, size: [1 kB, 20 kB], count: 300"
STORE = f"""
version: 1
name: operations
repeat: 1
hosts:
  h1: {{guests: {{one: {{}}, other: {{}}, n1: {{}}, n2: {{}}}}}}
services:
  depot: {{kind: store, on: [h1.n1, h1.n2], copies: 1, lookup: elastic_hash, ack: memory, cache: 1 MiB}}
roles:
  one: {{from: h1.one, {LOAD}}}
  other: {{from: h1.other, {LOAD}}}
"""


def test_operations_have_them_by_client_operation_and_size(tmp_path: Path) -> None:
    """The rows of a part are those of its operation and its size, and parts of one kind are all of the role."""
    results = vl.run(load_text(STORE), dataset=tmp_path / "operations.results", backend="simulator")
    samples = results.samples("operation")
    all_rows = as_row(samples)

    def table(role: str) -> list[tuple[Any, ...]]:
        return results.over_time(role, metric="operation_time", every="20 ms").rows()

    for role in ("one", "other"):
        mine = [row for row in all_rows if row["stream"] == role]
        for part, code, size in (("read_20kB", 1, 20_000), ("create_1kB", 0, 1000)):
            held = [row for row in mine if (row["operation"], row["object_bytes"]) == (code, size)]
            rows = table(f"{role}.{part}")
            assert sum(row[3] for row in rows) == len(held) > 30, part
            assert max(row[6] for row in rows) == max(row["finished_ns"] - row["intended_ns"] for row in held)
        sums = [
            sum(row[3] for row in table(f"{role}{part}"))
            for part in (".1kB", ".20kB", ".create", ".read", "")
        ]
        assert sums[0] + sums[1] == sums[2] + sums[3] == sums[4] == len(mine) == 300
    metrics = {(row["role"], row["metric"]) for row in as_row(results.values())}
    assert {("one.read_20kB", "operation_time"), ("other.1kB", "operation_rate")} <= metrics
    with pytest.raises(ExperimentError, match=r"no good run has a role 'one.read_2kB'"):
        table("one.read_2kB")


def as_row(table: Table) -> list[dict[str, Any]]:
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows()]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"role": "client"}, "no good run has a role 'client'"),
        (
            {"role": "clients", "metric": "rtt"},
            "'rtt' is not a time of requests; name operation_time or response_time or transaction_time",
        ),
        ({"role": "clients", "every": "1"}, "'1' has no unit"),
    ],
)
def test_what_there_is_not_is_told(paused: vl.Results, arguments: dict[str, str], expected: str) -> None:
    with pytest.raises(ExperimentError, match=expected):
        paused.over_time(**arguments)
