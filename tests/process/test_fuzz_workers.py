"""Workers of the mutation fuzz: what hangs, spins or dies is a finding, and a worker that a busy machine holds up is
not.
"""

from __future__ import annotations

import os
import signal
import threading
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tools.fuzz import workers

CASES = ["good", "sleeps", "good", "spins", "dies", "good"]
LONG_S = 300


def run_case(case: str) -> None:
    if case == "sleeps":
        time.sleep(LONG_S)
    elif case == "spins":
        signal.signal(signal.SIGPROF, signal.SIG_IGN)  # as a loop that never comes back to the interpreter
        while True:
            pass
    elif case == "dies":
        os._exit(3)


def cases(_seed: int, count: int) -> Iterator[str]:
    yield from CASES[:count]


def test_what_hangs_spins_or_dies_is_a_finding(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(
        workers, "kinds", lambda: {"odd": types.SimpleNamespace(run_case=run_case, cases=cases)}
    )
    monkeypatch.setattr(workers, "WALL_SECONDS", 0.5)
    monkeypatch.setattr(workers, "STUCK_CPU_SECONDS", 0.6)
    outcome = workers.fuzz("odd", seed=1, count=len(CASES), workers=1, folder=tmp_path)
    ended = [int(what.rsplit(maxsplit=1)[-1]) for _, what in outcome.findings]
    assert [os.waitstatus_to_exitcode(status) for status in ended] == [-signal.SIGKILL, -signal.SIGKILL, 3]
    assert [path.name.split("-")[-1].split(".")[0] for path, _ in outcome.findings] == ["1", "3", "4"]
    assert list(tmp_path.glob("*.begun")) == []


def test_a_worker_that_hangs_before_its_first_case_is_no_round(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    odd = types.SimpleNamespace(run_case=run_case, cases=cases, prepare=lambda: time.sleep(LONG_S))
    monkeypatch.setattr(workers, "kinds", lambda: {"odd": odd})
    monkeypatch.setattr(workers, "WALL_SECONDS", 0.5)
    with pytest.raises(RuntimeError, match="before its first case"):
        workers.fuzz("odd", seed=1, count=1, workers=1, folder=tmp_path)


def _spins() -> None:
    while True:
        pass


def _waits_for_a_thread() -> None:
    """As a library with threads of its own."""
    thread = threading.Thread(target=_spins)
    thread.start()
    thread.join()


@pytest.mark.parametrize("works", [_spins, _waits_for_a_thread])
def test_a_worker_that_waits_for_a_processor_is_not_stuck(
    works: Callable[[], None], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A process with a thread that is ready to run, and gets no time: that is in state R, and its CPU time stays."""
    monkeypatch.setattr(workers, "WALL_SECONDS", 0.0)
    hand = tmp_path / "hand"
    hand.touch()
    busy = os.fork()
    if busy == 0:
        works()
    try:
        watch = workers._Watch()
        deadline = time.monotonic() + LONG_S
        while not workers._state(busy)[0] and time.monotonic() < deadline:
            time.sleep(0.01)
        assert not watch.is_stuck(busy, hand)
        time.sleep(0.05)
        assert not watch.is_stuck(busy, hand)
        os.kill(busy, signal.SIGSTOP)
        while workers._state(busy)[0] and time.monotonic() < deadline:
            time.sleep(0.01)
        watch.is_stuck(busy, hand)  # what it had used by then
        time.sleep(0.01)
        assert watch.is_stuck(busy, hand)
    finally:
        os.kill(busy, signal.SIGKILL)
        os.waitpid(busy, 0)
