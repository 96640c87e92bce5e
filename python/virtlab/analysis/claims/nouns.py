"""What a claim can say.

A claim is an expression over run-level values (`probe.rtt.median`, or a sum, difference or ratio of such), a
relation, and the design points it speaks about. The relations are few and each has one reading, given at its
class. Levels and factors are names here; which factors and levels exist is known only to the experiment
(`check`) and the results (`judge`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from virtlab.errors import ExperimentError
from virtlab.metrics import MetricPath

Comparator = Literal["<", "<=", ">", ">="]
NO_NAME = "names no file in the folder of published tables"
NAME_CURE = "write the plain name of a file that ends in .csv"


class ClaimError(ExperimentError):
    """A claim that cannot be read: `line` and `column` (from 1) of the offending word."""

    def __init__(self, line: int, column: int, what: str, cure: str) -> None:
        super().__init__(f"{line}:{column}", what, cure)
        self.line = line
        self.column = column


class Operand(NamedTuple):
    """One level of a factor as written: `ovs`, `switches 2`, `load=30 kB`. `factor` is None until it is
    looked up."""

    text: str
    column: int
    factor: str | None = None
    level: str | None = None


class Term(NamedTuple):
    """`sign` times a path, divided by another path or by a constant (in the unit of the path)."""

    path: MetricPath
    column: int
    sign: int = 1
    over_path: MetricPath | None = None
    over_value: float | None = None

    def unit(self) -> str:
        """The unit of the term: a ratio when it is a quotient."""
        return self.path.unit if self.over_path is None and self.over_value is None else "ratio"


class Expression(NamedTuple):
    """Terms of one unit, added up per run."""

    terms: tuple[Term, ...]

    @property
    def unit(self) -> str:
        """The unit of the value."""
        return self.terms[0].unit()

    def paths(self) -> tuple[MetricPath, ...]:
        """Every path that the expression reads."""
        both = ((term.path, term.over_path) for term in self.terms)
        return tuple(path for pair in both for path in pair if path is not None)

    def __str__(self) -> str:
        out = ""
        for index, term in enumerate(self.terms):
            out += ("-" if term.sign < 0 else "") if index == 0 else (" - " if term.sign < 0 else " + ")
            out += str(term.path)
            if term.over_path is not None:
                out += f" / {term.over_path}"
            elif term.over_value is not None:
                out += f" / {term.over_value:g}"
        return out


class Margin(NamedTuple):
    """How far apart still counts as equal: `relative` (a share of the reference) or `absolute` (in the
    metric's unit)."""

    relative: float | None = None
    absolute: float | None = None


class Centre(NamedTuple):
    """A constant with a tolerance: `244.16 us +- 10 %`, or the published value (`value` None) with a
    tolerance."""

    value: float | None
    margin: Margin


class Bounds(NamedTuple):
    """`between LOW and HIGH`."""

    low: float
    high: float


class Threshold(NamedTuple):
    """`PATH <= CONSTANT`: at every design point the mean of the run values lies on that side of the
    constant."""

    comparator: Comparator
    limit: float


class Near(NamedTuple):
    """`PATH within CENTRE` or `PATH between ...`: at every design point the mean lies in the range
    (equivalence test)."""

    target: Centre | Bounds


class Place(NamedTuple):
    """Where an order holds: the lowest or highest level of a factor, one named level, or where each is at its worst."""

    factor: str
    which: Literal["low", "high", "worst"] | None = None
    level: str | None = None
    column: int = 0


class Ordering(NamedTuple):
    """`A < B < C`: neighbours differ in that direction, by at least `by` when given.

    With `at` and `then` a crossing: `A < B at low load and > at high load`. With `growth_over` the growth of
    the value from the factor's lowest to its highest level is compared, not the value itself. `at worst J`: each at
    the level of J that is worst for it, which need not be the same one.
    """

    operands: tuple[Operand, ...]
    comparators: tuple[Comparator, ...]
    by: Margin | None = None
    at: Place | None = None
    then: tuple[Comparator, Place] | None = None
    growth_over: str | None = None


class Equivalent(NamedTuple):
    """`A ~ B within MARGIN`: the means differ by less than the margin. A single operand naming a factor: all
    its levels."""

    operands: tuple[Operand, ...]
    margin: Margin


class Difference(NamedTuple):
    """`A - B` or `A / B` against a constant, a range, or itself at other levels of `constant_over`."""

    left: Operand
    right: Operand
    quotient: bool
    against: Threshold | Centre | Bounds | None = None
    constant_over: str | None = None
    margin: Margin | None = None


class Trend(NamedTuple):
    """`grows with FACTOR`: the last level exceeds the first and no step between neighbours goes the other
    way; `steadily`: every step goes that way."""

    factor: str
    direction: Literal["grows", "falls"]
    steadily: bool
    column: int


class Linear(NamedTuple):
    """`is linear in FACTOR within M`: no level's mean lies further from the fitted line than M of the line's
    rise."""

    factor: str
    margin_ratio: float
    column: int


class Constant(NamedTuple):
    """`is constant over FACTOR within MARGIN`: at every level the mean is equivalent to that at the first."""

    factor: str
    margin: Margin
    column: int


class Onset(NamedTuple):
    """`exceeds LIMIT from FACTOR A to B`: not above the limit below A, above it from B on; between,
    anything."""

    limit: float
    factor: str
    first: str
    last: str
    column: int


class PublishedOrder(NamedTuple):
    """`FACTOR ordered as published`: no two levels differ in the order opposite to the published values."""

    factor: str
    column: int


Relation = (
    Threshold | Near | Ordering | Equivalent | Difference | Trend | Linear | Constant | Onset | PublishedOrder
)


class NamedFactor(NamedTuple):
    """A factor as written, and where."""

    name: str
    column: int


class Condition(NamedTuple):
    """`FACTOR op LEVEL`; `=` and `!=` take several levels (`a | b`), the others one that is a quantity or
    number."""

    factor: str
    op: Literal["=", "!=", "<", "<=", ">", ">="]
    levels: tuple[str, ...]
    column: int


def is_table_name(name: str) -> bool:
    """Whether a name is that of a file in a folder of tables, and of no file elsewhere.

    >>> is_table_name("study.csv"), is_table_name("../study.csv"), is_table_name("/etc/hosts"), is_table_name("a\\0.csv")
    (True, False, False, False)
    """
    return name.endswith(".csv") and not name.startswith(".") and "/" not in name and name.isprintable()


class PublishedReference(NamedTuple):
    """Which rows of a published table are shown beside a claim: `metric` and equal cells; `level_column` for
    orderings."""

    file: str
    metric: str
    where: Mapping[str, str] = {}
    level_column: str | None = None

    @classmethod
    def parse(cls, values: Mapping[str, Any]) -> PublishedReference:
        """From the file's mapping. ValueError names the key that is wrong or missing."""
        unknown = set(values) - {"file", "metric", "where", "level_column"}
        if unknown:
            raise ValueError(f"unknown key '{sorted(unknown)[0]}'; write file, metric, where, level_column")
        for key in ("file", "metric"):
            if not isinstance(values.get(key), str):
                raise ValueError(
                    f"'{key}' is missing; write e.g. {key}: {'rtt_mean' if key == 'metric' else 'study.csv'}"
                )
        if not is_table_name(values["file"]):
            raise ValueError(f"'file' {NO_NAME}; {NAME_CURE}")
        where = {str(key): str(value) for key, value in (values.get("where") or {}).items()}
        return cls(values["file"], values["metric"], where, values.get("level_column"))


class Claim(NamedTuple):
    """One statement to be judged; `text` as written, `line` and `column` its place in the file.

    `averaged`: factors over whose levels each repetition's values are averaged before anything is compared. `members`:
    the claims that lists of levels (`{a, b}`) stand for, each with one level of each list; the claim itself then has
    the relation of the first. `at`: of a member, the levels that lists of its conditions have here. `title`: the claim
    in words, where its file says them.
    """

    text: str
    expression: Expression
    relation: Relation
    where: tuple[Condition, ...] = ()
    averaged: tuple[NamedFactor, ...] = ()
    published: PublishedReference | None = None
    line: int = 1
    column: int = 1
    name: str = ""
    members: tuple[Claim, ...] = ()
    at: str = ""
    title: str = ""
