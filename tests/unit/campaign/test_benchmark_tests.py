"""The tests of RFC 2544 after a search: pure on made-up devices, then as a file asks for them, in the simulator."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.unit.campaign.search_specimen import CutAfter
from tools.drawable import names_of_experiment

from virtlab.analysis import run_values
from virtlab.analysis.searches.searched import trials_of
from virtlab.campaign import open_dataset, run_campaign
from virtlab.campaign.execution.trial import worst_flow
from virtlab.campaign.progress import CampaignObserver
from virtlab.campaign.tests import BackToBack, BenchmarkTrial, FrameLoss, Latency, Recovery, Reset
from virtlab.campaign.tests import Test as DeviceTest
from virtlab.campaign.trials.journal import TrialLine
from virtlab.campaign.trials.packets import Delays, Gaps
from virtlab.experiment import FileMistakesError, load_text
from virtlab.experiment.work.benchmark import (
    BackToBackTest,
    FrameLossTest,
    LatencyTest,
    RecoveryTest,
    ResetTest,
    StatedLoad,
)
from virtlab.metrics import MetricPath
from virtlab.report.figures.plots import figures_of
from virtlab.report.gather.dataset import gather
from virtlab.report.tables import benchmarks
from virtlab.results import Dataset
from virtlab.simulator import Simulator

MS = 10**6


def line(asked: BenchmarkTrial, sent: int, received: int, **more: Any) -> TrialLine:
    """What came of a trial that was asked for."""
    return TrialLine(
        "t", asked.test, asked.load, int(asked.load), asked.trial_s, 0.0, sent, received, 0, 0, part=asked.part, **more
    )  # fmt: skip


def play(test: DeviceTest, answer: Callable[[BenchmarkTrial], TrialLine]) -> list[BenchmarkTrial]:
    """Plays a test to its end; what it asked for."""
    asked = []
    while (one := test.ask()) is not None:
        assert one == test.ask(), "asking changes nothing"
        asked.append(one)
        test.tell(answer(one))
    return asked


def value(
    test: DeviceTest, metric: str, statistic: str = "mean", part: str = "", flow: int | None = None
) -> float | None:
    """The one result of that name."""
    found = [
        one.value
        for one in test.results()
        if (one.metric, one.statistic, one.part, one.flow) == (metric, statistic, part, flow)
    ]
    assert len(found) == 1
    return found[0]


def test_latency_takes_turns_over_its_loads_and_combines_strong_and_weak_flows() -> None:
    loads = (
        StatedLoad("at10", share=0.1),
        StatedLoad("at100", share=1.0),
        StatedLoad("rate9000", value=9000),
    )
    test = Latency(LatencyTest(loads, trials=2, trial_ns=10**9, tagged=False), 1000.0, [0.99, 0.005, 0.005])
    asked = play(
        test,
        lambda one: line(one, 100, 99, measured=one.load, flows_ns=[one.load, 2 * one.load, 4 * one.load]),
    )
    assert [(one.part, one.load) for one in asked] == [("at10", 100.0), ("at100", 1000.0)] * 2
    assert value(test, "latency", part="at10") == 100.0
    assert value(test, "latency", part="at100", flow=2) == 4000.0
    assert value(test, "split_latency", part="at100") == pytest.approx(0.01 * 3000 + 0.99 * 1000)
    assert value(test, "frame_loss", "ratio", "at10") == pytest.approx(0.01)
    assert value(test, "tested_load", part="at10") == 100.0
    assert value(test, "latency", part="rate9000") is None  # above what was found
    assert any("above the load" in one.reason for one in test.results() if one.part == "rate9000")


def test_no_flow_without_a_delay_counts_as_none() -> None:
    test = Latency(LatencyTest((StatedLoad("at1", share=0.01),), 1, 10**9, tagged=True), 1000.0, [0.5, 0.5])
    play(test, lambda one: line(one, 10, 10, measured=5.0, flows_ns=[5.0, None]))
    assert value(test, "latency", part="at1", flow=0) == 5.0
    assert value(test, "latency", part="at1", flow=1) is None
    assert value(test, "split_latency", part="at1") is None


def test_frame_loss_goes_down_in_steps_until_two_trials_lose_nothing() -> None:
    test = FrameLoss(FrameLossTest(0.1, 10**9), 1000.0)
    asked = play(test, lambda one: line(one, round(one.load), min(650, round(one.load))))
    assert [one.part for one in asked] == ["max100", "max90", "max80", "max70", "max60", "max50"]
    assert value(test, "frame_loss", "ratio", "max100") == pytest.approx(0.35)
    assert value(test, "frame_loss", "ratio", "max50") == 0.0
    bottomless = FrameLoss(FrameLossTest(0.1, 10**9), 1000.0)
    assert len(play(bottomless, lambda one: line(one, 100, 1))) == 10


def test_back_to_back_finds_a_known_buffer_and_takes_off_what_is_forwarded_meanwhile() -> None:
    """A device that forwards 250 of 1000 frames per second and holds 60: a burst of 80 just fits."""
    test = BackToBack(BackToBackTest(trials=3, longest_ns=10**9, width=0.001), 250.0, 1000.0)

    def answer(one: BenchmarkTrial) -> TrialLine:
        frames = round(one.trial_s * 1000 + 0.5)
        return line(one, frames, min(frames, int(60 + 0.25 * frames)))

    play(test, answer)
    assert test.bursts == [80.0] * 3
    assert value(test, "back_to_back") == 80.0
    assert value(test, "buffer_time") == pytest.approx(80e6)
    assert value(test, "corrected_buffer_time") == pytest.approx(60e6)  # 60 frames at 1000 frames/s


def test_a_device_that_loses_nothing_of_the_longest_burst_has_no_number() -> None:
    test = BackToBack(BackToBackTest(trials=2, longest_ns=10**8, width=0.01), 900.0, 1000.0)
    assert len(play(test, lambda one: line(one, 100, 100))) == 2
    assert value(test, "back_to_back") is None
    assert any("the longest tried" in one.reason for one in test.results())


def test_recovery_overloads_to_the_highest_load_at_most_and_then_halves() -> None:
    test = Recovery(RecoveryTest(1.1, 2 * 10**9, 0.5, 10**9, trials=2), 800.0, 1000.0)
    asked = play(test, lambda one: line(one, 10, 9, measured=3e6 if one.load else None))
    assert len(asked) == 2
    for one in asked:
        assert (one.load, one.then_load) == (pytest.approx(880.0), pytest.approx(440.0))
        assert (one.then_after_s, one.trial_s) == (2.0, 3.0)
    assert value(test, "recovery_time") == 3e6
    capped = Recovery(RecoveryTest(1.1, 10**9, 0.5, 10**9, trials=1), 950.0, 1000.0).ask()
    assert capped is not None
    assert (capped.load, capped.then_load) == (1000.0, 500.0)


def test_what_needs_a_good_load_says_so_where_none_was_found() -> None:
    tests: list[DeviceTest] = [
        Latency(LatencyTest((StatedLoad("at100", share=1.0),), 1, 1, tagged=True), None, [1.0]),
        Recovery(RecoveryTest(1.1, 1, 0.5, 1, 1), None, 10.0),
        Reset(ResetTest("h.g", 0, 1, 1), None),
    ]
    for test in tests:
        assert test.ask() is None
        assert {one.value for one in test.results()} == {None}
        assert all("found no good load" in one.reason for one in test.results())


def rows(seq: list[int], flow: int = 0, step_ns: int = 1000, delay_ns: int = 50) -> dict[str, Any]:
    """Packets of a flow sent every `step_ns`."""
    numbers = np.array(seq)
    sent = numbers * step_ns
    return {"seq": numbers, "flow": np.full(len(seq), flow), "sent_ns": sent, "received_ns": sent + delay_ns}


def test_delays_are_of_one_tagged_frame_per_flow_or_of_all() -> None:
    blocks = [rows([0, 1, 2]), rows([3, 4], delay_ns=70), rows([1, 3], flow=1, delay_ns=90)]
    tagged, every = Delays(3, 3000, tagged=True), Delays(3, 3000, tagged=False)
    for block in blocks:
        tagged.take(block)
        every.take(block)
    assert tagged.of_flows() == [70.0, 90.0, None]
    assert tagged.of_stream() == 70.0
    assert every.of_flows() == [pytest.approx((3 * 50 + 2 * 70) / 5), 90.0, None]


def test_quantiles_are_of_all_frames_of_all_trials_together() -> None:
    draws = np.random.default_rng(3)
    trials = [np.exp(draws.normal(11.0, 1.0, 4000)), np.exp(draws.normal(12.0, 0.5, 1000))]
    kept = []
    for delays in trials:
        take = Delays(1, 0, tagged=False)
        for part in np.array_split(delays, 7):
            seq = np.arange(part.size)
            take.take(
                {"seq": seq, "flow": 0 * seq, "sent_ns": seq, "received_ns": seq + part.astype(np.int64)}
            )
        kept.append(json.loads(json.dumps(take.counted().pairs())))  # as a journal has them
    loads = (StatedLoad("at100", share=1.0),)
    test = Latency(LatencyTest(loads, trials=2, trial_ns=10**9, tagged=False), 1000.0, [1.0])
    answers = iter(kept)
    play(test, lambda one: line(one, 5000, 5000, measured=1.0, delays=next(answers)))
    for name, share in (("median", 0.5), ("p90", 0.9), ("p99", 0.99)):
        exact = float(np.quantile(np.concatenate(trials), share))
        assert value(test, "latency", name, "at100") == pytest.approx(exact, rel=0.006)


def test_quantiles_of_tagged_frames_need_as_many_trials_as_samples() -> None:
    loads = (StatedLoad("at100", share=1.0),)
    test = Latency(LatencyTest(loads, trials=20, trial_ns=10**9, tagged=True), 1000.0, [1.0])
    times = iter(range(1, 21))

    def answer(one: BenchmarkTrial) -> TrialLine:
        take = Delays(1, 0, tagged=True)
        take.take(rows([0, 1], delay_ns=1000 * next(times)))
        return line(one, 2, 2, measured=take.of_stream(), delays=take.counted().pairs())

    play(test, answer)
    assert value(test, "latency", "median", "at100") == pytest.approx(10_000, rel=0.004)
    assert value(test, "latency", "p90", "at100") == pytest.approx(18_000, rel=0.004)
    assert value(test, "latency", "p99", "at100") is None
    reasons = [one.reason for one in test.results() if one.statistic == "p99"]
    assert reasons == ["20 frames count, p99 needs 100"]


def test_gaps_know_what_is_missing_over_block_ends_when_it_was_sent_and_the_longest_silence() -> None:
    gaps = Gaps(2)
    for block in (rows([0, 1, 2]), rows([5, 6]), rows([7, 9, 8]), rows([0, 10], flow=1, step_ns=10)):
        gaps.take(block)
    assert gaps.missing == [2, 9]  # 3 and 4 of flow 0; 8 came late
    assert gaps.arrived == [8, 2]
    assert gaps.last_lost_ns == pytest.approx(8000.0)  # 8 was missing when it was looked for
    assert gaps.longest_ending_after(3000) == (2050, 5050)
    assert gaps.longest_ending_after(10**9) is None


def test_a_silence_before_the_instant_asked_for_hides_none_after_it() -> None:
    gaps = Gaps(1)
    gaps.take(rows([0, 50, 51, 54, 55]))
    assert gaps.longest_ending_after(50 * 1000 + 60) == (51_050, 54_050)
    assert gaps.longest_ending_after(54 * 1000 + 60) == (54_050, 55_050)


def test_the_worst_flow_is_judged_by_counters_and_drops_of_the_receiver_are_no_loss() -> None:
    counters = {
        "flow0.sent_packets": 990, "flow0.received_packets": 990,
        "flow1.sent_packets": 10, "flow1.received_packets": 10, "flow1.duplicate_packets": 1,
    }  # fmt: skip
    assert worst_flow(counters, 2, 0, None) == pytest.approx(0.1)  # a duplicate hides no loss
    assert worst_flow(counters, 2, 1, None) == 0.0
    assert worst_flow(counters | {"flow0.unsent_packets": 10}, 2, 1, None) == pytest.approx(0.01)


FILE = """
version: 1
name: benchmark
hosts: 2
topology: line
link: {rate: 100 Mbit/s}
links: {s1-h2: {rate: 10 Mbit/s, queue: {kind: fifo, limit: 50 packets}}}
roles:
  load: {workload: raw_stream, from: h1.g1, to: h2.g1, size: 512 B frame, flows: 3, split: {strong: 1, weak_share: 3 %}}
