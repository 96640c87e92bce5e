"""Searches as a file asks for them: found in the simulator, resumed after a cut, refused with a cure."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.campaign.search_specimen import CutAfter
from typer.testing import CliRunner

from virtlab.analysis import run_values
from virtlab.analysis.searches.searched import trials_of
from virtlab.campaign import open_dataset, run_campaign
from virtlab.campaign.progress import CampaignObserver
from virtlab.cli.prediction.capacity import app as capacity_app
from virtlab.cli.prediction.predict import app as predict_app
from virtlab.cli.prediction.recommend import app as recommend_app
from virtlab.errors import ExperimentError
from virtlab.experiment import FileMistakesError, load_text
from virtlab.metrics import MetricPath
from virtlab.results import Dataset
from virtlab.simulator import Simulator

WIRE = """
version: 1
name: wire-rate
factors: {size: [64 B frame, 1518 B frame]}
hosts: 2
topology: {shape: line, switches: 1}
link: {rate: 1 Gbit/s}
links: {s1-h2: {rate: 100 Mbit/s, queue: {kind: fifo, limit: 10 packets}}}
roles:
  load: {workload: raw_stream, from: h1.g1, to: h2.g1, size: "${size}"}
search:
  variable: load.rate
  low: 4 kpacket/s
  goals: [{loss: 0 %, duration_sum: 3 s, initial_trial: 200 ms}, {loss: 0.5 %, duration_sum: 3 s}]
  warmup: 0 s
repeat: 1
timing: {warmup: 0 ms, drain: 50 ms}
"""
UNTIL = """
version: 1
name: burst-limit
hosts: 2
host: {guests: 2}
topology: {shape: line, switches: 1}
link: {rate: 100 Mbit/s, queue: {kind: fifo, limit: 20 packets}}
links: {s1-h2: {rate: 50 Mbit/s}}
roles:
  probe: {workload: rtt, from: h1.g1, to: h2.g1, interval: 10 ms, count: 20}
  load: {workload: burst_load, from: h1.g2, to: h2.g2, burst: 1 kB, period: 10 ms, direction: request_reply}
search:
  variable: load.burst
  low: 1 kB
  high: 60 kB
  resolution: 500 B
  until: load.loss.ratio > 0 %
