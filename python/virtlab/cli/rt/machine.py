"""run, overhead: the answer on the real kernel."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from virtlab.cli.rt.answers import table
from virtlab.cli.rt.options import (
    BudgetOption,
    JsonOption,
    PeriodOption,
    PolicyOption,
    TasksFile,
    show_json,
    tasks_of,
    time_ns,
)
from virtlab.errors import ExperimentError
from virtlab.folders import Folder
from virtlab.lazy import np
from virtlab.terminal import say

if TYPE_CHECKING:
    from virtlab.realtime.confirm import Judgement

ByOption = Annotated[str, typer.Option("--by", help="auto, deadline (SCHED_DEADLINE) or quota (cgroup)")]
SecondsOption = Annotated[
    float, typer.Option("--seconds", min=0.1, max=120.0, help="about how long each attempt runs")
]


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("run")(run)
    app.command("overhead")(overhead)


RECORDS = {
    "windows": "start_ns,end_ns",
    "cycles": "begin_ns,end_ns,served_ns,charged_ns",
    "jobs": "episode,task,release_ns,finish_ns,executed_ns,start_ns",
}


def run(
    tasks: TasksFile,
    period: PeriodOption,
    budget: BudgetOption,
    overhead: Annotated[
        str,
        typer.Option("--overhead", "-x", help="time lost at each start; 'measure': 1 s here before the run"),
    ] = "measure",
    policy: PolicyOption = "rm",
    phases: Annotated[
        int, typer.Option("--phases", min=1, max=1000, help="release phases within the VM's period")
    ] = 8,
    seconds: SecondsOption = 3.0,
    competitors: Annotated[
        bool, typer.Option("--competitors", help="other reservations fill the rest")
    ] = False,
    by: ByOption = "auto",
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="folder for windows, jobs and verdict")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Runs the tasks on the kernel; confirmed (0), refuted (1), or void: the supply was broken (4).

    A thread with the budget plays the guest.

    Example: virtlab rt run tasks.yaml --period '7 ms' --budget '3.5 ms' --phases 16
    """
    from virtlab.realtime import analyze
    from virtlab.testbed.build.realtime import ATTEMPTS, competitors_for, measure_overhead, run_guest
    from virtlab.units import show_time

    given = tasks_of(tasks, policy, "1")
    period_ns, budget_ns = time_ns(period, "--period"), time_ns(budget, "--budget")
    chosen = _by(by)
    others = competitors_for(int(period_ns), int(budget_ns)) if competitors else []
    if overhead == "measure":
        if chosen == "quota":
            raise ExperimentError(
                "--overhead", "cannot be measured under a cgroup quota", "state it, e.g. '500 us'"
            )
        found = measure_overhead(
            period_ns=int(period_ns), budget_ns=int(budget_ns), seconds=1.0, by="deadline", competitors=others
        )
        lost = Fraction(found.advised_ns)
        if not json:
            say(
                f"overhead per start, as measured here: {show_time(found.largest_ns)} at most, planned {show_time(lost)}"
            )
    else:
        lost = time_ns(overhead, "--overhead")
    analysis = analyze(given, period_ns=period_ns, budget_ns=budget_ns, overhead_ns=lost)
    if not json and not analysis.schedulable:
        say(
            f"the analysis says that a deadline can break (critical task {analysis.critical_task}); running all the same"
        )

    def progress(number: int, judgement: Judgement) -> None:
        if not json and judgement.verdict == "void":
            short = show_time(judgement.shortfall_ns)
            say(
                f"attempt {number} of {ATTEMPTS}: void, the machine gave {short} less than the model's least supply"
            )

    attempts = run_guest(
        given, analysis, seconds=seconds, phases=phases, by=chosen, competitors=others, observe=progress
    )
    last = attempts[-1]
    content = {
        "verdict": last.judgement.verdict,
        "analysis": analysis.to_json(),
        "competitors": [{"period_ns": one.period_ns, "budget_ns": one.budget_ns} for one in others],
        "attempts": [attempt.judgement.to_json(attempt.observed) for attempt in attempts],
    }
    if output is not None:
        _keep(output, content, attempts)
    if json:
        show_json(content)
    else:
        _show(last.judgement, last.observed.by, last.observed.lost_ns, last.observed.longest_loss_ns)
    if last.judgement.verdict != "confirmed":
        raise typer.Exit(1 if last.judgement.verdict == "refuted" else 4)