search:
  variable: load.rate
  low: 100 packet/s
  method: rfc2544
  goals: [{trial: 1 s}]
  tests:
    pace: quick
    latency: {at: [10 %, 100 %, 200 packet/s], trial: 200 ms, tag: all}
    frame_loss:
    back_to_back: {}
    recovery: {trials: 1, overload: 150 %}
repeat: 1
timing: {warmup: 0 s, drain: 100 ms}
claims:
  - {id: quiet, text: load.at10.latency.max < 1 ms}
  - {id: recovers, text: load.recovery_time.mean <= 100 ms}
"""


def run(text: str, folder: Path, observer: CampaignObserver | None = None) -> Dataset:
    experiment, backend = load_text(text), Simulator()
    able = backend.capabilities()
    with open_dataset(folder, text, name=experiment.name, seed=experiment.seed, backend=able) as dataset:
        run_campaign(experiment, dataset, backend, observer)
    return Dataset.open(folder)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return run(FILE, tmp_path_factory.mktemp("benchmark") / "b.results")


@pytest.mark.slow
def test_a_file_gets_every_test_of_the_rfc_in_one_world(dataset: Dataset) -> None:
    table = run_values(dataset)

    def of(path: str) -> float:
        return table.values(MetricPath.parse(path))[0]  # type: ignore[return-value]

    wire_pps = 10e6 / (8 * 532)
    high_pps = 100e6 / (8 * 532)
    assert of("load.ndr_rate.found") == pytest.approx(
        wire_pps, rel=0.03
    )  # the queue holds some of a second's excess
    # A frame is sent twice through 100 Mbit/s and once through 10 (h1-s1 and its access link count once).
    alone_ns = 532 * 8 * (1e9 / 100e6 + 1e9 / 10e6)
    for part in ("load.at10", "load.rate200", "load.at10.flow0", "load.at10.flow1"):
        assert 0.8 * alone_ns <= of(f"{part}.latency.mean") <= 1.5 * alone_ns
    assert of("load.at10.split_latency.mean") == pytest.approx(
        0.03 * (of("load.at10.flow1.latency.mean") + of("load.at10.flow2.latency.mean")) / 2
        + 0.97 * of("load.at10.flow0.latency.mean")
    )
    assert of("load.at10.latency.mean") < of("load.at100.latency.mean")
    assert of("load.at10.latency.median") <= of("load.at10.latency.p90") <= of("load.at10.latency.p99")
    assert of("load.at10.latency.p99") < of("load.at100.latency.p99")
    assert of("load.at10.tested_load.mean") == pytest.approx(0.1 * of("load.ndr.found"), rel=0.01)
    assert of("load.max100.frame_loss.ratio") == pytest.approx(1 - wire_pps / high_pps, abs=0.02)
    assert of("load.max10.frame_loss.ratio") == 0.0
    corrected_frames = of("load.corrected_buffer_time.mean") * 1e-9 * high_pps
    assert corrected_frames == pytest.approx(50, abs=2)  # what the queue was made to hold
    assert 0.0 <= of("load.recovery_time.mean") <= 100e6


@pytest.mark.slow
def test_the_claims_of_loads_and_tests_are_judged_and_the_report_draws_them(
    dataset: Dataset, tmp_path: Path
) -> None:
    data = gather(dataset)
    drawn = {figure.name: figure for figure in figures_of(data)}
    wanted = {
        "search-of-load", "latency-of-load-by-load", "latency-quantiles-of-load-by-load", "frame-loss-of-load-by-load",
    }  # fmt: skip
    assert wanted <= set(drawn)
    file = tmp_path / "b.yaml"
    file.write_text(FILE)
    assert wanted | {"trials-of-load", "tests-of-load"} <= set(names_of_experiment(file))
    assert [verdict.verdict for verdict in data.verdicts] != []
    lines = drawn["latency-quantiles-of-load-by-load"].spec["layer"][0]["data"]["values"]
    at10 = {row["statistic"]: row["y"] for row in lines if row["at"] == "at10"}
    assert at10["median"] <= at10["p90"] <= at10["p99"]
    found = drawn["search-of-load"]
    held = trials_of(dataset.runs("ok")[0])
    assert held is not None
    own = [trial for trial in held[1] if trial["purpose"] == "search"]
    marks = [row for layer in found.spec["layer"] for row in layer["data"]["values"] if "seconds" in row]
    assert len(marks) == len(own)
    assert [row["what"] == "good" for row in marks] == [trial["loss_ratio"] == 0 for trial in own]


def table_rows(dataset: Dataset) -> list[list[str]]:
    block = benchmarks.tests_table(gather(dataset), "load")
    assert block is not None
    heads = [column["text"] for column in block["head"]]
    assert heads[:3] == ["test", "at", "flow"]
    return [[one["text"] for one in row["cells"]] for row in block["rows"]]


@pytest.mark.slow
def test_the_table_of_tests_has_every_load_and_flow_from_the_least_load_up(dataset: Dataset) -> None:
    rows = table_rows(dataset)
    latency = [(row[1], row[2]) for row in rows if row[0] == "latency"]
    flows = ["—", "flow0", "flow1", "flow2"]
    assert latency == [(part, flow) for part in ("rate200", "at10", "at100") for flow in flows]
    assert [row[5] for row in rows if row[0] == "back-to-back frames"] == [
        "56"
    ]  # 50 queued, one leaving, 5 left


@pytest.mark.slow
def test_what_a_test_could_not_measure_stands_in_the_table_with_the_reason(tmp_path: Path) -> None:
    begin, end = FILE.index("    pace:"), FILE.index("repeat:")
    text = FILE[:begin] + "    back_to_back: {longest: 1 ms, trials: 1}\n" + FILE[end : FILE.index("claims:")]
    rows = table_rows(run(text, tmp_path / "short.results"))
    assert [row[0] for row in rows] == ["back-to-back frames", "implied buffer time", "corrected buffer time"]
    assert {row[5] for row in rows} == {"no value"}
    assert all("the longest tried" in row[-1] for row in rows)


@pytest.mark.slow
def test_tests_that_were_cut_go_on_from_their_told_trials_and_end_the_same(
    dataset: Dataset, tmp_path: Path
) -> None:
    whole = dataset.runs("ok")[0]
    held = trials_of(whole)
    assert held is not None
    searched = sum(trial["purpose"] == "search" for trial in held[1])
    cut_at = searched + 8  # within the frame-loss test
    run(FILE, tmp_path / "cut", CutAfter(cut_at))
    counting = CutAfter(10**6)
    resumed = run(FILE, tmp_path / "cut", counting).runs("ok")[0]
    again = trials_of(resumed)
    assert again is not None
    assert again[1:] == held[1:]
    assert counting.begun == len(held[1]) - cut_at  # none was made twice
    last = [
        (one.folder / "artefacts" / "trials.jsonl").read_text().splitlines()[-1] for one in (whole, resumed)
    ]
    assert json.loads(last[0]) == json.loads(last[1])


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("[10 %, 100 %, 200 packet/s]", "[110 %]", "'110 %' of the load found is not a load to test"),
        ("[10 %, 100 %, 200 packet/s]", "[10 %, 10 %]", "in the list already"),
        ("[10 %, 100 %, 200 packet/s]", "[]", "an empty list names no load"),
        ("[10 %, 100 %, 200 packet/s]", "[5]", "'5' has no unit"),
        ("frame_loss:", "frame_loss: {step: 20 %}", "wider than RFC 2544 allows"),
        ("overload: 150 %", "overload: 90 %", "overloads nothing"),
        ("back_to_back: {}", "back_to_bak: {}", "did you mean 'back_to_back'"),
        ("back_to_back: {}", "reset: {guest: h2.g2}", "there is no guest 'h2.g2'"),
        ("back_to_back: {}", "reset: {guest: h2.g1}", "sends or receives"),
        ("pace: quick", "pace: slow", "is not one of letter, quick"),
        ("load.at10.latency.max", "laod.at10.latency.max", "did you mean 'load'"),
    ],
)
def test_a_wrong_test_is_a_mistake_with_its_cure(old: str, new: str, says: str) -> None:
    assert old in FILE
    with pytest.raises(FileMistakesError) as caught:
        load_text(FILE.replace(old, new))
    assert says in str(caught.value)


def test_a_list_of_names_asks_for_tests_by_the_letter() -> None:
    begin, end = FILE.index("  tests:"), FILE.index("repeat:")
    text = (
        FILE[:begin]
        + "  tests: [latency, frame_loss, back_to_back, recovery]\n"
        + FILE[end : FILE.index("claims:")]
    )
    experiment = load_text(text)
    search = experiment.study(experiment.points()[0]).search
    assert search is not None
    tests = search.tests
    assert tests is not None
    assert tests.latency is not None
    assert (tests.latency.trials, tests.latency.trial_ns, tests.latency.tagged) == (20, 120 * 10**9, True)
    assert tests.back_to_back is not None
    assert (tests.back_to_back.trials, tests.back_to_back.longest_ns) == (50, 2 * 10**9)
    assert tests.recovery is not None
    assert (tests.recovery.overload, tests.recovery.overload_ns, tests.recovery.drop_to) == (
        1.1,
        60 * 10**9,
        0.5,
    )
    assert search.longest_trial_ns == 120 * 10**9


@pytest.mark.parametrize(
    ("platform", "pace", "watch_s"),
    [("namespace", "letter", 10), ("namespace", "quick", 3), ("qemu", "letter", 60), ("qemu", "quick", 20)],
)
def test_a_guest_that_boots_after_its_reset_is_watched_for_longer(
    platform: str, pace: str, watch_s: int
) -> None:
    guests = f"{{g1: {{}}, g2: {{platform: {platform}}}}}"
    text = FILE.replace("hosts: 2", f"hosts: {{h1: {{guests: {guests}}}, h2: {{}}}}")
    text = text.replace("    back_to_back: {}", "    reset: {guest: h1.g2}").replace(
        "pace: quick", f"pace: {pace}"
    )
    experiment = load_text(text)
    search = experiment.study(experiment.points()[0]).search
    assert search is not None
    assert search.tests is not None
    assert search.tests.reset is not None
    assert search.tests.reset.watch_ns == watch_s * 10**9


def test_a_resets_time_says_how_it_was_done_and_its_absence_why() -> None:
    def told(measured: float | None, note: str) -> DeviceTest:
        test = Reset(ResetTest("h.g", 0, 10**9, trials=1), 100.0)
        play(test, lambda one: line(one, 10, 9, measured=measured, note=note))
        return test

    assert {one.how for one in told(5e6, "by its button").results()} == {"by its button"}
    silent = told(None, "nothing arrived").results()
    assert {(one.how, one.reason) for one in silent if one.statistic != "sd"} == {("", "nothing arrived")}


OTHERS = {
    "a condition": (
        "raw_stream, from: h1.g1, to: h2.g1, size: 512 B frame, duration: 300 ms",
        "low: 100 packet/s\n  high: 5 kpacket/s\n  resolution: 50 packet/s\n  until: load.loss.ratio > 0 %",
    ),
    "datagrams": (
        "udp_stream, from: h1.g1, to: h2.g1, size: 500 B payload",
        "low: 1 Mbit/s\n  high: 20 Mbit/s\n  method: bisection\n  goals: [{trial: 300 ms, width: 5 %}]",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", OTHERS)
def test_tests_follow_a_search_by_condition_and_one_of_datagrams(kind: str, tmp_path: Path) -> None:
    role, search = OTHERS[kind]
    text = f"""