repeat: 1
"""


def run(text: str, folder: Path, observer: CampaignObserver | None = None) -> Dataset:
    experiment, backend = load_text(text), Simulator()
    able = backend.capabilities()
    with open_dataset(folder, text, name=experiment.name, seed=experiment.seed, backend=able) as dataset:
        run_campaign(experiment, dataset, backend, observer)
    return Dataset.open(folder)


@pytest.mark.slow
def test_the_wire_rate_of_a_simulated_link_is_found_for_each_frame_size(tmp_path: Path) -> None:
    table = run_values(run(WIRE, tmp_path / "d"))
    for size, frame_bytes in (("64 B frame", 64), ("1518 B frame", 1518)):
        exact = 100e6 / (8 * (frame_bytes + 20))
        slack = 10 / 3  # the queue holds 10 packets of the least time that decides
        for goal in ("ndr_rate", "pdr_rate"):
            low, high = (
                table.values(MetricPath("load", goal, end), {"size": size})[0] for end in ("lower", "upper")
            )
            loss = 0.005 if goal == "pdr_rate" else 0.0
            assert low <= exact / (1 - loss) + 10 + slack
            assert high >= exact
            assert high - low <= 0.005 * high
        bits = table.values(MetricPath("load", "ndr", "found"), {"size": size})[0]
        rate = table.values(MetricPath("load", "ndr_rate", "found"), {"size": size})[0]
        assert bits == pytest.approx(rate * 8 * frame_bytes)


@pytest.mark.slow
def test_a_run_keeps_its_trials_with_the_goal_and_the_samples_at_the_load_found(tmp_path: Path) -> None:
    dataset = run(WIRE, tmp_path / "d")
    record = dataset.runs("ok")[0]
    held = trials_of(record)
    assert held is not None
    header, trials, found = held
    assert header["texts"]["ndr"].startswith("loss ≤ 0 % in at least 50 % of 3 s")
    assert [one["goal"] for one in found] == ["ndr", "pdr"]
    assert all(each["sent"] is not None and each["loss_ratio"] >= 0.0 for each in trials)
    kept = record.overrides["load.rate_pps"]
    assert kept == int(found[0]["value"])
    assert record.samples("load", "packet/1")["seq"].size == pytest.approx(kept, abs=2)
    assert not (dataset.path / "journal" / f"{record.name}.jsonl").exists()


@pytest.mark.slow
def test_a_search_that_was_cut_goes_on_from_its_told_trials_and_ends_the_same(tmp_path: Path) -> None:
    whole = trials_of(run(WIRE, tmp_path / "whole").runs("ok")[0])
    run(WIRE, tmp_path / "cut", CutAfter(5))
    journals = list((tmp_path / "cut" / "journal").iterdir())
    assert len(journals) == 1
    told = journals[0].read_text().splitlines()
    assert len(told) >= 4
    journals[0].write_text("\n".join(told) + '\n{"id": "t9", "loa')  # as a power loss leaves it
    counting = CutAfter(10**6)
    resumed = run(WIRE, tmp_path / "cut", counting)
    name = journals[0].stem
    again = trials_of(resumed.run(name))
    other = trials_of(Dataset.open(tmp_path / "whole").run(name))
    assert whole is not None
    assert again is not None
    assert other is not None
    assert again[1:] == other[1:]
    all_trials = sum(len(trials_of(each)[1]) for each in resumed.runs("ok"))  # type: ignore[index]
    assert counting.begun == all_trials - (len(told) - 1)  # none was made twice


@pytest.mark.slow
def test_a_journal_of_another_search_is_not_used(tmp_path: Path) -> None:
    run(WIRE, tmp_path / "d", CutAfter(3))
    journal = next((tmp_path / "d" / "journal").iterdir())
    lines = journal.read_text().splitlines()
    lines[0] = json.dumps({**json.loads(lines[0]), "low": 1})
    lines[1:] = [json.dumps({**json.loads(line), "loss_ratio": 1.0}) for line in lines[1:]]
    journal.write_text("\n".join(lines) + "\n")
    run(WIRE, tmp_path / "d")
    run(WIRE, tmp_path / "fresh")
    again, fresh = (trials_of(Dataset.open(tmp_path / name).run(journal.stem)) for name in ("d", "fresh"))
    assert again is not None
    assert fresh is not None
    assert again[2] == fresh[2]


@pytest.mark.slow
def test_any_input_is_searched_until_a_condition_on_a_metric_holds(tmp_path: Path) -> None:
    dataset = run(UNTIL, tmp_path / "d")
    table = run_values(dataset)
    low, high = (table.values(MetricPath("load", "limit_size", end))[0] for end in ("lower", "upper"))
    assert 1_000 <= low < high <= 60_000
    assert high - low <= 500
    held = trials_of(dataset.runs("ok")[0])
    assert held is not None
    for each in held[1]:
        assert (each["measured"] > 0) == (each["loss_ratio"] == 1.0) == (each["value"] >= high)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("load.rate", "load.duration", "is not an input that a trial can set"),
        ("load.rate", "load.arrivals", "is not an input that a trial can set"),
        (
            "variable: load.rate\n  low: 4 kpacket/s",
            "variable: load.size\n  low: 64 B frame",
            "write the highest value",
        ),
        ("load.rate", "lod.rate", "did you mean 'load'"),
        ("load.rate", "load.speed", "is not a parameter of raw_stream"),
        ("low: 4 kpacket/s", "low: 4", "has no unit"),
        ("low: 4 kpacket/s", "low: 900 kpacket/s", "is not below 'high'"),
        ("low: 4 kpacket/s", "low: 4 kpacket/s\n  high: 2 Mpacket/s", "write 'high: wire'"),
        ("low: 4 kpacket/s", "low: 4 kpacket/s\n  method: bisection", "bisection has one goal"),
        ("low: 4 kpacket/s", "low: 4 kpacket/s\n  methd: bisection", "did you mean 'method'"),
        ("loss: 0.5 %, duration_sum: 3 s", "loss: 0 %, duration_sum: 3 s", "two goals are called ndr"),
        (
            "goals: [{loss: 0 %, duration_sum: 3 s",
            "goals: [{loss: 0 %, duration_sum: 3 ms",
            "does not hold one trial",
        ),
    ],
)
def test_a_wrong_search_is_a_mistake_with_its_cure(old: str, new: str, says: str) -> None:
    assert old in WIRE
    with pytest.raises(FileMistakesError) as caught:
        load_text(WIRE.replace(old, new))
    assert says in str(caught.value)


ROUND_TRIP = """
version: 1
name: any-number
hosts: 2
host: {guests: 2}
topology: {shape: line, switches: 1}
link: {rate: 10 Mbit/s}
roles:
  probe: {workload: rtt, from: h1.g1, to: h2.g1, interval: 20 ms, count: 8, size: 100 B ip_packet}
  beside: {workload: psping, test: ping, from: h1.g2, to: h2.g2, count: 5, warmup: 1, protocol: icmp, interval: 2 ms}
