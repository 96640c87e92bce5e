"""How large a difference matters: one margin for all quantities, and others for some.

A margin in % is a share of the old value, one in another unit is a difference. A ratio such as loss is zero in most
good runs, of which no share is anything, so its margin is in percentage points unless said otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from virtlab.changes.baseline import Quantity
from virtlab.errors import ExperimentError
from virtlab.units import parse_quantity

SHARE = 0.05
POINTS = 0.01  # of a ratio


@dataclass(frozen=True, slots=True)
class Margin:
    """`relative` (a share of the old value) or `absolute` (in the unit)."""

    relative: float | None = None
    absolute: float | None = None

    def of(self, value: float) -> float:
        """The margin in the unit of a value."""
        return self.absolute if self.absolute is not None else (self.relative or 0.0) * abs(value)


@dataclass(frozen=True)
class Margins:
    """The margin of each quantity."""

    general: str = ""
    by_path: dict[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, texts: Iterable[str]) -> Margins:
        """From `5 %` and `PATH=MARGIN` texts, as a command takes them. ExperimentError when one is wrong."""
        general, by_path = "", {}
        for text in texts:
            path, is_path, margin = text.rpartition("=")
            if is_path:
                by_path[path.strip()] = margin.strip()
            else:
                _share(text.strip())
                general = text.strip()
        return cls(general, by_path)

    def of(self, quantity: Quantity) -> Margin:
        """The margin of a quantity. ExperimentError when its unit is not the quantity's."""
        text = self.by_path.get(quantity.path, "")
        if text.endswith("%"):
            return Margin(relative=_share(text))
        if text:
            try:
                value = parse_quantity(text, quantity.unit)
            except ValueError as error:
                what, _, cure = str(error).partition("; ")
                raise ExperimentError(f"--margin {quantity.path}", what, cure) from None
            return Margin(absolute=_positive(text, value))
        if quantity.unit == "ratio":
            return Margin(absolute=POINTS)
        return Margin(relative=_share(self.general) if self.general else SHARE)


def _share(text: str) -> float:
    if not text.endswith("%"):
        what = f"'{text}' is not a share, and quantities have several units"
        raise ExperimentError(
            "--margin", what, "write e.g. '5 %', or 'probe.rtt.mean=100 us' for one of them"
        )
    try:
        value = parse_quantity(text, "ratio")
    except ValueError as error:
        what, _, cure = str(error).partition("; ")
        raise ExperimentError("--margin", what, cure) from None
    return _positive(text, value)


def _positive(text: str, value: float) -> float:
    if value <= 0:
        raise ExperimentError("--margin", f"'{text}' is not more than zero", "write e.g. '5 %'")
    return value
