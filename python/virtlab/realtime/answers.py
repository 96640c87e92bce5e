"""Answers about one guest, each with the form that machines read: `to_json`.

Times are `Fraction`s of ns; JSON holds each as "p/q", exact, beside the nearest double.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from virtlab.realtime.quantities import fraction_text


@dataclass(frozen=True, slots=True)
class Witness:
    """Why a task is safe: demand w by the scheduling point t, served in k windows."""

    t_ns: Fraction
    w_ns: Fraction
    k: int


@dataclass(frozen=True, slots=True)
class TaskVerdict:
    """What holds for one task; `wcrt_ns` None: it grows without a bound worth naming."""

    name: str
    wcrt_ns: Fraction | None
    deadline_ns: Fraction
    schedulable: bool
    witness: Witness | None

    @property
    def slack_ns(self) -> Fraction | None:
        """D - R; negative where the deadline breaks."""
        return None if self.wcrt_ns is None else self.deadline_ns - self.wcrt_ns


@dataclass(frozen=True, slots=True)
class Analysis:
    """Response times at one (P, B, X); tasks in the order of the file, `order` by priority (empty under EDF)."""

    schedulable: bool
    tasks: tuple[TaskVerdict, ...]
    critical_task: str
    order: tuple[str, ...]
    period_ns: Fraction
    budget_ns: Fraction
    overhead_ns: Fraction
    server: str

    def to_json(self) -> dict[str, Any]:
        """Exact fractions as text, decimals beside them."""
        return {
            "schedulable": self.schedulable,
            "critical_task": self.critical_task,
            **exact("period_ns", self.period_ns),
            **exact("budget_ns", self.budget_ns),
            **exact("overhead_ns", self.overhead_ns),
            "server": self.server,
            "priority_order": list(self.order),
            "tasks": [
                {
                    "name": task.name,
                    "schedulable": task.schedulable,
                    **exact("wcrt_ns", task.wcrt_ns),
                    **exact("deadline_ns", task.deadline_ns),
                    **exact("slack_ns", task.slack_ns),
                    "witness": None
                    if task.witness is None
                    else {
                        "t_ns": fraction_text(task.witness.t_ns),
                        "w_ns": fraction_text(task.witness.w_ns),
                        "k": task.witness.k,
                    },
                }
                for task in self.tasks
            ],
            "wcrt_ns": {
                task.name: None if task.wcrt_ns is None else fraction_text(task.wcrt_ns)
                for task in self.tasks
            },
        }


@dataclass(frozen=True, slots=True)
class Rounded:
    """Period and budget in whole ns (budget rounded up), proved again after rounding."""

    period_ns: int
    budget_ns: int
    schedulable: bool


@dataclass(frozen=True, slots=True)
class Periods:
    """All periods at which a share is enough: closed intervals, ascending; a first `low` of 0 means (0, high]."""

    intervals_ns: tuple[tuple[Fraction, Fraction], ...]
    max_period_ns: Fraction | None
    safe_from_ns: Fraction | None
    safe_period_ns: Fraction | None
    critical_task: str | None
    share: Fraction
    overhead_ns: Fraction
    rounded: Rounded | None

    @property
    def schedulable(self) -> bool:
        """Whether any period is enough."""
        return bool(self.intervals_ns)

    def to_json(self) -> dict[str, Any]:
        """Exact fractions as text, decimals beside them."""
        return {
            "schedulable": self.schedulable,
            **exact("max_period_ns", self.max_period_ns),
            **exact("safe_period_ns", self.safe_period_ns),
            **exact("safe_from_ns", self.safe_from_ns),
            "intervals_ns": [[fraction_text(low), fraction_text(high)] for low, high in self.intervals_ns],
            "intervals_decimal_ns": [[float(low), float(high)] for low, high in self.intervals_ns],
            "critical_task": self.critical_task,
            "share": fraction_text(self.share),
            "share_decimal": float(self.share),
            **exact("overhead_ns", self.overhead_ns),
            "rounded": _rounded_json(self.rounded),
        }


@dataclass(frozen=True, slots=True)
class Budget:
    """The least budget at a period; None when not even the whole CPU is enough."""

    budget_ns: Fraction | None
    critical_task: str | None
    period_ns: Fraction
    overhead_ns: Fraction
    rounded: Rounded | None

    @property
    def share(self) -> Fraction | None:
        """B / P."""
        return None if self.budget_ns is None else self.budget_ns / self.period_ns

    def to_json(self) -> dict[str, Any]:
        """Exact fractions as text, decimals beside them."""
        return {
            "schedulable": self.budget_ns is not None,
            **exact("budget_ns", self.budget_ns),
            "share": None if self.share is None else fraction_text(self.share),
            "share_decimal": None if self.share is None else float(self.share),
            "critical_task": self.critical_task,
            **exact("period_ns", self.period_ns),
            **exact("overhead_ns", self.overhead_ns),
            "rounded": _rounded_json(self.rounded),
        }


@dataclass(frozen=True, slots=True)
class Choice:
    """One (P, B): its share, and how often per second the machine is switched to."""

    period_ns: Fraction
    budget_ns: Fraction
    rounded: Rounded | None = None

    @property
    def share(self) -> Fraction:
        """B / P."""
        return self.budget_ns / self.period_ns

    @property
    def switches_per_s(self) -> Fraction:
        """VM starts per second, 1 / P."""
        return Fraction(10**9) / self.period_ns

    def to_json(self) -> dict[str, Any]:
        """Exact fractions as text, decimals beside them."""
        return {
            **exact("period_ns", self.period_ns),
            **exact("budget_ns", self.budget_ns),
            "share": fraction_text(self.share),
            "share_decimal": float(self.share),
            "switches_per_s": float(self.switches_per_s),
            "rounded": _rounded_json(self.rounded),
        }


@dataclass(frozen=True, slots=True)
class Sensitivity:
    """How far each number can move; negative amounts (factors below 1) say how far it must shrink. None: it cannot
    help.
    """

    schedulable: bool
    wcet_growth_ns: dict[str, Fraction | None]
    breaks: dict[str, str | None]
    all_wcet_factor: Fraction | None
    overhead_limit_ns: Fraction | None
    least_share: Fraction | None
    share: Fraction

    def to_json(self) -> dict[str, Any]:
        """Exact fractions as text, decimals beside them."""
        return {
            "schedulable": self.schedulable,
            "wcet_growth_ns": {name: _text(value) for name, value in self.wcet_growth_ns.items()},
            "wcet_growth_decimal_ns": {
                name: None if value is None else float(value) for name, value in self.wcet_growth_ns.items()
            },
            "breaks": self.breaks,
            **exact("all_wcet_factor", self.all_wcet_factor),
            **exact("overhead_limit_ns", self.overhead_limit_ns),
            **exact("least_share", self.least_share),
            **exact("share", self.share),
        }


def exact(key: str, value: Fraction | None) -> dict[str, Any]:
    """`key`: "p/q"; `key` with `_decimal` before its unit: the nearest double."""
    stem, ns, _ = key.partition("_ns")
    return {key: _text(value), f"{stem}_decimal{ns}": None if value is None else float(value)}


def _text(value: Fraction | None) -> str | None:
    return None if value is None else fraction_text(value)


def _rounded_json(rounded: Rounded | None) -> dict[str, Any] | None:
    if rounded is None:
        return None
    return {
        "period_ns": rounded.period_ns,
        "budget_ns": rounded.budget_ns,
        "schedulable": rounded.schedulable,
    }