search:
  SEARCH
repeat: 1
timing: {warmup: 0 ms, drain: 20 ms}
"""
LINKS, RATE_BIT_PER_S = 4, 10e6  # an echo crosses two links and back
OCTETS = 26  # of a frame beyond its IP packet: header, FCS, preamble
INPUTS = {
    "a size with its layer": (
        (
            "variable: probe.size\n  low: 64 B ip_packet\n  high: 1400 B ip_packet\n  resolution: 1 B ip_packet\n"
            "  until: probe.rtt.max > 2 ms"
        ),
        "probe.limit_size.found",
        2e-3 / LINKS * RATE_BIT_PER_S / 8 - OCTETS,
    ),
    # A timeout that is shorter than the round trip loses every reply.
    "a time": (
        "variable: probe.timeout\n  low: 10 us\n  high: 10 ms\n  resolution: 1 us\n  until: probe.loss.ratio <= 0 %",
        "probe.limit_time.found",
        LINKS * (100 + OCTETS) * 8 / RATE_BIT_PER_S * 1e9,
    ),
    # 5 requests and one before them; the highest count is good, and the answer.
    "a count": (
        "variable: beside.count\n  low: 1\n  high: 40\n  resolution: 1\n  until: beside.rtt.max > 1 s",
        "beside.limit_count.found",
        40,
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", INPUTS)
def test_any_parameter_of_a_role_that_is_a_number_is_searched(kind: str, tmp_path: Path) -> None:
    search, path, exact = INPUTS[kind]
    table = run_values(run(ROUND_TRIP.replace("SEARCH", search), tmp_path / "d"))
    assert table.values(MetricPath.parse(path), {})[0] == pytest.approx(exact, rel=0.01)


def test_the_bounds_of_a_size_are_of_one_layer_and_a_role_must_stand_both() -> None:
    search = INPUTS["a size with its layer"][0]
    with pytest.raises(FileMistakesError, match="sizes of different things"):
        load_text(ROUND_TRIP.replace("SEARCH", search.replace("1400 B ip_packet", "1400 B frame")))


def test_loss_alone_is_no_goal_of_an_input_that_is_no_rate() -> None:
    with pytest.raises(FileMistakesError, match=r"until"):
        load_text(UNTIL.replace("  until: load.loss.ratio > 0 %\n", ""))
    with pytest.raises(FileMistakesError, match=r"not a metric"):
        load_text(UNTIL.replace("load.loss.ratio > 0 %", "load.los.ratio > 0 %"))


ASKED = {
    "predict": (predict_app, ["--metric", "load.loss.ratio"]),
    "capacity": (capacity_app, ["--until", "load.loss.ratio < 1 %", "--vary", "size"]),
    "recommend": (recommend_app, ["--best", "load.loss.ratio", "--vary", "size"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("command", ASKED)
def test_a_file_that_searches_is_simulated_by_a_run_and_not_predicted_at_its_highest_load(
    command: str, tmp_path: Path
) -> None:
    app, options = ASKED[command]
    file = tmp_path / "wire.yaml"
    file.write_text(WIRE)
    told = CliRunner().invoke(app, [str(file), *options])
    assert isinstance(told.exception, ExperimentError)
    assert told.exception.where == "search"
    assert "--backend simulator" in str(told.exception)
