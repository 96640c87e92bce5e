"""Apache JMeter: its log of samples as CSV (`jmeter -n -t PLAN -l FILE.jtl`), a row per request.

`timeStamp` is the instant at which a request began, as JMeter's own settings have it (`sampleresult.timestamp.start`),
in ms since 1970, and `elapsed` how long it took, in ms. A thread of JMeter begins its next request when it has the
answer before, so no row says when a request was due: response times count from when it began, with the time to connect
(`Connect`), and those of a service that falls behind are too short. Rows of transaction controllers sum up others, and
are left out.

An answer with an error has a number as its `responseCode`; of a connection that broke or took too long JMeter writes
the name of Java's exception there.
"""

from __future__ import annotations

import csv
import io
import re
from collections import Counter
from collections.abc import Mapping

from virtlab.catalogue.workloads.request_response import REQUEST_RESPONSE
from virtlab.imported.output import ToolOutput, UnreadableError, cell, nanoseconds, whole
from virtlab.units.factors import NS_PER_MS

WANTED = ("timeStamp", "elapsed", "success", "responseCode")
CURE = "write it as CSV with its headings, and with 'jmeter.save.saveservice.timestamp_format=ms'"
_SUMMED = re.compile(r"^Number of samples in transaction\b")
_DELIMITERS = (",", ";", "\t")
_ANSWERED, _LOST, _BROKEN, _FAILED, _BAD_GATEWAY = 0, 2, 3, 5, 6  # as `error` of response/1 has them
_NOWHERE = -1  # which server took or answered a request is not in its log


def mine(text: str) -> bool:
    """Whether it looks like JMeter's."""
    head = text.partition("\n")[0]
    return {"timeStamp", "elapsed"} <= set(re.split("[,;\t]", head.strip())) or "<testResults" in text[:200]


def read(text: str) -> ToolOutput:
    """A request per row, in the order in which they were sent."""
    if "<testResults" in text[:200]:
        raise UnreadableError("is JMeter's XML", 1, CURE)
    output = ToolOutput("jmeter", (REQUEST_RESPONSE.name,))
    csv.field_size_limit(1 << 20)
    delimiter = max(_DELIMITERS, key=text.partition("\n")[0].count)
    rows = csv.DictReader(io.StringIO(text), delimiter=delimiter, strict=True)
    # Of each when it began in ms, its time to connect in ns or -1, its time in ns, and its error.
    found: list[tuple[int, int, int, int]] = []
    labels: Counter[str] = Counter()
    summed = failed = 0
    most_threads = 0
    try:
        if lacking := [name for name in WANTED if name not in (rows.fieldnames or ())]:
            raise UnreadableError(f"has no column {', '.join(lacking)}", 1, CURE)
        for row in rows:
            line = rows.line_num
            if None in row or None in row.values():
                raise UnreadableError(f"has not {len(rows.fieldnames or ())} values", line)
            if _SUMMED.match(row.get("responseMessage", "")):
                summed += 1
                continue
            if not row["timeStamp"].isdigit():
                raise UnreadableError(
                    f"timeStamp '{row['timeStamp'][:40]}' is not a number of ms", line, CURE
                )
            spent_ns = nanoseconds(cell(row, "elapsed", line), NS_PER_MS, line, "elapsed")
            error = _error(row, line)
            failed += error in {_FAILED, _BAD_GATEWAY}
            labels[row.get("label", "")[:60]] += 1
            if row.get("allThreads"):
                most_threads = max(most_threads, whole(row["allThreads"], line, "allThreads"))
            connecting_ns = (
                nanoseconds(cell(row, "Connect", line), NS_PER_MS, line, "Connect")
                if row.get("Connect")
                else -1
            )
            found.append((whole(row["timeStamp"], line, "timeStamp"), connecting_ns, spent_ns, error))
    except csv.Error as error:
        raise UnreadableError(f"is not a CSV ({error})", rows.line_num) from None
    if not found:
        raise UnreadableError("has no request")
    found.sort()
    _requests(output, found)
    if most_threads:
        output.facts["threads"] = most_threads
    output.notes.append(
        "JMeter says when requests began and not when they were due: response times count from there"
    )
    if summed:
        output.notes.append(f"{summed} rows of transaction controllers left out: they sum up others")
    if len(labels) > 1:
        named = ", ".join(f"{label} ({number})" for label, number in labels.most_common(5))
        output.notes.append(f"requests of {len(labels)} kinds are taken together: {named}")
    if failed:
        output.notes.append(f"{failed} requests were answered with an error")
    return output


def _error(row: Mapping[str, str], line: int) -> int:
    success, code = row["success"].strip().lower(), row["responseCode"].strip()
    if success not in {"true", "false"}:
        raise UnreadableError(f"success '{success[:20]}' is neither true nor false", line)
    if success == "true":
        return _ANSWERED
    if code.isdigit():
        return _BAD_GATEWAY if code == "502" else _FAILED
    return (
        _LOST
        if "timeout" in code.lower() or "timed out" in row.get("responseMessage", "").lower()
        else _BROKEN
    )


def _requests(output: ToolOutput, samples: list[tuple[int, int, int, int]]) -> None:
    first = samples[0][0]
    rows = []
    for begun, connecting_ns, spent_ns, error in samples:
        at_ns = (begun - first) * 1_000_000
        sent_ns = at_ns + connecting_ns if connecting_ns >= 0 else -1
        rows.append(
            {
                "intended_ns": at_ns, "sent_ns": sent_ns, "finished_ns": at_ns + spent_ns, "entry": _NOWHERE,
                "served_by": _NOWHERE, "error": error,
            }
        )  # fmt: skip
    output.rows("response/1", rows)
    output.facts["duration_s"] = max(row["finished_ns"] for row in rows) / 1e9
