"""A program's whole output, and what was polled beside it, to the values of its metrics.

It comes from a guest, so nothing of it is taken on trust.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from virtlab.outputs.declaration import Samples, Text, read
from virtlab.outputs.polled import is_polled
from virtlab.outputs.unreadable import UnreadableError

MOST_BYTES = 8 << 20  # of output that is read: as Python's objects it may take thirty times as much
CURE = "see the output among the run's artefacts, and make the reader and the program agree"


def read_output(metrics: Mapping[str, Mapping[str, Any]], output: bytes) -> dict[str, Samples]:
    """The values of every metric that is printed, in its SI unit. UnreadableError names metric, place and cure."""
    metrics = {key: entry for key, entry in metrics.items() if not is_polled(entry)}
    if not metrics:
        return {}
    if len(output) > MOST_BYTES:
        raise UnreadableError(f"has more than {MOST_BYTES >> 20} MiB", 0, "let the program print less")
    if not output.strip():
        raise UnreadableError("is empty", 0, "let the program print its metrics to the standard output")
    text, found = _text(output), {}
    for key, entry in metrics.items():
        try:
            found[key] = read(key, entry, text)
        except UnreadableError as error:
            raise UnreadableError(f"{error.what} (metric '{key}')", error.line, error.cure or CURE) from None
        except MemoryError:
            raise UnreadableError(f"takes more memory than there is (metric '{key}')", 0, CURE) from None
    return found


def read_poll(key: str, entry: Mapping[str, Any], content: bytes) -> float:
    """The one number of a poll, in the SI unit of its metric. UnreadableError as of an output."""
    samples = read(key, entry, _text(content))
    if len(samples.values) != 1:
        what = f"holds {len(samples.values)} numbers, and a poll is of one"
        raise UnreadableError(
            what, 0, "name one with the reader, e.g. by its labels or its place in the list"
        )
    return samples.values[0]


def _text(content: bytes) -> Text:
    try:
        return Text(content.decode("utf-8-sig"))
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise UnreadableError("is not valid UTF-8 text", line, "let the program print UTF-8") from None
