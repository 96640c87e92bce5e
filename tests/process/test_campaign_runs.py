"""A campaign on the backend in closed form: order, retries, limits, interruption, going on after a death."""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from tests.contract.closed_form import ClosedForm
from tests.contract.small_campaign import POINTS, TEXT, campaign, opened, plan

from virtlab.campaign import CampaignObserver, Schedule
from virtlab.campaign.progress import PlainProgress, Standing
from virtlab.errors import DatasetError
from virtlab.plan import Plan
from virtlab.planner.order import round_order
from virtlab.results import Dataset, RunKey, RunRecord

ROOT = Path(__file__).parents[2]


class Noted(CampaignObserver):
    """Notes what ended; asks to stop after `stop_after` runs."""

    def __init__(self, stop_after: int | None = None) -> None:
        super().__init__()
        self.names: list[str] = []
        self.standings: list[Standing] = []
        if stop_after is not None:
            self.cancellation = lambda: len(self.names) >= stop_after

    def run_ended(self, record: RunRecord, standing: Standing) -> None:
        self.names.append(record.name)
        self.standings.append(standing)


def expected_order(repetitions: int) -> list[str]:
    return [RunKey(point, r, 0).name for r in range(repetitions) for point in round_order(7, r, POINTS)]


def digests(path: Path) -> dict[str, str]:
    """What every finished run holds."""
    found = {}
    for folder in sorted(path.glob("runs/p*")):
        whole = hashlib.sha256()
        for file in sorted(folder.rglob("*")):
            if file.is_file() and file.name != "values.json":  # derived, and written when first asked for
                whole.update(f"{file.relative_to(folder)}:".encode() + file.read_bytes())
        found[folder.name] = whole.hexdigest()
    return found


def test_it_makes_every_run_once_in_its_planned_order(tmp_path: Path) -> None:
    backend, noted = ClosedForm(), Noted()
    with opened(tmp_path / "d", backend) as dataset:
        ending = campaign(dataset, backend, repetitions=3, observer=noted).run()
        assert (ending.why, ending.made, ending.lacking) == ("complete", 12, {})
        assert noted.names == expected_order(3)
        assert [standing.least for standing in noted.standings] == list(range(11, -1, -1))
        assert [record.status for record in dataset.runs()] == ["ok"] * 12
        assert campaign(dataset, backend, repetitions=3).run().made == 0
        medians = dataset.query(
            "SELECT switches, median(rtt_ns) AS rtt FROM rtt GROUP BY ALL ORDER BY switches"
        )["rtt"]
        assert np.allclose(np.diff(medians), 244_160, atol=10_000)


def test_a_finished_run_is_on_disk_before_the_next_begins(tmp_path: Path) -> None:
    backend = ClosedForm()
    path = tmp_path / "d"

    class Looks(CampaignObserver):
        def run_begins(self, key: RunKey, levels: object, standing: Standing) -> None:
            assert len(Dataset.open(path).runs()) == standing.done
            assert list(path.glob("runs/.partial-*")) == []

    with opened(path, backend) as dataset:
        assert campaign(dataset, backend, repetitions=2, observer=Looks()).run().made == 8


def test_a_run_that_went_wrong_is_kept_and_made_again(tmp_path: Path) -> None:
    def disturb(_plan: Plan, opened_before: int) -> str:
        return {1: "tainted", 2: "failed", 3: "raise"}.get(opened_before, "ok")

    backend, noted = ClosedForm(disturb=disturb), Noted()
    with opened(tmp_path / "d", backend) as dataset:
        ending = campaign(dataset, backend, repetitions=1, observer=noted).run()
        assert (ending.made, ending.lacking) == (7, {})
        order = round_order(7, 0, POINTS)
        assert noted.names[4:] == [RunKey(point, 0, 1).name for point in order[1:]]
        assert {record.attempt for record in dataset.runs("ok")} == {0, 1}
        failed = dataset.run(RunKey(order[3], 0, 0).name)
        assert failed.reasons == ("world: broke down; mend it",)
        (error,) = [entry for entry in failed.log() if entry["level"] == "error"]
        assert error["details"] == {"kind": "GuestError"}


def test_a_point_that_never_works_is_named_and_the_others_are_measured(tmp_path: Path) -> None:
    backend = ClosedForm(disturb=lambda plan, _n: "raise" if plan.point["switches"] == "2" else "ok")
    with opened(tmp_path / "d", backend) as dataset:
        ending = campaign(dataset, backend, repetitions=4).run()
        assert list(ending.lacking) == [2]
        assert len(dataset.runs("failed")) == 3
        assert len(dataset.runs("ok")) == 12


