"""A claim's text to a `Claim`: recursive descent over the grammar of docs/reference/claims.md.

Every error names the column, what is wrong there and what to write. Metrics, statistics and units are checked
here; factors, levels and roles by `Claim.check`, which knows the experiment.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import NamedTuple, cast

from virtlab.analysis.claims.lexer import Token, tokens
from virtlab.analysis.claims.nouns import (
    Bounds,
    Centre,
    Claim,
    ClaimError,
    Comparator,
    Condition,
    Constant,
    Difference,
    Equivalent,
    Expression,
    Linear,
    Margin,
    NamedFactor,
    Near,
    Onset,
    Operand,
    Ordering,
    Place,
    PublishedOrder,
    PublishedReference,
    Relation,
    Term,
    Threshold,
    Trend,
)
from virtlab.metrics import NONE, Declared, MetricPath
from virtlab.units import parse_quantity

COMPARATORS = ("<", "<=", ">", ">=")
KEYWORDS = frozenset(
    {"where", "within", "between", "by", "at", "and", "grows", "falls", "steadily", "with", "is", "linear",
     "in", "over", "constant", "exceeds", "from", "to", "equivalent", "ordered", "as", "published", "growth",
     "averaged"}
)  # fmt: skip
MEMBERS_MAX = 256  # claims that the lists of one claim stand for
EXAMPLES = (
    "'probe.rtt.median: ovs < linux_bridge', 'load.loss.ratio <= 0.1 %', 'probe.rtt.mean grows with load' or "
    "'probe.rtt.mean: switches 2 - 1 within 244.16 us +- 10 %'"
)


def parse_claim(
    text: str,
    *,
    line: int = 1,
    column: int = 1,
    published: PublishedReference | None = None,
    name: str = "",
    declared: Declared = NONE,
) -> Claim:
    """The claim. `line` and `column` say where the text begins in its file, `declared` which metrics roles have of
    their own. ClaimError at the first mistake.

    >>> parse_claim("load.loss.ratio <= 0.1 %").relation
    Threshold(comparator='<=', limit=0.001)
    >>> parse_claim("probe.rtt.median: ovs <")
    Traceback (most recent call last):
    virtlab.analysis.claims.nouns.ClaimError: 1:24: a level is missing here; write e.g. 'ovs' or 'switches 2'
    """
    first = _Parser(text, line, column, declared)
    claim = first.claim(published, name)
    if not first.lists:
        return claim
    if math.prod(len(each.levels) for each in first.lists) > MEMBERS_MAX:
        raise first.error(
            first.lists[0].begin + 1,
            f"the lists stand for more than {MEMBERS_MAX} claims",
            "write shorter lists",
        )
    every = itertools.product(*(each.levels for each in first.lists))
    members = tuple(_Parser(text, line, column, declared, chosen).claim(published, name) for chosen in every)
    return claim._replace(members=members)


class _List(NamedTuple):
    """A list of levels in a claim's text, from `begin` to before `end`; `factor`: of a condition, its factor."""

    levels: tuple[str, ...]
    begin: int
    end: int
    factor: str = ""


