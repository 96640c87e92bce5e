"""analyze, period, budget, best, sensitivity: one guest, exact."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated

import typer

from virtlab.cli.rt.options import (
    BudgetOption,
    JsonOption,
    OverheadOption,
    PeriodOption,
    PolicyOption,
    ServerOption,
    ShareOption,
    SpeedOption,
    TasksFile,
    share_of,
    show_json,
    tasks_of,
    time_ns,
)
from virtlab.terminal import say

if TYPE_CHECKING:
    from virtlab.realtime import Choice
    from virtlab.realtime.answers import Rounded


def register(app: typer.Typer) -> None:
    """Adds the commands."""
    app.command("analyze")(analyze)
    app.command("period")(period)
    app.command("budget")(budget)
    app.command("best")(best)
    app.command("sensitivity")(sensitivity)


def analyze(
    tasks: TasksFile,
    period: PeriodOption,
    budget: BudgetOption,
    overhead: OverheadOption = "0 ns",
    policy: PolicyOption = "rm",
    server: ServerOption = "periodic",
    speed: SpeedOption = "1",
    json: JsonOption = False,
) -> None:
    """Response time, slack and proof of every task at one period and budget. Exit 1 when a deadline breaks.

    Example: virtlab rt analyze tasks.yaml --period '7 ms' --budget '2.8 ms'
    """
    from virtlab.realtime import analyze as run
    from virtlab.units import show_time

    found = run(
        tasks_of(tasks, policy, speed),
        period_ns=time_ns(period, "--period"),
        budget_ns=time_ns(budget, "--budget"),
        overhead_ns=time_ns(overhead, "--overhead"),
        server=server,
    )
    if json:
        show_json(found.to_json())
    else:
        rows = [("task", "response time", "deadline", "slack", "served: demand w by t in k windows", "")]
        for task in found.tasks:
            proof = task.witness
            rows.append(
                (
                    task.name,
                    "unbounded" if task.wcrt_ns is None else show_time(task.wcrt_ns),
                    show_time(task.deadline_ns),
                    "-" if task.slack_ns is None else show_time(task.slack_ns),
                    "-"
                    if proof is None
                    else f"{show_time(proof.w_ns)} by {show_time(proof.t_ns)} in {proof.k}",
                    "safe" if task.schedulable else "MISSES",
                )
            )
        table(rows)
        verdict = "every deadline holds" if found.schedulable else "a deadline breaks"
        say(f"{verdict}; critical task: {found.critical_task}")
    if not found.schedulable:
        raise typer.Exit(1)


def period(
    tasks: TasksFile,
    share: ShareOption,
    overhead: OverheadOption = "0 ns",
    policy: PolicyOption = "rm",
    server: ServerOption = "periodic",
    speed: SpeedOption = "1",
    json: JsonOption = False,
) -> None:
    """All periods at which a share of the CPU is enough: the largest, the largest without holes below, all intervals.

    Example: virtlab rt period tasks.yaml --share 0.4
    """
    from virtlab.realtime import periods
    from virtlab.units import show_time

    found = periods(
        tasks_of(tasks, policy, speed),
        share=share_of(share),
        overhead_ns=time_ns(overhead, "--overhead"),
        server=server,
    )
    if json:
        show_json(found.to_json())
    elif found.max_period_ns is None or found.safe_period_ns is None or found.safe_from_ns is None:
        say("no period is enough at this share; give more")
    else:
        exactly = "" if found.max_period_ns.denominator == 1 else f" (exactly {found.max_period_ns} ns)"
        say(f"largest period        {show_time(found.max_period_ns)}{exactly}")
        start = (
            "any shorter one" if found.safe_from_ns == 0 else f"any down to {show_time(found.safe_from_ns)}"
        )
        say(f"largest without holes {show_time(found.safe_period_ns)} ({start} is enough too)")
        say(f"critical task         {found.critical_task}")
        shown = [_interval(low, high) for low, high in found.intervals_ns]
        if len(shown) > 12:
            shown = [*shown[:6], f"... {len(shown) - 12} more ...", *shown[-6:]]
        say(f"all periods           {' u '.join(shown)}")
        _show_rounded(found.rounded)
    if not found.schedulable:
        raise typer.Exit(1)


def budget(
    tasks: TasksFile,
    period: PeriodOption,
    overhead: OverheadOption = "0 ns",
    policy: PolicyOption = "rm",
    server: ServerOption = "periodic",
    speed: SpeedOption = "1",
    json: JsonOption = False,
) -> None:
    """The least budget at a period, and the task that needs it. Exit 1 when not even the whole CPU is enough.

    Example: virtlab rt budget tasks.yaml --period '7 ms' --overhead '20 us'
    """
    from virtlab.realtime import least_budget
    from virtlab.units import show_time

    found = least_budget(
        tasks_of(tasks, policy, speed),
        period_ns=time_ns(period, "--period"),
        overhead_ns=time_ns(overhead, "--overhead"),
        server=server,
    )
    if json:
        show_json(found.to_json())
    elif found.budget_ns is None or found.share is None:
        say("not even the whole CPU is enough at this period")
    else:
        exactly = "" if found.budget_ns.denominator == 1 else f" (exactly {found.budget_ns} ns)"
        say(f"least budget  {show_time(found.budget_ns)}{exactly}")
        say(f"share         {float(found.share):.6g}")
        say(f"critical task {found.critical_task}")
        _show_rounded(found.rounded)
    if found.budget_ns is None:
        raise typer.Exit(1)


def best(
    tasks: TasksFile,
    overhead: OverheadOption,
    policy: PolicyOption = "rm",
    server: ServerOption = "periodic",
    speed: SpeedOption = "1",
    least_period: Annotated[
        str, typer.Option("--least-period", help="shorter periods are not wanted")
    ] = "0 ns",
    points: Annotated[int, typer.Option("--points", min=1, max=200, help="points of the Pareto front")] = 16,
    json: JsonOption = False,
) -> None:
    """The period and budget of least share, and the front of share against VM switches per second.

    Example: virtlab rt best tasks.yaml --overhead '20 us' --points 6
    """
    from virtlab.realtime import best as one
    from virtlab.realtime import front

    given, lost, least = (
        tasks_of(tasks, policy, speed),
        time_ns(overhead, "--overhead"),
        time_ns(least_period, "--least-period"),
    )
    found = one(given, overhead_ns=lost, least_period_ns=least, server=server)
    curve = front(given, overhead_ns=lost, points=points, server=server) if points > 1 and lost > 0 else ()
    if json:
        show_json(
            {
                "schedulable": found is not None,
                "best": None if found is None else found.to_json(),
                "front": [choice.to_json() for choice in curve],
            }
        )
    elif found is None:
        say("no period and budget are enough")
    else:
        _show_choice(found, "best")
        _show_rounded(found.rounded)
        if curve:
            say("fewer switches cost a larger share:")
            rows = [("period", "budget", "share", "switches/s")]
            rows += [_choice_row(choice) for choice in curve]
            table(rows)
    if found is None:
        raise typer.Exit(1)


def sensitivity(
    tasks: TasksFile,
    period: PeriodOption,
    budget: BudgetOption,
    overhead: OverheadOption = "0 ns",
    policy: PolicyOption = "rm",
    server: ServerOption = "periodic",
    speed: SpeedOption = "1",
    json: JsonOption = False,
) -> None:
    """How much each execution time, the overhead or the share can move before a deadline breaks.

    Example: virtlab rt sensitivity tasks.yaml --period '7 ms' --budget '2.8 ms'
    """
    from virtlab.realtime import sensitivity as run
    from virtlab.units import show_time

    found = run(
        tasks_of(tasks, policy, speed),
        period_ns=time_ns(period, "--period"),
        budget_ns=time_ns(budget, "--budget"),
        overhead_ns=time_ns(overhead, "--overhead"),
        server=server,
    )
    if json:
        show_json(found.to_json())
    else:
        rows = [("task", "its execution time can move by", "then breaks")]
        for name, growth in found.wcet_growth_ns.items():
            shown = "no change of it helps" if growth is None else show_time(growth)
            rows.append((name, shown, found.breaks[name] or "-"))
        table(rows)
        factor = found.all_wcet_factor
        say(f"all execution times times {'-' if factor is None else f'{float(factor):.6g}'} at most")
        limit = found.overhead_limit_ns
        say(f"overhead per start        {'none helps' if limit is None else show_time(limit)} at most")
        least = found.least_share
        say(
            f"share                     {'-' if least is None else f'{float(least):.6g}'} at least"
            f" (now {float(found.share):.6g})"
        )
    if not found.schedulable:
        raise typer.Exit(1)


def table(rows: Sequence[tuple[str, ...]]) -> None:
    """Prints rows, the first being the header, in aligned columns."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        say("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _interval(low: Fraction, high: Fraction) -> str:
    from virtlab.units import show_time

    if low == high:
        return f"{{{show_time(high)}}}"
    return f"(0, {show_time(high)}]" if low == 0 else f"[{show_time(low)}, {show_time(high)}]"


def _choice_row(choice: Choice) -> tuple[str, str, str, str]:
    from virtlab.units import show_time

    share, switches = f"{float(choice.share):.6f}", f"{float(choice.switches_per_s):.6g}"
    return show_time(choice.period_ns), show_time(choice.budget_ns), share, switches


def _show_choice(choice: Choice, name: str) -> None:
    period, budget, share, switches = _choice_row(choice)
    say(f"{name}: period {period}, budget {budget}, share {share}, {switches} switches/s")


def _show_rounded(rounded: Rounded | None) -> None:
    if rounded is not None:
        proof = "proved again" if rounded.schedulable else "NOT safe after rounding"
        say(f"in whole ns           period {rounded.period_ns} ns, budget {rounded.budget_ns} ns ({proof})")
