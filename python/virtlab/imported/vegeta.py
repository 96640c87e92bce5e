"""Vegeta: its results as CSV (`vegeta encode --to csv`), a row per request, without headings.

The columns are the instant at which a request began, in ns since 1970, the code of its answer (0: it had none), how
long it took, in ns with its connection, bytes sent and received, what went wrong, and five more that are not read.
Vegeta sends at a rate whether answers come or not, so an answer that is late delays no other request, as long as it has
workers left; when a request was due, beside when it began, no row says.
"""

from __future__ import annotations

import csv
import io

from virtlab.catalogue.workloads.request_response import REQUEST_RESPONSE
from virtlab.imported.output import ToolOutput, UnreadableError

COLUMNS = 12
CURE = "write it by 'vegeta encode --to csv'"
# As `error` of response/1 has them.
_ANSWERED, _REFUSED, _LOST, _BROKEN, _FAILED, _BAD_GATEWAY = 0, 1, 2, 3, 5, 6
_NOWHERE = -1  # which server took or answered a request is not in its results
_READ = ("timestamp", "code", "latency")
_DIGITS_OF_NS = 19  # of instants from 2001 to 2286


def mine(text: str) -> bool:
    """Whether it looks like Vegeta's."""
    cells = text.partition("\n")[0].split(",")
    return (
        len(cells) >= COLUMNS and len(cells[0]) == _DIGITS_OF_NS and cells[0].isdigit() and cells[1].isdigit()
    )


def read(text: str) -> ToolOutput:
    """A request per row, in the order in which they began."""
    output = ToolOutput("vegeta", (REQUEST_RESPONSE.name,))
    csv.field_size_limit(1 << 24)
    rows = csv.reader(io.StringIO(text), strict=True)
    found: list[tuple[int, int, int]] = []  # of each when it began, how long it took, and its error
    try:
        for row in rows:
            line = rows.line_num
            if len(row) != COLUMNS:
                raise UnreadableError(f"has {len(row)} values and not {COLUMNS}", line, CURE)
            begun_ns, code, took_ns = (_whole(row[at], line, what) for at, what in enumerate(_READ))
            found.append((begun_ns, took_ns, _error(code, row[5])))
    except csv.Error as error:
        raise UnreadableError(f"is not a CSV ({error})", rows.line_num, CURE) from None
    if not found:
        raise UnreadableError("has no request", cure=CURE)
    found.sort()
    first = found[0][0]
    output.rows(
        "response/1",
        [
            {
                "intended_ns": begun_ns - first, "sent_ns": -1, "finished_ns": begun_ns - first + took_ns,
                "entry": _NOWHERE, "served_by": _NOWHERE, "error": error,
            }
            for begun_ns, took_ns, error in found
        ],
    )  # fmt: skip
    output.facts["duration_s"] = max(output.blocks["response/1"]["finished_ns"]) / 1e9
    output.notes.append(
        "Vegeta says when requests began and not when they were due: response times count from there"
    )
    if failed := sum(error in {_FAILED, _BAD_GATEWAY} for _, _, error in found):
        output.notes.append(f"{failed} requests were answered with an error")
    return output


def _whole(text: str, line: int, name: str) -> int:
    """To the last digit, which an instant since 1970 as a float has not."""
    if not (text.isascii() and text.isdigit() and len(text) <= _DIGITS_OF_NS):
        raise UnreadableError(f"{name} '{text[:40]}' is not a whole number", line, CURE)
    if (value := int(text)) >= 2**62:
        raise UnreadableError(f"{name} '{text}' is more ns than a century has", line, CURE)
    return value


def _error(code: int, said: str) -> int:
    if code == 0:
        words = said.lower()
        if "connection refused" in words:
            return _REFUSED
        return _LOST if "timeout" in words or "deadline exceeded" in words else _BROKEN
    if 200 <= code < 400:
        return _ANSWERED
    return _BAD_GATEWAY if code == 502 else _FAILED
