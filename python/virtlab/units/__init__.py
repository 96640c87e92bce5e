"""Quantities with units, in and out: exact ones of a file (`quantities`), measured ones (`scales`), as a page shows them
(`displays`).
"""

from virtlab.units.displays import Display, display, interval, interval_digits, numeric_levels, significant
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
    show_number,
    show_quantity,
    split_quantity,
)

__all__ = [
    "NUMBER", "SCALES", "Bitrate", "Display", "Duration", "PacketSize", "Ratio", "Size", "display", "exact_number",
    "interval", "interval_digits", "level_number", "numeric_levels", "parse_quantity", "scale_of", "show_interval",
    "show_number", "show_quantity", "significant", "split_quantity",
]  # fmt: skip