def overhead(
    period: PeriodOption = "10 ms",
    budget: BudgetOption = "3 ms",
    seconds: SecondsOption = 3.0,
    competitors: Annotated[
        bool, typer.Option("--competitors", help="other reservations fill the rest")
    ] = False,
    json: JsonOption = False,
) -> None:
    """Measures X: what each start of a guest costs its budget on this machine (switch, interrupts, a machine below).

    Example: virtlab rt overhead --period '10 ms' --budget '4 ms'
    """
    from virtlab.testbed.build.realtime import competitors_for, measure_overhead
    from virtlab.units import show_time

    period_ns, budget_ns = int(time_ns(period, "--period")), int(time_ns(budget, "--budget"))
    others = competitors_for(period_ns, budget_ns) if competitors else []
    found = measure_overhead(
        period_ns=period_ns, budget_ns=budget_ns, seconds=seconds, by="deadline", competitors=others
    )
    if json:
        show_json(
            {
                "median_ns": found.median_ns,
                "p99_ns": found.p99_ns if found.periods >= 100 else None,
                "largest_ns": found.largest_ns,
                "advised_ns": found.advised_ns,
                "periods": found.periods,
                "by": found.by,
            }
        )
        return
    p99 = show_time(found.p99_ns) if found.periods >= 100 else "not estimable"
    say(
        f"lost per start over {found.periods} periods: median {show_time(found.median_ns)}, p99 {p99},"
        f" largest {show_time(found.largest_ns)}"
    )
    say(f"plan with --overhead '{show_time(found.advised_ns)}'")


def _by(text: str) -> Any:
    if text not in {"auto", "deadline", "quota"}:
        raise ExperimentError("--by", f"'{text}' is unknown", "choose auto, deadline or quota")
    return text


def _show(judgement: Judgement, by: str, lost_ns: int, longest_ns: int) -> None:
    from virtlab.units import show_time

    rows = [("task", "jobs", "longest response", "bound", "deadline", "misses")]
    for task in judgement.tasks:
        rows.append(
            (
                task.name,
                str(task.jobs),
                "-" if task.longest_ns is None else show_time(task.longest_ns),
                "none" if task.bound_ns is None else show_time(task.bound_ns),
                show_time(task.deadline_ns),
                str(task.misses),
            )
        )
    table(rows)
    if judgement.supply_per_period_ns:
        least, most = min(judgement.supply_per_period_ns), max(judgement.supply_per_period_ns)
        say(
            f"supply per period: {show_time(least)} to {show_time(most)} over {len(judgement.supply_per_period_ns)} periods"
        )
    say(f"charged but not seen by the guest: {show_time(lost_ns)} in all, {show_time(longest_ns)} at once")
    name = "SCHED_DEADLINE" if by == "deadline" else "a cgroup quota"
    meaning = {
        "confirmed": "the supply was kept and every response time lies within its bound",
        "refuted": "the supply was kept and a response time exceeds its bound",
        "void": "the machine did not keep the supply; nothing can be said",
    }[judgement.verdict]
    say(f"{judgement.verdict} (under {name}): {meaning}")


def _keep(folder: Path, content: dict[str, Any], attempts: list[Any]) -> None:
    import json as text

    try:
        with Folder.open(folder, make=True) as place:
            place.write("verdict.json", text.dumps(content, indent=2).encode())
            for number, attempt in enumerate(attempts, 1):
                for name, columns in RECORDS.items():
                    with place.writing(f"attempt{number}-{name}.csv") as file:
                        np.savetxt(
                            file,
                            getattr(attempt.observed, name),
                            fmt="%d",
                            delimiter=",",
                            header=columns,
                            comments="",
                        )
    except OSError as error:
        raise ExperimentError(
            "--output", f"{folder} cannot be written ({error.strerror})", "name another folder"
        ) from None