version: 1
name: other
hosts: 2
topology: line
link: {{rate: 100 Mbit/s}}
links: {{s1-h2: {{rate: 10 Mbit/s, queue: {{kind: fifo, limit: 20 packets}}}}}}
roles: {{load: {{workload: {role}}}}}
search:
  variable: load.rate
  {search}
  tests: {{pace: quick, latency: {{at: [50 %], tag: all, trial: 200 ms}}, recovery: {{overload: 130 %, overload_for: 1 s}}}}
repeat: 1
timing: {{warmup: 0 s, drain: 50 ms}}
"""
    table = run_values(run(text, tmp_path / "o.results"))

    def of(path: str) -> float:
        return table.values(MetricPath.parse(path))[0]  # type: ignore[return-value]

    found = of("load.limit_packet_rate.found") * 8 * 512 if kind == "a condition" else of("load.ndr.found")
    assert of("load.at50.tested_load.mean") == pytest.approx(found / 2, rel=0.01)
    assert 0 < of("load.at50.latency.mean") < 5e6
    assert 0 <= of("load.recovery_time.mean") < 1e9


@pytest.mark.slow
def test_a_device_that_still_loses_frames_at_the_end_of_the_trial_has_not_recovered(tmp_path: Path) -> None:
    begin, end = FILE.index("    pace:"), FILE.index("repeat:")
    tests = "    recovery: {overload: 400 %, overload_for: 500 ms, watch: 500 ms, trials: 1}\n"
    rows = table_rows(run(FILE[:begin] + tests + FILE[end : FILE.index("claims:")], tmp_path / "r.results"))
    assert [(row[0], row[5], row[-1]) for row in rows] == [
        ("system recovery", "no value", "frames were still lost at the end of the trial")
    ]


def test_a_timeline_can_reset_a_guest() -> None:
    text = """
version: 1
name: reset
hosts: {h1: {guests: 2}}
roles: {probe: {workload: rtt, from: h1.g1, to: h1.g2, count: 5}}
timeline:
  - {id: probe, do: run, role: probe}
  - {id: gone, do: reset, guest: h1.g2, for: 20 ms, after: probe.started + 100 ms}
"""
    from virtlab.planner import plan_run

    experiment = load_text(text)
    action = plan_run(experiment, experiment.points()[0], 0).timeline[1]
    assert (action.do, action.guest, action.for_ns) == ("reset", "h1.g2", 20 * MS)
    with pytest.raises(FileMistakesError, match=r"there is no guest 'h1.g3'"):
        load_text(text.replace("guest: h1.g2, for", "guest: h1.g3, for"))
