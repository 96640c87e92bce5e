"""What programs print, read as an experiment file says: a reader per format, bounded whatever the output holds."""

from virtlab.outputs.declaration import EXAMPLE, READERS, Samples, mistakes, parse
from virtlab.outputs.reading import MOST_BYTES, read_output, read_poll
from virtlab.outputs.unreadable import POINT_CURE, UnreadableError, finite

__all__ = [
    "EXAMPLE", "MOST_BYTES", "POINT_CURE", "READERS", "Samples", "UnreadableError", "finite", "mistakes", "parse",
    "read_output", "read_poll",
]  # fmt: skip
