"""Which published values and statements hold here: every row of `published/realtime_scheduling.csv` computed again, and
every row of `realtime_scheduling_statements.csv` judged (`stated`).

A value holds when the printed digits are its own, rounded or cut off; 'about' and 'less than' allow one unit of the
last digit. Statements are judged by the source's own criterion (the mean curve of max R/T comes down to 1), with
the fraction of task sets beside it, which that criterion hides.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

from virtlab.documents import read_table
from virtlab.errors import ExperimentError
from virtlab.realtime.analysis import analyze, periods
from virtlab.realtime.examples import THREE_TASKS, TWO_TASKS, UNIT_NS, example
from virtlab.realtime.model import period_bound, three_lines
from virtlab.realtime.stated import JUDGES
from virtlab.realtime.studies import Overheads, Row, Scenarios, overheads, scenarios

TABLES = ("realtime_scheduling.csv", "realtime_scheduling_statements.csv")
SHIPPED = tuple(Path(__file__).parent / "tables" / name for name in TABLES)
STATED = "stated"
_OF_A_VALUE = ("case", "metric", "value", "qualifier")
_OF_A_STATEMENT = ("statement_id", "left", "relation", "right")
_CURE = f"name a table of published values, as {TABLES[0]}"


@dataclass(frozen=True, slots=True)
class Check:
    """One published row: holds (True), does not (False), or says nothing that can be computed (None)."""

    case: str
    metric: str
    published: str
    here: str
    holds: bool | None
    note: str


def check_published(*paths: Path, sets: int = 200, seed: int = 1) -> list[Check]:
    """Judges every row of the files: of values, and of statements. ExperimentError for what is no such file or row."""
    studied = _Studied(sets, seed)
    rows = [(path, *row) for path in paths for row in _rows(path)]
    return [_row_check(path, line, row, studied) for path, line, row in rows]


def _rows(path: Path) -> list[tuple[int, dict[str, str]]]:
    rows = read_table(path, cure=_CURE)
    if not rows:
        raise ExperimentError(str(path), "holds no row", _CURE)
    return rows


def _row_check(path: Path, line: int, row: dict[str, str], studied: _Studied) -> Check:
    where = f"{path}, line {line}"
    columns = _OF_A_STATEMENT if "statement_id" in row else _OF_A_VALUE
    for column in columns:
        if column not in row:
            raise ExperimentError(where, f"has no column '{column}'", _CURE)
    try:
        return _judged(row, studied) if columns is _OF_A_STATEMENT else _check(row, studied)
    except ExperimentError as error:
        raise ExperimentError(", ".join(filter(None, (where, error.where))), error.what, error.cure) from None
    except (ArithmeticError, LookupError, ValueError):
        what = f"{row.get('metric', '')[:40]} {row.get('value', '')[:40]} of '{row.get('case', '')[:40]}' cannot be computed"
        raise ExperimentError(where, what, "write it as the source does") from None


def printed_bounds() -> list[tuple[float, float]]:
    """(share, bound of P/T_1) as the source prints them."""
    return [
        (_named(row["case"], "share"), float(row["value"]))
        for _, row in read_table(SHIPPED[0])
        if row["metric"] == "bound_of_period_over_shortest_period"
    ]


def _judged(row: dict[str, str], studied: _Studied) -> Check:
    """A statement, by the judge of its id."""
    case = row["statement_id"]
    said = f"{row['left']} {row['relation'].replace('_', ' ')} {row['right']}"
    if case not in JUDGES:
        return Check(case, STATED, said, "-", None, "no computation for this statement")
    holds, here = JUDGES[case](studied)
    return Check(case, STATED, said, here, holds, row.get("note", ""))


class _Studied:
    """The two studies, run at most once."""

    def __init__(self, sets: int, seed: int) -> None:
        self.sets, self.seed = sets, seed
        self._cells: list[Row] | None = None
        self._overheads: list[Row] | None = None
        self._more: list[Row] | None = None

    def cells(self) -> list[Row]:
        if self._cells is None:
            self._cells = scenarios(Scenarios(sets=self.sets, seed=self.seed)).cells
        return self._cells

    def overhead_cells(self) -> list[Row]:
        if self._overheads is None:
            self._overheads = overheads(Overheads(sets=self.sets, seed=self.seed, step=2)).cells
        return self._overheads

    def more_tasks(self) -> list[Row]:
        """The overhead study with twenty tasks, on fewer sets and periods."""
        if self._more is None:
            settings = Overheads(sets=min(self.sets, 50), seed=self.seed, step=5, tasks=20)
            self._more = overheads(settings).cells
        return self._more


def _check(row: dict[str, str], studied: _Studied) -> Check:
    case, metric, published = row["case"], row["metric"], row["value"]
    note = row.get("note", "")
    if metric == "statement":
        holds, here = _statement(case, studied)
        return Check(case, metric, "stated", here, holds, note)
    if metric == "standard_deviation_over_mean":
        spread = _spread(case, studied)
        # The source prints '0' among values with three decimals: it is read as 0.000.
        return Check(case, metric, published, f"{spread:.2g}", abs(spread - float(published)) <= 0.001, note)
    compute = _VALUES.get(metric)
    if compute is None:
        return Check(case, metric, published, "-", None, "no computation for this row")
    value = compute(case, published)
    if value is None:
        return Check(case, metric, published, "none", holds=False, note=note)
    return Check(case, metric, published, f"{value:.6g}", _close(value, published, row["qualifier"]), note)


def _close(value: float, published: str, qualifier: str) -> bool:
    digits = Decimal(published)
    exponent = digits.as_tuple().exponent
    unit = float(Decimal(1).scaleb(exponent if isinstance(exponent, int) else 0))
    room = unit / 2 if qualifier == "exact" else unit
    cut_off = math.floor(value / unit + 1e-9) * unit
    return abs(value - float(digits)) <= room * (1 + 1e-9) or abs(cut_off - float(digits)) < unit / 1000


def _named(case: str, key: str) -> float:
    match = re.search(rf"(?<![A-Za-z_]){re.escape(key)} ([\d.]+)", case)
    if not match:
        raise ExperimentError(
            f"published row '{case}'", f"names no {key}", f"write '{key} NUMBER' in its case"
        )
    return float(match[1])


def _response(place: int) -> Callable[[str, str], float | None]:
    def compute(_case: str, _published: str) -> float | None:
        found = (
            analyze(example(*TWO_TASKS), period_ns=6 * UNIT_NS, budget_ns=3 * UNIT_NS).tasks[place].wcrt_ns
        )
        return None if found is None else float(found / UNIT_NS)

    return compute


def _largest(case: str, _published: str) -> float | None:
    count = 1 if case.endswith("task 1") else int(case[-1])
    share = Fraction(str(_named(case, "share")))
    found = periods(example(*THREE_TASKS[:count]), share=share).max_period_ns
    return None if found is None else float(found / UNIT_NS)


def _utilisation(case: str, _published: str) -> float:
    chosen = THREE_TASKS if case.endswith("all") else (THREE_TASKS[int(case[-1]) - 1],)
    return float(sum((Fraction(wcet, period) for period, wcet in chosen), Fraction(0)))


def _effective(case: str, _published: str) -> float:
    return _named(case, "share") - _named(case, "X") / _named(case, "T_VM")


def _line(attribute: str) -> Callable[[str, str], float]:
    def compute(case: str, _published: str) -> float:
        first = _named(case, "T_1") if "T_1" in case else 161.0
        wcet = _named(case, "C_1") if "C_1" in case else 2.0
        used = _named(case, "u") if re.search(r"\bu \d", case) else 0.0
        lines = three_lines(
            share=_named(case, "share"), utilisation=used, overhead=_named(case, "X"), first_period=first,
            first_wcet=wcet,
        )  # fmt: skip
        return float(getattr(lines, attribute))

    return compute


def _level(case: str, published: str) -> float | None:
    used = Fraction(str(_named(case, "u")))
    levels = [float(used * factor) for factor in Overheads().factors]
    return min(levels, key=lambda level: abs(level - float(published)))


_VALUES: dict[str, Callable[[str, str], float | None]] = {
    "response_time_task_1": _response(0),
    "response_time_task_2": _response(1),
    "largest_vm_period": _largest,
    "utilisation": _utilisation,
    "bound_of_period_over_shortest_period": lambda case, _: period_bound(_named(case, "share")),
    "effective_share": _effective,
    "left_bound_period": _line("left"),
    "lower_line_slope": _line("slope"),
    "lower_line_offset": _line("offset"),
    "share_level": _level,
}


def _spread(case: str, studied: _Studied) -> float:
    """Mean over the shares of the spread of P/T_1 at that u and n, sets without a period left out."""
    used, tasks = _named(case, "u"), int(_named(case, "n"))
    found = [
        cell["spread"]
        for cell in studied.cells()
        if cell["utilisation"] == used and cell["tasks"] == tasks and cell["spread"] is not None
    ]
    return float(sum(found) / len(found))


_Cell = Callable[[dict[str, Any]], bool]
_STATEMENTS: dict[str, tuple[float, _Cell, bool]] = {
    # statement: utilisation, which cells, whether their mean curve comes down to 1
    "u 0.1: X 8 and 16 never schedulable": (0.1, lambda c: c["overhead"] in {8, 16}, False),
    "u 0.1: X 1 always schedulable": (0.1, lambda c: c["overhead"] == 1, True),
    "u 0.2: X 16 never schedulable, even at share 0.4": (0.2, lambda c: c["overhead"] == 16, False),
    "u 0.2, share 0.4: X 8 schedulable": (0.2, lambda c: c["overhead"] == 8 and c["share"] == 0.4, True),
    "u 0.3: at share 0.54 and 0.6 some T_VM always schedulable": (
        0.3,
        lambda c: c["share"] in {0.54, 0.6},
        True,
    ),
}


def _statement(case: str, studied: _Studied) -> tuple[bool | None, str]:
    cells = studied.overhead_cells()
    if case == "u 0.1: X 2 and 4 schedulable only at share 0.2":
        mine = [c for c in cells if c["utilisation"] == 0.1 and c["overhead"] in {2, 4}]
        holds = all(c["mean_curve_below_one"] == (c["share"] == 0.2) for c in mine)
        return holds, _summary([c for c in mine if c["mean_curve_below_one"] != (c["share"] == 0.2)] or mine)
    if case not in _STATEMENTS:
        return None, "no computation for this statement"
    used, chosen, expected = _STATEMENTS[case]
    mine = [c for c in cells if c["utilisation"] == used and chosen(c)]
    against = [c for c in mine if c["mean_curve_below_one"] != expected]
    return not against, _summary(against or mine)


def _summary(cells: list[Row]) -> str:
    shown = [
        f"share {c['share']:g} X {c['overhead']}: {'reaches' if c['mean_curve_below_one'] else 'stays above'} 1,"
        f" {c['schedulable_somewhere']:.0%} of sets have a period"
        for c in cells[:3]
    ]
    return "; ".join(shown) + ("; ..." if len(cells) > 3 else "")
