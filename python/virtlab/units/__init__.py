"""Quantities with units, in and out: exact ones of a file (`quantities`), measured ones (`scales`), as people read them
(`displays`, `times`); numbers and nearest names for all of them.
"""

from virtlab.units.displays import (
    WANTED_DIGITS,
    Display,
    display,
    interval,
    interval_digits,
    numeric_levels,
    show_interval,
    show_quantity,
)
from virtlab.units.nearest import closest, did_you_mean, meant_unit, nearest
from virtlab.units.numbers import MINUS, THOUSANDS, show_count, show_number
from virtlab.units.quantities import (
    NUMBER,
    PAGE_BYTES,
    SECTOR_BYTES,
    Bitrate,
    Duration,
    PacketSize,
    Ratio,
    Size,
    exact_number,
)
from virtlab.units.scales import SCALES, level_number, parse_quantity, same_level, same_levels, split_quantity
from virtlab.units.times import show_time, show_wait

__all__ = [
    "MINUS", "NUMBER", "PAGE_BYTES", "SCALES", "SECTOR_BYTES", "THOUSANDS", "WANTED_DIGITS", "Bitrate", "Display",
    "Duration", "PacketSize", "Ratio", "Size", "closest", "did_you_mean", "display", "exact_number", "interval",
    "interval_digits", "level_number", "meant_unit", "nearest", "numeric_levels", "parse_quantity", "same_level",
    "same_levels", "show_count", "show_interval", "show_number", "show_quantity", "show_time", "show_wait", "split_quantity",
]  # fmt: skip
