"""Runs the cases of one kind in worker processes that cannot take more than their share.

A worker is forked after everything was imported, and does every N-th case. The memory that a case adds is bounded
(`MEMORY_BYTES`), its CPU time is (`CPU_SECONDS`; a machine that does other work is no reason to refuse a file), and a
worker is killed that has long used up its CPU time, or used none for `WALL_SECONDS` and waits for no processor. The
case in hand is on disk before it is begun, so that a worker that dies, whatever of, leaves the case that killed it.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import json
import os
import pickle
import pkgutil
import resource
import signal
import time
import traceback
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tools.fuzz

from virtlab.errors import VirtlabError

CPU_SECONDS = 2.0
WALL_SECONDS = 60.0
STUCK_CPU_SECONDS = 10.0  # in a case; no signal of ours ends a loop in the extension module
MEMORY_BYTES = 1 << 30
FINDINGS_MAX = 50  # of one worker; more of them say nothing new
MESSAGE_MAX = 4000  # characters of one line of a refusal


class TakesTooLong(BaseException):
    """The case used up its CPU time; no `except Exception` holds it back."""


@dataclass(slots=True)
class Outcome:
    """What became of the cases of one kind; `findings` are files to replay, each with what came out."""

    kind: str
    accepted: int = 0
    refused: int = 0
    longest_s: float = 0.0
    findings: list[tuple[Path, str]] = field(default_factory=list)


def kinds() -> dict[str, Any]:
    """The modules of this folder that are a kind of input, by name."""
    found = {}
    for entry in pkgutil.iter_modules(tools.fuzz.__path__):
        if entry.name == "__main__":
            continue
        module = importlib.import_module(f"tools.fuzz.{entry.name}")
        if hasattr(module, "run_case"):
            found[entry.name] = module
    return found


def fuzz(kind: str, *, seed: int, count: int, workers: int, folder: Path) -> Outcome:
    """All cases of a kind; every finding is in `folder` afterwards."""
    folder.mkdir(parents=True, exist_ok=True)
    outcome = Outcome(kind)
    begun = {number: _start(kind, seed, count, number, workers, folder, 0) for number in range(workers)}
    watches = {number: _Watch() for number in range(workers)}
    while begun:
        time.sleep(0.05)
        for number, process in list(begun.items()):
            ended, status = os.waitpid(process, os.WNOHANG)
            hand = folder / f"{kind}.{number}.hand"
            if not ended:
                if watches[number].is_stuck(process, hand):
                    os.kill(process, signal.SIGKILL)
                continue
            del begun[number]
            _gather(outcome, folder / f"{kind}.{number}.json")
            if status and hand.exists():
                position, case = pickle.loads(hand.read_bytes())
                what = f"the process ended with status {status}"
                outcome.findings.append((_written(folder, kind, seed, position, case), what))
                begun[number] = _start(kind, seed, count, number, workers, folder, position + 1)
            elif status:
                raise RuntimeError(f"a worker of {kind} ended before its first case, with status {status}")
    return outcome


@dataclass(slots=True)
class _Watch:
    """How long a worker has done nothing for its case: `since` on the clock; its CPU time then, and when the case
    began.
    """

    case_ns: int = 0
    since: float = field(default_factory=time.monotonic)
    used: float = 0.0
    before: float = 0.0

    def is_stuck(self, process: int, hand: Path) -> bool:
        """Whether the worker neither prepares, works on a case nor ends. One that a busy machine leaves waiting is not
        stuck.
        """
        case_ns = 0
        try:
            runs, used = _state(process)
        except (FileNotFoundError, ProcessLookupError):
            return False
        with contextlib.suppress(FileNotFoundError):  # before the first case, or after the last
            case_ns = hand.stat().st_mtime_ns
        now = time.monotonic()
        if case_ns != self.case_ns:
            self.case_ns, self.since, self.used, self.before = case_ns, now, used, used
        if runs or used != self.used:
            self.since, self.used = now, used
        return now - self.since > WALL_SECONDS or used - self.before > STUCK_CPU_SECONDS


def _state(process: int) -> tuple[bool, float]:
    """Whether a thread of a process runs or waits for a processor (proc(5): R), and their CPU time, in seconds."""
    states = []
    for path in Path(f"/proc/{process}/task").glob("*/stat"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # a thread that has just ended
            states.append(path.read_text().rpartition(")")[2].split()[0])
    of_all = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    used = (int(of_all[11]) + int(of_all[12])) / os.sysconf("SC_CLK_TCK")
    return "R" in states, used


def verdict(module: Any, case: Any) -> str:
    """'accepted', 'refused', or what came out that should not have, as a traceback."""
    signal.signal(signal.SIGPROF, _too_long)
    signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
    try:
        module.run_case(case)
    except VirtlabError as error:
        signal.setitimer(signal.ITIMER_PROF, 0)
        return _refusal(error)
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # a panic of the extension module is no Exception
        signal.setitimer(signal.ITIMER_PROF, 0)
        return "".join(traceback.format_exception(error, limit=-12))[-6000:]
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return "accepted"


def replay(path: Path) -> str:
    """The verdict on the case that a file holds, within the same bounds."""
    kind, seed, position, case = pickle.loads(path.read_bytes())
    if hasattr(module := kinds()[kind], "prepare"):
        module.prepare()
    _bound()
    return f"{kind}, seed {seed}, case {position}: {verdict(kinds()[kind], case)}"


def _refusal(error: VirtlabError) -> str:
    """A refusal is one line as `virtlab` prints it, or one for each mistake of a file."""
    for line in error.lines():
        if len(line) > MESSAGE_MAX:
            return f"a message of {len(line)} characters: {line[:200]}"
    return "refused"


def _start(kind: str, seed: int, count: int, number: int, workers: int, folder: Path, first: int) -> int:
    module = kinds()[kind]
    gc.freeze()
    process = os.fork()
    if process:
        return process
    status = 1
    try:
        _work(module, kind, seed, count, number, workers, folder, first)
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(status)


def _work(
    module: Any, kind: str, seed: int, count: int, number: int, workers: int, folder: Path, first: int
) -> None:
    if hasattr(module, "prepare"):
        module.prepare()
    _bound()
    hand, result = folder / f"{kind}.{number}.hand", folder / f"{kind}.{number}.json"
    begun = hand.with_suffix(".begun")
    counted: Counter[str] = Counter()
    findings: list[tuple[str, str]] = []
    longest = 0.0

    def told() -> None:
        content = {"accepted": counted["accepted"], "refused": counted["refused"]}
        result.write_text(json.dumps({**content, "longest": longest, "findings": findings}))

    for position, case in _share(module.cases(seed, count), number, workers, first):
        begun.write_bytes(pickle.dumps((position, case)))
        begun.replace(hand)  # whole, whenever this worker dies
        before = time.process_time()
        came = verdict(module, case)
        longest = max(longest, time.process_time() - before)
        counted[came] += 1
        if came not in {"accepted", "refused"}:
            findings.append((str(_written(folder, kind, seed, position, case)), came))
        if findings or position % 100 < workers:
            told()
        if len(findings) >= FINDINGS_MAX:
            break
    told()
    hand.unlink(missing_ok=True)


def _share(cases: Iterator[Any], number: int, workers: int, first: int) -> Iterator[tuple[int, Any]]:
    for position, case in enumerate(cases):
        if position >= first and position % workers == number:
            yield position, case


def _bound() -> None:
    """What the interpreter and the libraries take is not the case's; what a case adds is bounded."""
    lines = Path("/proc/self/status").read_text().splitlines()
    taken = int(next(line.split()[1] for line in lines if line.startswith("VmData:"))) << 10
    # Not the address space: threads and allocators reserve gigabytes of it that they never touch.
    resource.setrlimit(resource.RLIMIT_DATA, (taken + MEMORY_BYTES, taken + MEMORY_BYTES))


def _too_long(*_: object) -> None:
    raise TakesTooLong(f"more than {CPU_SECONDS:g} s of CPU time")


def _gather(outcome: Outcome, result: Path) -> None:
    if not result.exists():
        return
    content = json.loads(result.read_text())
    outcome.accepted += content["accepted"]
    outcome.refused += content["refused"]
    outcome.longest_s = max(outcome.longest_s, content["longest"])
    outcome.findings += [(Path(path), what) for path, what in content["findings"]]
    result.unlink()


def _written(folder: Path, kind: str, seed: int, position: int, case: Any) -> Path:
    path = folder / f"{kind}-{seed}-{position}.case"
    path.write_bytes(pickle.dumps((kind, seed, position, case)))
    return path
