"""What a test of a claim is made from: the claim, its cells, the level, published values; and how tests are
labelled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from virtlab.analysis.claims.levels import find_operand
from virtlab.analysis.claims.nouns import Bounds, Centre, Claim, Operand
from virtlab.analysis.judging.cells import Cells, describe
from virtlab.analysis.judging.hypotheses import Subject
from virtlab.analysis.published import PublishedValue
from virtlab.analysis.table import Levels


@dataclass(frozen=True, slots=True)
class Case:
    """A claim with its cells, the level of its intervals, and the published values it names."""

    claim: Claim
    cells: Cells
    level: float
    published: Sequence[PublishedValue] = ()

    def subject(
        self, label: str, unit: str | None = None, *, decides: bool = True, note: str = ""
    ) -> Subject:
        """A test's subject named after the claim's expression."""
        expression = self.claim.expression
        return Subject(label, str(expression), unit or expression.unit, self.level, decides, note)

    def label(self, rest: Levels, *more: str) -> str:
        """What was compared and where, naming only factors that vary."""
        return " at ".join(part for part in (*more, describe(rest, self.cells.varying)) if part)

    def operands(self, operands: Sequence[Operand]) -> tuple[str, list[str]]:
        """(factor, levels) of operands. ValueError when one is not in the data."""
        factor: str | None = None
        levels = []
        for operand in operands:
            factor, level = self._operand(operand, factor)
            levels.append(level)
        assert factor is not None
        return factor, levels

    def _operand(self, operand: Operand, hint: str | None) -> tuple[str, str]:
        try:
            return find_operand(operand, self.cells.factors, hint)
        except ValueError as error:
            if not self.cells.declared:
                raise
            try:
                factor, level = find_operand(operand, self.cells.declared, hint)
            except ValueError:
                raise error from None
            raise ValueError(f"no run has a value at {factor} {level}") from None

    def note(self, rest: Levels, factor: str, levels: Sequence[str]) -> str:
        """Says so when cells that are compared were built with different link realisations."""
        points = [tuple(sorted((*rest, (factor, level)))) for level in levels]
        used = sorted(
            {self.cells.realisations[point] for point in points if point in self.cells.realisations}
        )
        return f"compared across link realisations {', '.join(used)}" if len(used) > 1 else ""


def bounds_of(case: Case, target: Centre | Bounds, unit: str) -> tuple[float, float]:
    """The range that a target means; a published value may itself be a range. ValueError without
    one."""
    if isinstance(target, Bounds):
        return target.low, target.high
    if target.value is not None:
        low = high = target.value
    else:
        numbers = [value.in_unit(unit) for value in case.published]
        if not numbers:
            raise ValueError(
                "no published row is named by the claim's 'published'; correct file, metric or where"
            )
        low, high = min(numbers), max(numbers)
    if target.margin.absolute is not None:
        return low - target.margin.absolute, high + target.margin.absolute
    share = target.margin.relative or 0.0
    return low - share * abs(low), high + share * abs(high)
