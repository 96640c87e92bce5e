"""What is demanded of the container image that was tried."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from tools import image


def answered(
    code: int = 0, real: str = "holds", simulated: str = "holds"
) -> subprocess.CompletedProcess[str]:
    """What a demonstration in a container says."""
    answers = {
        "simulator": {"verdicts": [{"id": "a", "verdict": simulated}]},
        "testbed": {"verdicts": [{"id": "a", "verdict": real}]},
    }
    return subprocess.CompletedProcess([], code, json.dumps({"answers": answers}), "one line")


def test_a_demonstration_that_decides_every_claim_is_what_is_wanted() -> None:
    told = image.judged(answered(), Counter({"ok": 8, "tainted": 1}))
    assert told["decided"]
    assert told["verdicts"] == {"a": "holds"}


def test_claims_that_hold_while_runs_are_missing_are_no_decision() -> None:
    assert not image.judged(answered(4), Counter({"ok": 6, "tainted": 20}))["decided"]


@pytest.mark.parametrize(
    ("done", "runs"),
    [
        (answered(1, "refuted"), Counter({"ok": 8})),
        (answered(70), Counter({"ok": 8})),
        (answered(simulated="undecided"), Counter({"ok": 8})),
        (answered(), Counter({"ok": 7, "failed": 1})),
        (answered(), Counter()),
        (answered(0, "undecided"), Counter({"ok": 8})),
    ],
)
def test_a_demonstration_in_which_something_fails_is_refused(done: Any, runs: Counter[str]) -> None:
    with pytest.raises(AssertionError):
        image.judged(done, runs)


@pytest.mark.parametrize("decides_in", [1, 3, 4])
def test_a_busy_machine_has_three_tries(
    decides_in: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The image's answers are given; what becomes of them is not."""
    count = 0

    def started(_storage: list[str], flags: tuple[str, ...], *_words: str) -> Any:
        nonlocal count
        if any("seccomp" in flag for flag in flags):
            return answered(image.REFUSED)
        count += 1
        run = Path(flags[-1].partition(":")[0]) / "virtlab-demo" / "testbed.results" / "runs" / "one"
        run.mkdir(parents=True)
        decided = count >= decides_in
        (run / "run.json").write_text(json.dumps({"status": "ok" if decided else "tainted"}))
        return answered() if decided else answered(image.UNDECIDED, "undecided")

    monkeypatch.setattr(image, "started", started)
    if decides_in <= image.TRIES:
        assert len(image.tried([], tmp_path)["tries"]) == decides_in
    else:
        with pytest.raises(AssertionError, match="in 3 tries"):
            image.tried([], tmp_path)