def test_it_stops_at_a_run_limit_and_goes_on_from_there(tmp_path: Path) -> None:
    backend, noted = ClosedForm(), Noted()
    with opened(tmp_path / "d", backend) as dataset:
        for _ in range(3):
            campaign(dataset, backend, repetitions=2, observer=noted, run_limit=3).run()
    assert noted.names == expected_order(2)


def test_it_stops_when_asked_between_runs(tmp_path: Path) -> None:
    backend, noted = ClosedForm(), Noted(stop_after=2)
    with opened(tmp_path / "d", backend) as dataset:
        ending = campaign(dataset, backend, repetitions=2, observer=noted).run()
        assert ending.interrupted
        assert ending.made == 2
        assert ending.lacking == dict.fromkeys(range(4), "0 of at least 2 good runs") | dict.fromkeys(
            round_order(7, 0, POINTS)[:2], "1 of at least 2 good runs"
        )


def test_no_run_begins_beyond_the_time_budget(tmp_path: Path) -> None:
    backend = ClosedForm(slow_s=0.02)
    with opened(tmp_path / "d", backend) as dataset:
        assert campaign(dataset, backend, repetitions=2, budget_ns=1).run().why == "time budget"
        assert dataset.runs() == []
        campaign(dataset, backend, repetitions=2, budget_ns=200_000_000).run()
        spent_ns = sum(record.timings["total"] for record in dataset.runs())
        assert dataset.runs()
        assert campaign(dataset, backend, repetitions=2, budget_ns=spent_ns).run().made == 0


def test_what_is_said_to_be_left_fits_the_time_budget(tmp_path: Path) -> None:
    backend, noted, budget_ns = ClosedForm(slow_s=0.02), Noted(), 300_000_000
    with opened(tmp_path / "d", backend) as dataset:
        campaign(dataset, backend, repetitions=50, budget_ns=budget_ns, observer=noted).run()
        spent_ns = 0
        totals = {record.name: record.timings["total"] for record in dataset.runs()}
    assert noted.names
    for name, standing in zip(noted.names, noted.standings, strict=True):
        spent_ns += totals[name]
        assert standing.left_ns is not None
        assert standing.left_ns <= max(0, budget_ns - spent_ns)


def test_a_cancelled_run_is_not_kept(tmp_path: Path) -> None:
    backend = ClosedForm(slow_s=5)
    observer = CampaignObserver()
    begun = time.monotonic()
    observer.cancellation = lambda: time.monotonic() > begun + 0.1
    with opened(tmp_path / "d", backend) as dataset:
        ending = campaign(dataset, backend, observer=observer).run()
        assert ending.interrupted
        assert list((dataset.path / "runs").iterdir()) == []


def test_precision_stops_a_point(tmp_path: Path) -> None:
    backend = ClosedForm()
    with opened(tmp_path / "d", backend) as dataset:
        work = campaign(dataset, backend)
        work.schedule = Schedule(7, POINTS, 2, 6, (2, 4, 6), lambda point, n: point == 0 or n >= 4)
        work.run()
        made = [sum(record.point == point for record in dataset.runs()) for point in range(4)]
        assert made == [2, 4, 4, 4]


def test_a_changed_file_is_refused_with_what_changed(tmp_path: Path) -> None:
    backend = ClosedForm()
    opened(tmp_path / "d", backend).close()
    opened(tmp_path / "d", backend, TEXT + "# a comment changes nothing\n").close()
    with pytest.raises(DatasetError, match=r"name: small -> large.*new dataset") as caught:
        opened(tmp_path / "d", backend, TEXT.replace("small", "large"))
    assert "seed" not in str(caught.value)
    with pytest.raises(DatasetError, match="seed: absent -> 3"):
        opened(tmp_path / "d", backend, TEXT + "seed: 3\n")
    opened(tmp_path / "d", backend).close()  # a refusal keeps no lock


def test_a_run_that_would_be_planned_differently_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = ClosedForm()
    with opened(tmp_path / "d", backend) as dataset:
        campaign(dataset, backend, repetitions=1).run()
    monkeypatch.setitem(POINTS[2], "switches", "two")
    with pytest.raises(DatasetError, match=r"p0002-r00-a0: was planned differently"):
        opened(tmp_path / "d", backend)


def test_another_backend_or_machine_is_refused(tmp_path: Path) -> None:
    import json
    from dataclasses import replace

    from virtlab.campaign.loop.resumption import open_dataset

    backend = ClosedForm()
    able = backend.capabilities()
    opened(tmp_path / "d", backend).close()
    with pytest.raises(DatasetError, match="made by backend 'closed_form'"):
        open_dataset(tmp_path / "d", TEXT, name="small", seed=7, backend=replace(able, backend="testbed"))
    path = tmp_path / "d" / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["machine"]["cpu"] = "an abacus"
    path.write_text(json.dumps(manifest))
    opened(tmp_path / "d", backend).close()
    with pytest.raises(DatasetError, match="an abacus"):
        open_dataset(tmp_path / "d", TEXT, name="small", seed=7, backend=replace(able, parallel_sessions=1))


