"""Prometheus' text format, as the textfile collector of its node exporter reads it.

Source: 'Exposition formats', text-based format 0.0.4. The collector refuses times of samples, so no sample has one;
`virtlab_last_run_timestamp_seconds` says how old the numbers are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from virtlab.report.exchange.push.numbers import Number
from virtlab.report.exchange.push.receiver import Receiver


def encoded(numbers: Sequence[Number]) -> bytes:
    """The file."""
    lines = []
    for name, group in groupby(numbers, key=lambda number: number.name):
        members = list(group)
        lines.append(f"# HELP {name} {_escaped(members[0].about)}")
        lines.append(f"# TYPE {name} gauge")
        lines += [f"{name}{_labels(each.labels)} {each.value!r}" for each in members]
    return "".join(f"{line}\n" for line in lines).encode()


def _labels(labels: Mapping[str, str]) -> str:
    inner = ",".join(f'{name}="{_escaped(text, quote=True)}"' for name, text in labels.items())
    return f"{{{inner}}}" if inner else ""


def _escaped(text: str, *, quote: bool = False) -> str:
    escaped = text.replace("\\", "\\\\").replace("\n", "\\n")
    return escaped.replace('"', '\\"') if quote else escaped


RECEIVER = Receiver("prometheus-textfile", "FILE", encoded)
