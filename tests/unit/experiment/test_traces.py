"""Traces of requests: read from files beside the experiment file, kept with it, and part of its Plans."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.requests_file import requests_file

import virtlab as vl
from virtlab.errors import VirtlabError
from virtlab.experiment import Experiment, FileMistakesError, load, load_text
from virtlab.experiment.read.traces import FILES_MAX_BYTES
from virtlab.plan import Plan
from virtlab.planner import plan_run

TRACE = "arrivals: trace, trace: load.csv"
LINES = "user,time_ms\na,0\nb,1.5\nc,3\n"


def written(folder: Path, text: str, **files: str) -> Path:
    for name, content in files.items():
        (folder / f"{name}.csv").write_text(content)
    path = folder / "requests.yaml"
    path.write_text(text)
    return path


def plan_of(experiment: Experiment, point: int = 0) -> Plan:
    return plan_run(experiment, experiment.points()[point], 0)


def test_a_plan_has_the_times_of_its_trace_and_lasts_as_long(tmp_path: Path) -> None:
    parameters = (
        plan_of(load(written(tmp_path, requests_file(TRACE), load=LINES))).roles["clients"].parameters
    )
    assert parameters["trace_ns"] == [0, 1_500_000, 3_000_000]
    assert parameters["duration_ns"] == 3_000_001
    assert {"arrivals", "trace", "rate_per_s"}.isdisjoint(parameters)


@pytest.mark.slow
def test_a_trace_that_repeats_does_so_once_unless_a_duration_says_more(tmp_path: Path) -> None:
    role = f"{TRACE}, trace_period: 4 ms"
    once = plan_of(load(written(tmp_path, requests_file(role), load=LINES))).roles["clients"].parameters
    assert (once["duration_ns"], once["trace_period_ns"]) == (4_000_000, 4_000_000)
    longer = load(written(tmp_path, requests_file(f"{role}, duration: 1 s"), load=LINES))
    assert plan_of(longer).roles["clients"].parameters["duration_ns"] == 10**9
    assert longer.points()[0] is not None


@pytest.mark.slow
def test_the_text_of_an_experiment_holds_its_traces(tmp_path: Path) -> None:
    experiment = load(written(tmp_path, requests_file(TRACE), load=LINES))
    again = load_text(experiment.text)
    assert again.text == experiment.text
    assert plan_of(again).identity() == plan_of(experiment).identity()
    assert experiment.text.startswith(requests_file(TRACE))


@pytest.mark.slow
def test_another_trace_of_that_name_makes_another_plan_and_another_text(tmp_path: Path) -> None:
    one = load(written(tmp_path, requests_file(TRACE), load=LINES))
    other = load(written(tmp_path, requests_file(TRACE), load=LINES.replace("1.5", "1.6")))
    assert one.text != other.text
    assert plan_of(one).identity() != plan_of(other).identity()


@pytest.mark.slow
def test_a_trace_may_be_the_level_of_a_factor(tmp_path: Path) -> None:
    text = requests_file('arrivals: trace, trace: "${load}.csv"', "factors: {load: [calm, storm]}\n")
    experiment = load(written(tmp_path, text, calm="0 s\n1 s\n", storm="0 s\n1 ms\n"))
    times = [plan_of(experiment, point).roles["clients"].parameters["trace_ns"] for point in (0, 1)]
    assert times == [[0, 10**9], [0, 10**6]]
    assert load_text(experiment.text).points() == experiment.points()


def test_a_file_may_hold_its_traces_itself() -> None:
    text = requests_file(TRACE, "traces:\n  load.csv: |\n    time_s\n    0\n    0.25\n")
    assert plan_of(load_text(text)).roles["clients"].parameters["trace_ns"] == [0, 250_000_000]


@pytest.mark.parametrize(
    ("lines", "line", "expected"),
    [
        ("", 1, "it holds no time; name a column time_s"),
        ("0.1\n0.2\n", 1, "'0.1' has no unit; name a column time_s"),
        ("when,who\n1,2\n", 1, "'when,who' is not a time; name a column time_s"),
        ("time_s\n0.2\n0.1\n", 3, "it is before the line above; sort the lines by time"),
        ("time_s\n0.2\n\nsoon\n", 4, "'soon' is not a time from the start; write a number, e.g. 0.25"),
        ("time_s\n-1\n", 2, "'-1' is not a time from the start"),
        ("who,time_s\na,1\nb\n", 3, "it has 1 columns, and the time is in column 2; mend it"),
        ("time_s\n1763905000\n", 2, "subtract the first"),
        ("time_ms\n" + "1\n" * 20_001, 20_002, "a trace has at most 20000 times"),
        ("0 s\n1 parsec\n", 2, "'1 parsec' is not a time"),
    ],
)
def test_a_bad_line_is_told_with_its_place_and_cure(
    tmp_path: Path, lines: str, line: int, expected: str
) -> None:
    with pytest.raises(FileMistakesError) as raised:
        load(written(tmp_path, requests_file(TRACE), load=lines))
    (mistake,) = raised.value.mistakes
    assert raised.value.name == str(tmp_path / "load.csv")
    assert mistake.line == line
    assert expected in f"{mistake.what}; {mistake.cure}"


@pytest.mark.parametrize(
    ("role", "key", "expected"),
    [
        ("arrivals: trace", "arrivals", "write 'trace: arrivals.csv'"),
        ("trace: load.csv", "trace", "write 'arrivals: trace', or remove it"),
        (f"{TRACE}, rate: 5 request/s", "rate", "a trace says when requests are due"),
        (f"{TRACE}, trace_period: 3 ms", "trace_period", "due after 3 ms; write a longer time"),
        ("trace_period: 3 ms", "trace_period", "write 'arrivals: trace' and 'trace', or remove it"),
        (f"{TRACE}, think: 3 ms", "think", "no client thinks"),
        ("arrivals: trace, trace: lost.csv", "trace", "'lost.csv' cannot be read"),
        ("arrivals: trace, trace: ../load.csv", "trace", "is not a name of a file"),
    ],
)
def test_what_contradicts_a_trace_is_one_mistake(tmp_path: Path, role: str, key: str, expected: str) -> None:
    with pytest.raises(FileMistakesError) as raised:
        load(written(tmp_path, requests_file(role), load=LINES))
    (mistake,) = raised.value.mistakes
    assert mistake.path == f"roles.clients.{key}"
    assert expected in f"{mistake.what}; {mistake.cure}"


def test_a_text_without_its_folder_says_where_a_trace_may_be() -> None:
    with pytest.raises(FileMistakesError, match="or its lines into the section 'traces'"):
        load_text(requests_file(TRACE))


def test_a_wrong_trace_in_the_file_is_told_once() -> None:
    with pytest.raises(FileMistakesError) as raised:
        load_text(requests_file(TRACE, "traces:\n  load.csv: |\n    soon\n"))
    (mistake,) = raised.value.mistakes
    assert (mistake.path, mistake.what) == ("traces.load.csv", "line 1: 'soon' is not a time")


def test_a_file_whose_end_cannot_take_its_traces_is_refused_with_the_cure(tmp_path: Path) -> None:
    text = "".join(f"  {line}\n" for line in requests_file(TRACE).strip().splitlines())
    with pytest.raises(FileMistakesError, match="or the trace in its section 'traces'"):
        load(written(tmp_path, text, load=LINES))


@pytest.mark.slow
def test_a_dataset_is_resumed_and_reported_without_the_file_of_its_trace(tmp_path: Path) -> None:
    path = written(tmp_path, requests_file(TRACE).replace("repeat: 1", "repeat: 2"), load=LINES)
    dataset = tmp_path / "requests.results"
    vl.run(path, dataset=dataset, backend="simulator", max_runs=1)
    (tmp_path / "load.csv").unlink()
    kept = load_text((dataset / "experiment.yaml").read_text())
    results = vl.run(kept, dataset=dataset, backend="simulator")
    due = [
        row[results.samples("response").columns.index("intended_ns")]
        for row in results.samples("response").rows()
    ]
    assert len(results.runs().rows()) == 2
    assert sorted(at - min(due) for at in due) == [0, 0, 1_500_000, 1_500_000, 3_000_000, 3_000_000]
    assert results.report().is_file()


@pytest.mark.slow
def test_a_dataset_is_not_continued_with_another_trace_of_that_name(tmp_path: Path) -> None:
    path = written(tmp_path, requests_file(TRACE).replace("repeat: 1", "repeat: 2"), load=LINES)
    vl.run(path, dataset=tmp_path / "requests.results", backend="simulator", max_runs=1)
    (tmp_path / "load.csv").write_text(LINES.replace("1.5", "1.6"))
    with pytest.raises(VirtlabError, match=r"requests\.results.*experiment"):
        vl.run(path, dataset=tmp_path / "requests.results", backend="simulator")


@pytest.mark.parametrize("make", ["link", "pipe", "folder", "sparse"])
def test_a_trace_is_a_bounded_file_of_this_folder_and_no_way_to_another(tmp_path: Path, make: str) -> None:
    path = written(tmp_path, requests_file(TRACE))
    secret, trace = tmp_path / "secret", tmp_path / "load.csv"
    secret.write_text("time_ms\n1\n")
    if make == "link":
        trace.symlink_to(secret)
    elif make == "pipe":
        os.mkfifo(trace)
    elif make == "folder":
        trace.mkdir()
    else:
        with trace.open("wb") as file:
            file.truncate(FILES_MAX_BYTES + 1)
    with pytest.raises(FileMistakesError) as raised:
        load(path)
    (mistake,) = raised.value.mistakes
    assert mistake.path == "roles.clients.trace"
    assert "cannot be read" in mistake.what
    assert "put a regular file of at most 8 MiB there" in mistake.cure


@pytest.mark.slow
def test_traces_without_end_are_read_up_to_one_bound_for_all(tmp_path: Path) -> None:
    count = 2000
    names = ", ".join(f"t{number}.csv" for number in range(count))
    text = requests_file("arrivals: trace, trace: '${trace}'") + f"factors: {{trace: [{names}]}}\n"
    path = written(tmp_path, text)
    first = tmp_path / "t0.csv"
    first.write_text("# nothing\n" * 50_000 + "time_ms\n1\n")
    for number in range(1, count):
        (tmp_path / f"t{number}.csv").hardlink_to(first)
    with pytest.raises(FileMistakesError, match="it has more than"):
        load(path)