def test_plain_progress_says_what_is_left(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    backend = ClosedForm(disturb=lambda _plan, n: "tainted" if n == 0 else "ok")
    with opened(tmp_path / "d", backend) as dataset:
        campaign(dataset, backend, repetitions=1, observer=PlainProgress()).run()
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 5
    assert "tainted (disturbed on purpose)" in lines[0]
    assert "4 left" in lines[0]
    assert lines[-1].endswith("5 runs done, 0 left")


def begun(path: Path, slow_s: float = 0.01) -> subprocess.Popen[str]:
    """The campaign as a process of its own, among its runs."""
    command = [sys.executable, "-m", "tests.contract.small_campaign", str(path), str(slow_s)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def test_twenty_kills_lose_and_repeat_no_finished_run(tmp_path: Path) -> None:
    draws = random.Random(20)
    path = tmp_path / "d"
    finished: dict[str, str] = {}
    for kill in range(20):
        process = begun(path)
        time.sleep(draws.uniform(0.0, 0.12))
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
        now = digests(path)
        assert {name: now.get(name) for name in finished} == finished, (
            f"a finished run changed at kill {kill}"
        )
        finished = now
        assert sorted(finished) == sorted(expected_order(20)[: len(finished)])
    process = begun(path)
    process.communicate()
    assert process.returncode == 0
    now = digests(path)
    assert {name: now[name] for name in finished} == finished
    assert sorted(now) == sorted(expected_order(20))
    assert sorted(entry.name for entry in path.iterdir()) == [
        ".lock",
        "experiment.yaml",
        "manifest.json",
        "runs",
    ]
    dataset = Dataset.open(path)
    assert all(record.samples("probe", "rtt/1")["seq"].size == 50 for record in dataset.runs("ok"))


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_run_cleanly_and_the_same_command_goes_on(
    tmp_path: Path, number: signal.Signals
) -> None:
    path = tmp_path / "d"
    process = begun(path, slow_s=1.0)
    time.sleep(0.2)
    process.send_signal(number)
    begun_ns = time.monotonic_ns()
    process.communicate()
    assert process.returncode == 130
    assert time.monotonic_ns() - begun_ns < 60 * 10**9
    assert list((path / "runs").glob(".partial-*")) == []
    backend = ClosedForm()
    with opened(path, backend) as dataset:
        assert campaign(dataset, backend, repetitions=1).run().lacking == {}


def test_a_second_campaign_on_a_dataset_is_told_who_the_first_is(tmp_path: Path) -> None:
    path = tmp_path / "d"
    process = begun(path, slow_s=0.2)
    with pytest.raises(DatasetError, match=f"process {process.pid}"):
        opened(path, ClosedForm())
    os.kill(process.pid, signal.SIGTERM)
    process.communicate()


def test_the_plan_of_a_run_is_pure() -> None:
    assert plan(1, 2).identity() == plan(1, 2).identity()
    assert plan(1, 2).identity() != plan(1, 3).identity()


def test_live_progress_keeps_what_went_wrong_and_leaves_no_panel(tmp_path: Path) -> None:
    import io

    from rich.console import Console

    from virtlab.campaign.progress import LiveProgress

    screen = io.StringIO()
    observer = LiveProgress(Console(file=screen, force_terminal=True, width=200))
    backend = ClosedForm(disturb=lambda _plan, n: "tainted" if n == 0 else "ok")
    with opened(tmp_path / "d", backend) as dataset:
        campaign(dataset, backend, repetitions=1, observer=observer).run()
    observer.ended()  # as a command does in its `finally`: ending twice does no harm
    text = screen.getvalue()
    assert "tainted (disturbed on purpose)" in text
    assert "5 runs done, 0 left" in text
    assert text.endswith("\x1b[2K")  # the panel was erased


def test_time_left_counts_the_runs_that_have_to_be_made_again(tmp_path: Path) -> None:
    backend, noted = ClosedForm(slow_s=0.02, disturb=lambda _plan, n: "ok" if n % 2 else "tainted"), Noted()
    with opened(tmp_path / "d", backend) as dataset:
        campaign(dataset, backend, repetitions=2, observer=noted).run()
        per_run_ns = sum(record.timings["total"] for record in dataset.runs()) / len(noted.names)
    halfway = noted.standings[7]
    assert halfway.least == 4
    assert halfway.left_ns is not None
    assert 0.3 < halfway.left_ns / (8 * per_run_ns) < 3
