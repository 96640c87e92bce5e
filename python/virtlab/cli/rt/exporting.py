"""export: a chosen (P, B) for the software that grants it."""

from __future__ import annotations

from typing import Annotated

import typer

from virtlab.cli.rt.options import (
    BudgetOption,
    OverheadOption,
    PeriodOption,
    PolicyOption,
    ServerOption,
    SpeedOption,
    TasksFile,
    tasks_of,
    time_ns,
)
from virtlab.errors import ExperimentError
from virtlab.terminal import say


def register(app: typer.Typer) -> None:
    """Adds the command."""
    app.command("export")(export)


def export(
    tasks: TasksFile,
    period: PeriodOption,
    budget: BudgetOption,
    format_: Annotated[
        str, typer.Option("--format", "-f", help="chrt, libvirt, xen, cgroup, cgroup1, rt-app")
    ] = "chrt",
    guest: Annotated[str, typer.Option("--guest", help="the guest's name there")] = "GUEST",
    overhead: OverheadOption = "0 ns",
    policy: PolicyOption = "rm",
    server: ServerOption = "periodic",
    speed: SpeedOption = "1",
) -> None:
    """A period and budget for chrt, libvirt, Xen, cgroups or rt-app; proved again as rounded for it.

    Example: virtlab rt export tasks.yaml --period '7 ms' --budget '2.8 ms' --format libvirt
    """
    from virtlab.realtime import analyze
    from virtlab.realtime.export import export as write
    from virtlab.realtime.export import granted
    from virtlab.units import show_time

    given = tasks_of(tasks, policy, speed)
    period_ns, budget_ns = granted(format_, time_ns(period, "--period"), time_ns(budget, "--budget"))
    found = analyze(
        given,
        period_ns=period_ns,
        budget_ns=budget_ns,
        overhead_ns=time_ns(overhead, "--overhead"),
        server=server,
    )
    if not found.schedulable:
        raise ExperimentError(
            f"task {found.critical_task}",
            f"its deadline breaks with {show_time(budget_ns)} in {show_time(period_ns)}",
            "see `virtlab rt budget` for what is enough",
        )
    say(write(format_, given, found.order, period_ns, budget_ns, guest), end="")
