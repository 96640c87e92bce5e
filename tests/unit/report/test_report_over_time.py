"""Response times per interval, of a server that stands still for a second: in the report, and as a table."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.requests_file import requests_file
from tools.drawable import expected_names, measured

import virtlab as vl
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


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"role": "client"}, "no good run has a role 'client'"),
        (
            {"role": "clients", "metric": "rtt"},
            "'rtt' is no time of requests; name response_time or transaction_time",
        ),
        ({"role": "clients", "every": "1"}, "'1' has no unit"),
    ],
)
def test_what_there_is_not_is_told(paused: vl.Results, arguments: dict[str, str], expected: str) -> None:
    with pytest.raises(ExperimentError, match=expected):
        paused.over_time(**arguments)
