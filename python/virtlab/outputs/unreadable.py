"""Output that is not what its reader was told it is, and the numbers in it."""

from __future__ import annotations

import math

POINT_CURE = "let the tool write English numbers: run it with LC_ALL=C in its environment"
SHOWN = 40  # characters of a program's output that an error repeats


class UnreadableError(ValueError):
    """Output that cannot be read. `line` is 1-based; 0 refers to the whole output. An empty `cure` selects the
    default advice.
    """

    def __init__(self, what: str, line: int = 0, cure: str = "") -> None:
        super().__init__(what)
        self.what = what
        self.line = line
        self.cure = cure


def finite(text: str, line: int, name: str) -> float:
    """A finite number. UnreadableError for other text.

    No tool that is read here writes thousands apart, so a comma is another language's decimal point; what '1,234' means
    is then unknown, and not guessed.

    >>> finite("-1024.5", 3, "rate")
    -1024.5
    >>> finite("29,5", 3, "rate")
    Traceback (most recent call last):
    virtlab.outputs.unreadable.UnreadableError: rate '29,5' has a comma, where '.' begins the decimals
    """
    shown = " ".join(text[:SHOWN].split())
    if "," in text:
        raise UnreadableError(
            f"{name} '{shown}' has a comma, where '.' begins the decimals", line, POINT_CURE
        )
    try:
        value = float("_" if "_" in text else text)
    except ValueError:
        raise UnreadableError(f"{name} '{shown}' is not a number", line) from None
    if not math.isfinite(value):
        raise UnreadableError(f"{name} '{shown}' is not a number of its kind", line)
    return value
