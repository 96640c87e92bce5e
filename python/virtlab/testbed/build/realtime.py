"""Hard-deadline tasks on the real kernel: a guest with a CPU budget, played by the agent's rt role.

One thread under SCHED_DEADLINE is the guest's virtual CPU; where that is not allowed, a cgroup with a CPU quota holds
the same thread. The agent records, `virtlab.realtime.confirm` judges; here the request is written, the process started,
its refusals translated, and everything removed again.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, Literal

from virtlab.errors import AgentError, ExperimentError, MachineError
from virtlab.lazy import np
from virtlab.realtime import Analysis, TaskSet
from virtlab.realtime.confirm import Judgement, Observation, judge
from virtlab.testbed.build.realtime_quota import quota_group
from virtlab.testbed.leader.environment import of_program
from virtlab.testbed.leader.process import agent_path
from virtlab.units import show_time

By = Literal["auto", "deadline", "quota"]
ATTEMPTS = 5
LONGEST_RUN_S = 120.0
GAP_NS = 5_000


@dataclass(frozen=True, slots=True)
class Competitor:
    """Another reservation beside the guest's."""

    period_ns: int
    budget_ns: int


@dataclass(frozen=True, slots=True)
class Overhead:
    """Time per VM start that the budget pays and the tasks do not get, over many periods; ns."""

    median_ns: int
    p99_ns: int
    largest_ns: int
    periods: int
    by: str

    @property
    def advised_ns(self) -> int:
        """X to plan with: a quarter above the largest seen, to whole microseconds."""
        return math.ceil(self.largest_ns * 1.25 / 1000) * 1000


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run and its verdict."""

    observed: Observation
    judgement: Judgement


def measure_overhead(
    *,
    period_ns: int,
    budget_ns: int,
    seconds: float = 2.0,
    by: By = "auto",
    competitors: Sequence[Competitor] = (),
) -> Overhead:
    """X on this machine: per period, the budget less what reached the guest. MachineError when refused."""
    request = _request(period_ns, budget_ns, competitors) | {"duration_ns": int(seconds * 1e9)}
    observed = _observe(request, by, seconds)
    if observed.by == "quota":
        raise MachineError(
            "rt overhead",
            "a cgroup quota does not show where a period begins, so the loss per start cannot be measured",
            "run it as a user who may use SCHED_DEADLINE",
        )
    lost = sorted(max(budget_ns - int(served), 0) for served in observed.cycles[1:, 2])
    if not lost:
        raise ExperimentError("--seconds", "not one whole period was seen", "measure for longer")
    rank = min(len(lost) - 1, math.ceil(0.99 * len(lost)) - 1)
    return Overhead(lost[len(lost) // 2], lost[rank], lost[-1], len(lost), observed.by)


@cache
def deadline_refused() -> tuple[str, str] | None:
    """Why no thread of this process can have a budget under SCHED_DEADLINE, and the cure; None when one can."""
    request = _request(10_000_000, 100_000, ()) | {"duration_ns": 1_000_000, "by": "deadline"}
    try:
        _play(request, 1.0, None)
    except _RefusedError as refused:
        error = refused.error()
        return error.what, "run as root or with CAP_SYS_NICE, unpinned; or as root write 'server: quota'"
    except (AgentError, MachineError) as error:
        return error.what, error.cure
    return None


def run_guest(
    tasks: TaskSet,
    analysis: Analysis,
    *,
    seconds: float = 3.0,
    phases: int = 8,
    by: By = "auto",
    competitors: Sequence[Competitor] = (),
    observe: Callable[[int, Judgement], None] | None = None,
) -> list[Attempt]:
    """Plays the tasks in a guest with the analysis' (P, B), all released together at `phases` points of its period.

    Repeated up to five times while the machine breaks the supply. ExperimentError for what cannot be run (EDF,
    fractions of a ns), MachineError for the kernel's refusals.
    """
    if not analysis.order:
        raise ExperimentError(
            "--policy", "the guest on the real kernel runs fixed priorities", "use rm, dm, opa or given"
        )
    period_ns, budget_ns = _whole(analysis.period_ns, "--period"), _whole(analysis.budget_ns, "--budget")
    named = {task.name: task for task in tasks.tasks}
    ordered = [named[name] for name in analysis.order]
    for task in ordered:
        if task.jitter_ns or task.blocking_ns:
            raise ExperimentError(
                f"task {task.name}",
                "release jitter and blocking are analysed, not played",
                "run the set without them",
            )
    longest = max(math.ceil(task.period_ns) for task in ordered)
    episode_ns = 2 * longest
    if not 0 < seconds <= LONGEST_RUN_S:
        raise ExperimentError(
            "--seconds", f"{seconds:g} is out of range", f"write more than 0, at most {LONGEST_RUN_S:g}"
        )
    count = max(phases, int(seconds * 1e9 / (episode_ns + 3 * period_ns)))
    if count * (episode_ns + 3 * period_ns) > LONGEST_RUN_S * 1e9:
        raise ExperimentError(
            "--phases",
            f"{count} episodes of {show_time(episode_ns)} last longer than {LONGEST_RUN_S:g} s",
            "ask for fewer",
        )
    # Evenly over the period, and just after the budget is gone: the worst one.
    points = [period_ns * index // max(phases - 1, 1) for index in range(max(phases - 1, 1))] + [budget_ns]
    request = _request(period_ns, budget_ns, competitors) | {
        "tasks": [
            {
                "period_ns": _whole(task.period_ns, f"task {task.name}"),
                "wcet_ns": _whole(task.wcet_ns, f"task {task.name}"),
                "deadline_ns": _whole(task.relative_deadline_ns, f"task {task.name}"),
            }
            for task in ordered
        ],
        "episodes": [{"phase_ns": points[index % len(points)]} for index in range(count)],
        "episode_ns": episode_ns,
    }
    attempts: list[Attempt] = []
    for number in range(1, ATTEMPTS + 1):
        observed = _observe(request, by, count * (episode_ns + 3 * period_ns) / 1e9)
        judgement = judge(observed, analysis)
        attempts.append(Attempt(observed, judgement))
        if observe is not None:
            observe(number, judgement)
        if judgement.verdict != "void":
            break
    return attempts


def competitors_for(period_ns: int, budget_ns: int) -> list[Competitor]:
    """Reservations that fill what global EDF can still guarantee beside the guest, with shorter periods than its own.

    On m CPUs every deadline holds while `sum u <= m - (m - 1) max u` (Goossens, Funk, Baruah); a twentieth is left
    free.
    """
    cpus = len(os.sched_getaffinity(0))
    share = budget_ns / period_ns
    left = min(0.9 * cpus, (cpus - (cpus - 1) * share) * 0.95) - share
    shorter = max(period_ns * 3 // 4, 100_000)
    if left <= 0.02:
        return []
    count = math.ceil(left / max(share, 0.05))
    return [Competitor(shorter, max(int(shorter * left / count), 2_000)) for _ in range(count)]


def _request(period_ns: int, budget_ns: int, competitors: Sequence[Competitor]) -> dict[str, Any]:
    return {
        "period_ns": period_ns,
        "budget_ns": budget_ns,
        "gap_ns": GAP_NS,
        "competitors": [{"period_ns": one.period_ns, "budget_ns": one.budget_ns} for one in competitors],
    }


def _whole(value: Fraction, where: str) -> int:
    if value.denominator != 1:
        raise ExperimentError(
            where, f"{value} ns is not a whole number of nanoseconds", "round it; analyze says if it holds"
        )
    return int(value)


def _observe(request: dict[str, Any], by: By, seconds: float) -> Observation:
    if by in {"auto", "deadline"}:
        try:
            return _play(request | {"by": "deadline"}, seconds, None)
        except _RefusedError as refused:
            if by == "deadline" or refused.name != "EPERM" or request["competitors"]:
                raise refused.error() from None
    with quota_group(request["period_ns"], request["budget_ns"]) as join:
        try:
            return _play(request | {"by": "quota"}, seconds, join)
        except _RefusedError as refused:
            raise refused.error() from None


class _RefusedError(Exception):
    def __init__(self, content: dict[str, Any]) -> None:
        super().__init__(content["what"])
        self.call, self.name, self.what = content["call"], content["name"], content["what"]

    def error(self) -> MachineError:
        cure = {
            "EPERM": "run as root or with CAP_SYS_NICE, unpinned; or use --by quota",
            "EBUSY": "ask for a smaller share, or end the other reservations",
            "EINVAL": "choose a period and a budget in that range",
        }.get(self.name, "")
        return MachineError(self.call, f"{self.what} ({self.name})", cure)


def _play(request: dict[str, Any], seconds: float, join: Callable[[int], None] | None) -> Observation:
    before = _steal_ns()
    with subprocess.Popen(
        [str(agent_path()), "rt"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=of_program(),
    ) as process:
        try:
            if join is not None:
                join(process.pid)
            answer, complaint = process.communicate(json.dumps(request), timeout=12 * seconds + 30)
        except subprocess.TimeoutExpired:
            raise AgentError("virtlab-agent rt", f"gave no answer within {12 * seconds + 30:.0f} s") from None
        finally:
            process.kill()
    after = _steal_ns()
    if process.returncode != 0:
        raise AgentError("virtlab-agent rt", complaint.strip() or f"ended with {process.returncode}")
    content = json.loads(answer)
    if "refused" in content:
        raise _RefusedError(content["refused"])
    reply = content["ok"]

    def table(key: str, width: int) -> np.ndarray[Any, np.dtype[np.int64]]:
        return np.array(reply[key], dtype=np.int64).reshape(-1, width)

    return Observation(
        windows=table("windows", 2),
        cycles=table("cycles", 4),
        jobs=table("jobs", 6),
        lost_ns=reply["lost_ns"],
        longest_loss_ns=reply["longest_loss_ns"],
        served_ns=reply["served_ns"],
        machine_steal_ns=None if before is None or after is None else after - before,
        by=request["by"],
    )


def _steal_ns() -> int | None:
    """Time that a machine below this one took from all CPUs since boot, as the kernel counts it; None: not counted."""
    try:
        fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
        return int(fields[8]) * 10**9 // os.sysconf("SC_CLK_TCK")
    except (OSError, IndexError, ValueError):
        return None
