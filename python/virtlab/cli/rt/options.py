"""Arguments that the commands of `virtlab rt` share, and how they become exact numbers."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from virtlab.errors import ExperimentError
from virtlab.terminal import json_text, say

if TYPE_CHECKING:
    from virtlab.realtime import TaskSet

Value = TypeVar("Value")

TasksFile = Annotated[
    Path, typer.Argument(help="task file: .csv, .yaml, .json (ours or rt-app's), .xml (SimSo)")
]
PeriodOption = Annotated[str, typer.Option("--period", "-p", help="the VM's period, e.g. '6 ms'")]
BudgetOption = Annotated[str, typer.Option("--budget", "-b", help="its budget each period, e.g. '3 ms'")]
ShareOption = Annotated[str, typer.Option("--share", "-a", help="budget / period, e.g. 0.4, '40 %' or 2/5")]
OverheadOption = Annotated[
    str, typer.Option("--overhead", "-x", help="time lost at each start of the VM, e.g. '20 us'")
]
PolicyOption = Annotated[
    str, typer.Option("--policy", help="rm, dm, opa (Audsley), given (priority column or order), edf")
]
ServerOption = Annotated[
    str, typer.Option("--server", help="periodic, deferrable, cbs, or polling (drops its budget when idle)")
]
SpeedOption = Annotated[
    str, typer.Option("--speed", help="how much faster than stated the core is: divides execution times")
]
JsonOption = Annotated[bool, typer.Option("--json", help="exact fractions (ns, as p/q) and decimals as JSON")]


def time_ns(text: str, option: str) -> Fraction:
    """A time; ExperimentError names the option."""
    from virtlab.realtime.quantities import parse_time_ns

    return _parsed(parse_time_ns, text, option)


def share_of(text: str) -> Fraction:
    """A share; ExperimentError names the option."""
    from virtlab.realtime.quantities import parse_share

    return _parsed(parse_share, text, "--share")


def tasks_of(path: Path, policy: str, speed: str) -> TaskSet:
    """The task file under a policy, on a core of that speed."""
    from virtlab.realtime import POLICIES, load_tasks

    if policy not in POLICIES:
        raise ExperimentError("--policy", f"'{policy}' is unknown", f"choose one of {', '.join(POLICIES)}")
    tasks = load_tasks(path, policy)  # type: ignore[arg-type]
    try:
        factor = Fraction(speed)
    except (ValueError, ZeroDivisionError):
        raise ExperimentError("--speed", f"'{speed}' is not a number", "write e.g. 1.5") from None
    return tasks if factor == 1 else tasks.faster(factor)


def show_json(content: dict[str, Any]) -> None:
    """Prints one JSON document."""
    say(json_text(content, indent=2))


def _parsed(parse: Callable[[str], Value], text: str, option: str) -> Value:
    try:
        return parse(text)
    except ValueError as error:
        raise ExperimentError(option, str(error)) from None