class _Parser:
    """Parses a claim with the `chosen` level of each of its lists; with their first levels, and notes them, by
    default.
    """

    def __init__(
        self, text: str, line: int, column: int, declared: Declared, chosen: Sequence[str] = ()
    ) -> None:
        self.text, self.line, self.offset = text, line, column - 1
        self.declared, self.chosen = declared, chosen
        self.lists: list[_List] = []
        try:
            self.tokens = tokens(text)
        except ValueError as error:
            what, at = error.args
            raise self.error(at, what, f"write e.g. {EXAMPLES}") from None
        self.at = 0

    def error(self, column: int, what: str, cure: str) -> ClaimError:
        return ClaimError(self.line, self.offset + column, what, cure)

    # -- words

    @property
    def here(self) -> Token:
        return self.tokens[self.at]

    def is_word(self, *words: str) -> bool:
        return self.here.kind == "word" and self.here.text in words

    def is_sign(self, *signs: str) -> bool:
        return self.here.kind == "sign" and self.here.text in signs

    def take(self) -> Token:
        token = self.here
        self.at += token.kind != "end"
        return token

    def skip(self, *words: str) -> bool:
        if (found := self.is_word(*words)) or self.is_sign(*words):
            self.take()
            return True
        return found

    def expect(self, word: str, cure: str) -> Token:
        if not (self.is_word(word) or self.is_sign(word)):
            shown = (
                f"'{self.here.text}' stands where '{word}' should"
                if self.here.text
                else f"'{word}' is missing"
            )
            raise self.error(self.here.column, shown, cure)
        return self.take()

    def words_until_stop(self) -> tuple[str, int]:
        """Words up to the next sign or keyword, joined as written; quotes protect a word from being one."""
        column = self.here.column
        parts: list[str] = []
        while self.here.kind == "quoted" or (self.here.kind == "word" and self.here.text not in KEYWORDS):
            parts.append(self.take().text)
        return " ".join(parts), column

    # -- the whole

    def claim(self, published: PublishedReference | None, name: str) -> Claim:
        expression = self.expression()
        if self.is_sign(":"):
            self.take()
            relation = self.levels_relation(expression, published)
        else:
            relation = self.relation(expression.unit, published)
        averaged = self.averaged() if self.skip("averaged") else ()
        where = self.conditions() if self.skip("where") else ()
        if self.here.kind != "end":
            raise self.error(
                self.here.column,
                f"'{self.here.text}' is left over",
                "end the claim here, or begin conditions with 'where'",
            )
        column = self.offset + 1
        text, at = self.member() if self.chosen else (self.text, "")
        return Claim(text, expression, relation, where, averaged, published, self.line, column, name, at=at)

    def member(self) -> tuple[str, str]:
        """The text with the chosen levels, and those of conditions by themselves."""
        text = self.text
        for each, level in reversed(list(zip(self.lists, self.chosen, strict=True))):
            text = text[: each.begin] + level + text[each.end :]
        named = zip(self.lists, self.chosen, strict=True)
        return text, ", ".join(f"{each.factor} {level}" for each, level in named if each.factor)

    def list_of_levels(self, factor: str = "") -> str:
        """The chosen level of a list `{a, b, c}`; "" where no list begins."""
        if not self.is_sign("{"):
            return ""
        begin = self.take().column - 1
        levels: list[str] = []
        while not levels or self.skip(","):
            level, column = self.words_until_stop()
            if not level or level in levels:
                what = f"'{level}' stands twice in the list" if level else "a level is missing in the list"
                raise self.error(column, what, "write e.g. '{sfq, codel, fq_codel}'")
            levels.append(level)
        end = self.expect("}", "end the list, e.g. '{sfq, codel, fq_codel}'").column
        if len(levels) < 2:
            raise self.error(begin + 1, "the list has one level", f"write '{levels[0]}' without braces")
        self.lists.append(_List(tuple(levels), begin, end, factor))
        return self.chosen[len(self.lists) - 1] if self.chosen else levels[0]

    def expression(self) -> Expression:
        terms = self.terms(1)
        while self.is_sign("+", "-"):
            sign = -1 if self.take().text == "-" else 1
            added = self.terms(sign)
            term = added[0]
            if term.unit() != terms[0].unit():
                raise self.error(
                    term.column,
                    f"{term.path} is in {term.unit()}, {terms[0].path} in {terms[0].unit()}",
                    "add only values of one unit; divide each by its own reference first, e.g. "
                    "'stream.goodput.mean / 95.2 Mbit/s + stream.loss.ratio'",
                )
            terms += added
        return Expression(tuple(terms))

    def paths(self) -> list[tuple[MetricPath, int]]:
        """One path, or those of several roles, `left+right.rtt.mean`, whose sum is meant."""
        token = self.here
        roles, dot, rest = token.text.partition(".")
        if token.kind != "word" or "+" not in roles or not dot:
            return [self.path()]
        self.take()
        found, column = [], token.column
        for role in roles.split("+"):
            if not role:
                raise self.error(column, "a role is missing beside '+'", "write e.g. 'left+right.rtt.mean'")
            found.append((self.parsed(f"{role}.{rest}", column), column))
            column += len(role) + 1
        if len({str(path) for path, _ in found}) < len(found):
            raise self.error(token.column, "a role stands twice in the sum", "name each role once")
        return found

    def path(self) -> tuple[MetricPath, int]:
        token = self.here
        if token.kind != "word":
            what = f"'{token.text}' stands where a path should" if token.text else "a path is missing"
            raise self.error(token.column, what, f"write <role>.<metric>.<statistic>, e.g. {EXAMPLES}")
        self.take()
        return self.parsed(token.text, token.column), token.column

    def parsed(self, text: str, column: int) -> MetricPath:
        try:
            return MetricPath.parse(text, self.declared)
        except ValueError as error:
            what, _, cure = str(error).partition("; ")
            raise self.error(column, what, cure) from None

    def terms(self, sign: int) -> list[Term]:
        """A term, or one for each role of a sum."""
        paths = self.paths()
        path, column = paths[0]
        if not self.is_sign("/"):
            return [Term(path, column, sign) for path, column in paths]
        self.take()
        if self.here.text[:1].isdigit():
            value = self.quantity(path.unit)
            if value == 0:
                raise self.error(column, "division by zero", "divide by a reference value that is not zero")
            return [Term(path, column, sign, over_value=value) for path, column in paths]
        over, at = self.path()
        if over.unit != path.unit:
            raise self.error(
                at, f"{over} is in {over.unit}, {path} in {path.unit}", "divide values of one unit"
            )
        return [Term(path, column, sign, over_path=over) for path, column in paths]

    # -- constants

    def quantity(self, unit: str) -> float:
        text, column = self.words_until_stop()
        if not text:
            what = (
                f"'{self.here.text}' stands where a constant should"
                if self.here.text
                else "a constant is missing"
            )
            raise self.error(column, what, "write a number with its unit, e.g. '200 us' or '5 %'")
        try:
            return parse_quantity(text, unit)
        except ValueError as error:
            what, _, cure = str(error).partition("; ")
            raise self.error(column, what, cure) from None

    def margin(self, unit: str) -> Margin:
        column = self.here.column
        text = " ".join(token.text for token in self.tokens[self.at : self.at + 2])
        relative = text.split(" ")[0].endswith("%") or text.endswith(" %")
        if relative:
            value = self.quantity("ratio")
            margin = Margin(relative=value)
        else:
            value = self.quantity(unit)
            margin = Margin(absolute=value)
        if value <= 0:
            raise self.error(
                column, "a margin must be more than zero", "write e.g. 'within 2 %' or 'within 10 us'"
            )
        return margin

    def centre(self, unit: str, published: PublishedReference | None) -> Centre:
        column = self.here.column
        value: float | None = None
        if self.skip("published"):
            if published is None:
                raise self.error(
                    column,
                    "the claim names no published rows",
                    "add 'published: {file: ..., metric: ...}' to the claim, or write the value",
                )
        else:
            value = self.quantity(unit)
        self.expect("+-", "write the tolerance, e.g. '244.16 us +- 10 %'")
        margin = self.margin(unit)
        if value == 0 and margin.relative is not None:
            raise self.error(
                column, "a share of zero is zero", "write an absolute tolerance, e.g. '0 us +- 10 us'"
            )
        return Centre(value, margin)

    def bounds(self, unit: str) -> Bounds:
        column = self.here.column
        low = self.quantity(unit)
        self.expect("and", "write 'between LOW and HIGH'")
        high = self.quantity(unit)
        if low >= high:
            raise self.error(column, "the lower bound is not below the upper", "write 'between LOW and HIGH'")
        return Bounds(low, high)

    def target(self, unit: str, published: PublishedReference | None) -> Centre | Bounds:
        if self.skip("between"):
            return self.bounds(unit)
        self.take()  # within, =
        return self.centre(unit, published)

    def factor(self, cure: str) -> tuple[str, int]:
        if self.here.kind not in {"word", "quoted"}:
            raise self.error(self.here.column, "a factor is missing here", cure)
        token = self.take()
        return token.text, token.column

    # -- relations of an expression at each design point

    def relation(self, unit: str, published: PublishedReference | None) -> Relation:
        if self.is_sign(*COMPARATORS):
            comparator = cast(Comparator, self.take().text)
            return Threshold(comparator, self.quantity(unit))
        if self.is_word("within", "between") or self.is_sign("="):
            return Near(self.target(unit, published))
        if self.is_word("steadily", "grows", "falls"):
            return self.trend()
        if self.skip("exceeds"):
            return self.onset(unit)
        self.skip("is")
        if self.skip("linear"):
            self.expect("in", "write 'is linear in FACTOR within 10 %'")
            factor, column = self.factor("write e.g. 'is linear in load within 10 %'")
            self.expect("within", "write how far from the line is still linear, e.g. 'within 10 %'")
            margin = self.margin(unit)
            if margin.relative is None:
                raise self.error(
                    column, "how linear is a share of the line's rise", "write e.g. 'within 10 %'"
                )
            return Linear(factor, margin.relative, column)
        if self.skip("constant"):
            factor, margin, column = self.constant_over(unit)
            return Constant(factor, margin, column)
        what = (
            f"'{self.here.text}' is not a relation"
            if self.here.text
            else "the claim says nothing of this value"
        )
        raise self.error(
            self.here.column,
            what,
            "write ': LEVEL < LEVEL', '<= CONSTANT', 'within CONSTANT +- TOLERANCE', 'grows with FACTOR', "
            "'is linear in FACTOR', 'is constant over FACTOR' or 'exceeds LIMIT from FACTOR LEVEL'",
        )

    def trend(self) -> Trend:
        column = self.here.column
        steadily = self.skip("steadily")
        direction = "grows" if self.is_word("grows") else "falls"
        if not self.skip("grows", "falls"):
            raise self.error(
                self.here.column, "'grows' or 'falls' is missing", "write 'steadily grows with FACTOR'"
            )
        steadily = self.skip("steadily") or steadily
        self.expect("with", f"write '{direction} with FACTOR'")
        factor, _ = self.factor(f"write e.g. '{direction} with load'")
        return Trend(factor, "grows" if direction == "grows" else "falls", steadily, column)

    def constant_over(self, unit: str) -> tuple[str, Margin, int]:
        self.expect("over", "write 'constant over FACTOR within 2 %'")
        factor, column = self.factor("write e.g. 'constant over load within 2 %'")
        self.expect("within", "write how far apart still counts as constant, e.g. 'within 2 %'")
        return factor, self.margin(unit), column

    def onset(self, unit: str) -> Onset:
        limit = self.quantity(unit)
        self.expect("from", "write 'exceeds LIMIT from FACTOR LEVEL'")
        factor, column = self.factor("write e.g. 'from load 80 kB'")
        first, at = self.words_until_stop()
        if not first:
            raise self.error(at, "the level is missing", "write e.g. 'from load 80 kB to 85 kB'")
        last = first
        if self.skip("to"):
            last, at = self.words_until_stop()
            if not last:
                raise self.error(at, "the level is missing", "write e.g. 'from load 80 kB to 85 kB'")
        return Onset(limit, factor, first, last, column)

    # -- relations between levels

    def operand(self) -> Operand:
        text, column = self.words_until_stop()
        if text and self.is_sign("="):
            self.take()
            level, at = self.words_until_stop()
            level = level or self.list_of_levels()
            if not level:
                raise self.error(at, "a level is missing here", f"write e.g. '{text}=2'")
            return Operand(f"{text}={level}", column, text, level)
        text = f"{text} {self.list_of_levels()}".strip()
        if not text:
            what = (
                f"'{self.here.text}' stands where a level should"
                if self.here.text
                else "a level is missing here"
            )
            raise self.error(column, what, "write e.g. 'ovs' or 'switches 2'")
        return Operand(text, column)

    def levels_relation(self, expression: Expression, published: PublishedReference | None) -> Relation:
        unit = expression.unit
        column = self.here.column
        first = self.operand()
        if self.skip("ordered"):
            self.expect("as", "write 'FACTOR ordered as published'")
            self.expect("published", "write 'FACTOR ordered as published'")
            if published is None or published.level_column is None:
                raise self.error(
                    column,
                    "the claim names no published column of levels",
                    "add 'published: {file: ..., metric: ..., level_column: ...}' to the claim",
                )
            return PublishedOrder(first.text, column)
        if self.skip("equivalent"):
            self.expect("within", "write the margin, e.g. 'equivalent within 2 %'")
            return Equivalent((first,), self.margin(unit))
        if self.is_sign("~"):
            return self.equivalent(first, unit)
        if self.is_sign("-", "/"):
            return self.difference(first, unit, published)
        if self.is_sign(*COMPARATORS):
            return self.ordering(first, unit)
        what = (
            f"'{self.here.text}' is not a relation of levels" if self.here.text else "only one level is named"
        )
        raise self.error(
            self.here.column,
            what,
            "write 'A < B', 'A ~ B within 2 %', 'A - B within ...' or 'FACTOR equivalent within 2 %'",
        )

    def equivalent(self, first: Operand, unit: str) -> Equivalent:
        operands = [first]
        while self.skip("~"):
            operands.append(self.operand())
        self.expect("within", "an equivalence needs its margin; write e.g. 'within 2 %'")
        return Equivalent(tuple(operands), self.margin(unit))

    def difference(self, left: Operand, unit: str, published: PublishedReference | None) -> Difference:
        quotient = self.take().text == "/"
        right = self.operand()
        unit = "ratio" if quotient else unit
        if self.is_sign(*COMPARATORS):
            comparator = cast(Comparator, self.take().text)
            return Difference(left, right, quotient, Threshold(comparator, self.number(unit, quotient)))
        if self.is_word("within", "between") or self.is_sign("="):
            return Difference(left, right, quotient, self.target(unit, published))
        self.skip("is")
        if self.skip("constant"):
            factor, margin, _ = self.constant_over(unit)
            return Difference(left, right, quotient, None, factor, margin)
        raise self.error(
            self.here.column,
            "the difference is compared with nothing",
            "write '> CONSTANT', 'within CONSTANT +- TOLERANCE', 'between LOW and HIGH' or "
            "'constant over FACTOR within 10 %'",
        )

    def number(self, unit: str, quotient: bool) -> float:
        """A constant; a quotient may also be compared with a bare number (`ovs / linux_bridge < 1.1`)."""
        if quotient and self.here.kind == "word":
            try:
                value = float(self.here.text)
            except ValueError:
                return self.quantity(unit)
            if self.tokens[self.at + 1].text not in {"%", "ratio"}:
                self.take()
                return value
        return self.quantity(unit)

    def ordering(self, first: Operand, unit: str) -> Ordering:
        operands, comparators = [first], []
        while self.is_sign(*COMPARATORS):
            comparators.append(cast(Comparator, self.take().text))
            operands.append(self.operand())
        if len({sign[0] for sign in comparators}) > 1:
            raise self.error(
                operands[-1].column, "a chain turns round", "write all signs of a chain in one direction"
            )
        by = self.margin(unit) if self.skip("by") else None
        if self.skip("in"):
            self.expect("growth", "write 'in growth over FACTOR'")
            self.expect("over", "write 'in growth over FACTOR'")
            factor, _ = self.factor("write e.g. 'in growth over load'")
            return Ordering(tuple(operands), tuple(comparators), by, growth_over=factor)
        at = self.place() if self.skip("at") else None
        then: tuple[Comparator, Place] | None = None
        if at is not None and at.which != "worst" and self.skip("and"):
            if not self.is_sign(*COMPARATORS) or len(operands) != 2:
                raise self.error(
                    self.here.column,
                    "the second half of a crossing is missing",
                    "write 'A < B at low F and > at high F'",
                )
            sign = cast(Comparator, self.take().text)
            self.expect("at", "write where the second half holds, e.g. '> at high load'")
            then = (sign, self.place())
        return Ordering(tuple(operands), tuple(comparators), by, at, then)

    def place(self) -> Place:
        token = self.here
        if self.skip("low", "high"):
            factor, column = self.factor("write e.g. 'at low load'")
            return Place(factor, "low" if token.text == "low" else "high", None, column)
        if self.skip("worst"):
            factor, column = self.factor("write e.g. 'at worst J'")
            return Place(factor, "worst", None, column)
        factor, column = self.factor(
            "write 'at low FACTOR', 'at high FACTOR', 'at worst FACTOR' or 'at FACTOR LEVEL'"
        )
        self.skip("=")
        level, at = self.words_until_stop()
        if not level:
            raise self.error(
                at, "the level is missing", f"write 'at low {factor}' or e.g. 'at {factor} 10 kB'"
            )
        return Place(factor, None, level, column)

    # -- averaged, where

    def averaged(self) -> tuple[NamedFactor, ...]:
        cure = "write e.g. 'averaged over qdisc'"
        self.expect("over", cure)
        found = [NamedFactor(*self.factor(cure))]
        while self.is_sign(",") or self.is_word("and"):
            self.take()
            found.append(NamedFactor(*self.factor(cure)))
        return tuple(found)

    def conditions(self) -> tuple[Condition, ...]:
        found = [self.condition()]
        while self.is_sign(",") or self.is_word("and"):
            self.take()
            found.append(self.condition())
        return tuple(found)

    def condition(self) -> Condition:
        factor, column = self.factor("write e.g. 'where switches = 2'")
        if not self.is_sign("=", "!=", *COMPARATORS):
            what = (
                f"'{self.here.text}' stands where a sign should"
                if self.here.text
                else "the condition is cut short"
            )
            raise self.error(
                self.here.column, what, f"write e.g. 'where {factor} = LEVEL' with =, !=, <, <=, > or >="
            )
        op = self.take().text
        levels = [self.level(factor)]
        while self.skip("|"):
            levels.append(self.level(factor))
        if len(levels) > 1 and op in COMPARATORS:
            raise self.error(column, f"'{op}' takes one level", "write several levels only after = or !=")
        return Condition(factor, op, tuple(levels), column)  # type: ignore[arg-type]

    def level(self, factor: str) -> str:
        text, column = self.words_until_stop()
        text = text or self.list_of_levels(factor)
        if not text:
            raise self.error(column, "a level is missing here", f"write e.g. 'where {factor} = 2'")
        return text
