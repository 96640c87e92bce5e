"""A picture with one panel per setting, and tables with rows of settings: what these have in common.

A setting is a design point under one realisation of its links: samples of two of them are never put together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from virtlab.report.figures.figure import MAXIMUM_PANELS, REALISATION, Row, arrange, panel_label, panel_labels
from virtlab.report.gather.model import Factor
from virtlab.report.tables.table import Block, cell, head

SAID = 8  # settings that the words of a picture tell of


class Setting(Protocol):
    """What is drawn of one setting."""

    @property
    def point(self) -> Mapping[str, str]:
        """Factor -> level."""

    @property
    def realisation(self) -> str:
        """Of its links."""


@dataclass(frozen=True, slots=True)
class Panels:
    """The panels of a picture: `labels` are drawn, `left_out` more are not."""

    names: tuple[str, ...]
    labels: tuple[str, ...]
    left_out: int

    @classmethod
    def of(cls, settings: Sequence[Setting], factors: Sequence[Factor], *, split: bool) -> Panels:
        """A panel per setting, in the order of the levels in the file; `split`: realisations differ."""
        own = (*(factor.name for factor in factors), *([REALISATION] if split else []))
        every = panel_labels(factors, own, (_label(one, own) for one in settings))
        return cls(own, tuple(every[:MAXIMUM_PANELS]), max(0, len(every) - MAXIMUM_PANELS))

    def label(self, one: Setting) -> str:
        """The panel of a setting, whether it is drawn or not."""
        return _label(one, self.names)

    @property
    def alone(self) -> bool:
        """Whether there is nothing to put beside each other."""
        return len(self.labels) <= 1

    def arrange(
        self, layers: list[Row], *, height: int, height_of_many: int, independent: Sequence[str]
    ) -> Row:
        """Layers in their panels; `independent` axes have a scale per panel."""
        labels = () if self.alone else self.labels
        spec = arrange(layers, labels, height=height if self.alone else height_of_many)
        if not self.alone:
            spec["resolve"] = {"scale": dict.fromkeys(independent, "independent")}
        return spec

    def words(self, settings: Sequence[Setting], says: Sequence[str]) -> str:
        """What is said of each setting, for those who do not see the picture; the first few of them."""
        places = [self.label(one) for one in settings[:SAID]]
        return "; ".join(
            f"{place + ': ' if place else ''}{text}" for place, text in zip(places, says, strict=False)
        )


def _label(one: Setting, names: Sequence[str]) -> str:
    return panel_label({**one.point, REALISATION: one.realisation}, list(names))


def is_split(settings: Sequence[Setting]) -> bool:
    """Whether links were realised in several ways."""
    return len({one.realisation for one in settings}) > 1


def setting_cells(one: Setting, varying: Sequence[str], *, split: bool) -> list[Block]:
    """The cells that say which setting a row is of."""
    return [*(cell(one.point.get(name, "")) for name in varying), *([cell(one.realisation)] if split else [])]


def setting_head(varying: Sequence[str], numbers: Sequence[str], *, split: bool) -> Any:
    """The head of such a table."""
    return head(*varying, *([REALISATION] if split else []), *numbers, numbers=list(numbers))
