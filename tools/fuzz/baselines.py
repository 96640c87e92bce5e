"""Baseline files of `compare` and `trend`, compared with themselves and with a sound one, to the forms that are
written.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

from tools.fuzz.damage import CHARACTERS, NUMBERS, damaged

from virtlab.changes import Baseline, Margins, Measured, Quantity, differences, trend
from virtlab.cli.dataset.compare import as_values
from virtlab.report.exchange.cases import of_changes
from virtlab.report.exchange.junit import junit
from virtlab.report.exchange.markdown import markdown
from virtlab.report.page.trend import step_rows

COUNT = 10_000
SOUND = Baseline(
    name="guard.results", created="2026-01-01T00:00:00Z", backend="testbed", experiment_sha256="00", runs=8,
    facts={"kernel": "6.1", "cpus": "2"},
    quantities=[
        Quantity(path="probe.rtt.mean", unit="ns", better="lower", title="RTT", measured=[
            Measured(levels={"load": load}, links="netem", values=[100.5, 101.0, 99.25, 100.0]) for load in ("0 B", "30 kB")
        ]),
        Quantity(path="probe.loss.ratio", unit="ratio", better="lower", measured=[
            Measured(levels={"load": "0 B"}, links="netem", values=[0.0, 0.0, 0.001]),
        ]),
    ],
)  # fmt: skip
WORDS = [
    *NUMBERS, *CHARACTERS, b'"values": []', b"1e308", b"-1e308", b"5e-324", b"NaN", b"Infinity", b"null", b"{}", b"[]",
    b'"levels": {}', b'"30000 B"', b'"lower"', b'"neither"', b'"bit/s"', b'"unit"', b'"path"', b"[[[[", b'"\\u0000"', b"0",
]  # fmt: skip


def cases(seed: int, count: int) -> Iterator[bytes]:
    """Damaged baselines."""
    for position in range(count):
        yield damaged(random.Random(f"{seed} baselines {position}"), [SOUND.text().encode()], WORDS)


def run_case(case: bytes) -> None:
    """Every comparison and form that a command makes of the file."""
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "baseline.json"
        file.write_bytes(case)
        given = Baseline.load(file)
        given.text()
        for old, new in ((given, SOUND), (SOUND, given)):
            changes = differences(old, new, Margins())
            json.dumps(as_values(changes), allow_nan=False)
            told = of_changes(changes, changes.old.name, changes.new.name)
            ElementTree.fromstring(junit(told))
            markdown(told)
        json.dumps(step_rows(trend([given, *[SOUND] * 5])), allow_nan=False)
