"""The files of RFC 2544: what the letter asks for is what they ask for, and a device of known answers gives them."""

from __future__ import annotations

from pathlib import Path

import pytest

from virtlab.analysis import run_values
from virtlab.campaign import open_dataset, run_campaign
from virtlab.experiment import Experiment, load, load_text
from virtlab.experiment.work.search import RFC2544_TRIAL_NS, SearchFor, trial_ns
from virtlab.metrics import MetricPath
from virtlab.results import Dataset
from virtlab.simulator import Simulator

FOLDER = Path(__file__).parents[3] / "experiments" / "rfc2544"
QUEUE_FRAMES = 50
SIZES = (64, 128, 256, 512, 1024, 1280, 1518)  # RFC 2544, 9.1: all of Ethernet's
S = 10**9


def search_of(experiment: Experiment) -> SearchFor:
    search = experiment.study(experiment.points()[0]).search
    assert search is not None
    return search


@pytest.mark.slow
def test_the_letter_has_all_sizes_all_tests_and_the_rfcs_times() -> None:
    experiment = load(FOLDER / "letter.yaml")
    assert experiment.factors["frame"] == tuple(f"{size} B" for size in SIZES)
    search = search_of(experiment)
    assert (search.method, trial_ns(search.goals[0], search.method), search.goals[0].loss) == (
        "rfc2544", RFC2544_TRIAL_NS, 0.0,
    )  # fmt: skip
    tests = search.tests
    assert tests is not None
    assert tests.latency is not None
    assert tests.frame_loss is not None
    assert tests.back_to_back is not None
    assert tests.recovery is not None
    assert tests.reset is not None
    assert (tests.latency.trials, tests.latency.trial_ns, tests.latency.tagged) == (20, 120 * S, True)
    assert [load.share for load in tests.latency.loads] == [1.0]
    assert (tests.frame_loss.step, tests.frame_loss.trial_ns) == (0.1, 60 * S)
    assert (tests.back_to_back.trials, tests.back_to_back.longest_ns) == (50, 2 * S)
    assert (tests.recovery.overload, tests.recovery.overload_ns, tests.recovery.drop_to) == (1.1, 60 * S, 0.5)


@pytest.mark.slow
def test_the_quick_form_has_the_same_tests_and_takes_minutes() -> None:
    from virtlab.planner.estimate import estimate_points

    experiment = load(FOLDER / "quick.yaml")
    tests = search_of(experiment).tests
    assert tests is not None
    assert experiment.factors["frame"] == tuple(f"{size} B" for size in SIZES)
    assert None not in (tests.latency, tests.frame_loss, tests.back_to_back, tests.recovery, tests.reset)
    assert sum(cost.time_ns for cost in estimate_points(experiment)) < 10 * 60 * S


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_device_of_known_answers_gives_them(tmp_path: Path) -> None:
    text = (FOLDER / "quick.yaml").read_text()
    text = text[: text.index("claims:")]
    experiment, backend = load_text(text), Simulator()
    folder = tmp_path / "q.results"
    with open_dataset(folder, text, name=experiment.name, seed=1, backend=backend.capabilities()) as dataset:
        run_campaign(experiment, dataset, backend, None)
    table = run_values(Dataset.open(folder))
    for size in SIZES:
        where = {"frame": f"{size} B"}

        def of(path: str, where: dict[str, str] = where) -> float:
            return table.values(MetricPath.parse(path), where)[0]  # type: ignore[return-value]

        slow_pps, fast_pps = (rate / (8 * (size + 20)) for rate in (2e6, 20e6))
        assert slow_pps * 0.95 <= of("load.ndr_rate.found") <= slow_pps + QUEUE_FRAMES + 1  # trials of 1 s
        assert of("load.corrected_buffer_time.mean") * 1e-9 * fast_pps == pytest.approx(QUEUE_FRAMES, abs=2)
        forwarded = (
            0.1 + 2 * QUEUE_FRAMES / fast_pps
        )  # of a trial of 500 ms, with what the queue holds at its end
        assert of("load.max100.frame_loss.ratio") == pytest.approx(1 - forwarded, abs=0.005)
        assert of("load.at10.latency.mean") <= of("load.at100.latency.mean") + 1
        assert 0 <= of("load.recovery_time.mean") <= QUEUE_FRAMES / slow_pps * 1e9
        assert 0 < of("load.reset_time.mean") < 1e9
