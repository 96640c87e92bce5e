"""Quantities with units, in and out: exact ones of a file (`quantities`), measured ones (`scales`), as a page shows them
(`displays`); numbers and nearest names for all of them.
"""

from virtlab.units.displays import Display, display, interval, interval_digits, numeric_levels
from virtlab.units.nearest import did_you_mean, nearest
from virtlab.units.numbers import show_number
from virtlab.units.quantities import (
    NUMBER,
    Bitrate,
    Duration,
    PacketSize,
    Ratio,
    Size,
    exact_number,
)
from virtlab.units.scales import (
    SCALES,
    level_number,
    parse_quantity,
    scale_of,
    show_interval,
    show_quantity,
    split_quantity,
)

__all__ = [
    "NUMBER", "SCALES", "Bitrate", "Display", "Duration", "PacketSize", "Ratio", "Size", "did_you_mean", "display",
    "exact_number", "interval", "interval_digits", "level_number", "nearest", "numeric_levels", "parse_quantity",
    "scale_of", "show_interval", "show_number", "show_quantity", "split_quantity",
]  # fmt: skip
