"""A baseline file: written and read again, one line per setting, and every other file refused in one line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from virtlab.changes import Baseline, Measured, Quantity
from virtlab.errors import DatasetError

BASELINE = Baseline(
    name="guard", created="2026-01-01T00:00:00Z", backend="testbed", experiment_sha256="00", runs=6, facts={"kernel": "6.1"},
    quantities=[
        Quantity(path="probe.rtt.mean", unit="ns", better="lower", measured=[
            Measured(levels={"switches": n}, links="netem", values=[1.5, 2.0, 2.5]) for n in ("1", "2")
        ]),
        Quantity(path="stream.goodput.mean", unit="bit/s", better="higher", measured=[]),
    ],
)  # fmt: skip


def test_what_was_saved_is_read_again(tmp_path: Path) -> None:
    BASELINE.save(tmp_path / "b.json")
    assert Baseline.load(tmp_path / "b.json") == BASELINE
    lines = (tmp_path / "b.json").read_text().splitlines()
    assert sum('"values"' in line for line in lines) == 2
    assert list(tmp_path.iterdir()) == [tmp_path / "b.json"]


def test_a_newer_minor_version_may_add_keys(tmp_path: Path) -> None:
    values = json.loads(BASELINE.text()) | {"comment": "kept by a newer virtlab"}
    (tmp_path / "b.json").write_text(json.dumps(values))
    assert Baseline.load(tmp_path / "b.json") == BASELINE


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("", "no JSON"),
        ("[]", "is not a baseline"),
        ("{}", "is not a baseline"),
        ('{"schema": "virtlab.baseline/0"}', "has schema 'virtlab.baseline/0', this virtlab reads virtlab.baseline/1"),
        ('{"schema": "virtlab.baseline/1"}', "is damaged"),
        ("[" * 100_000, "no JSON"),
        (BASELINE.text().replace("2.5", "NaN"), "is damaged"),
        (BASELINE.text().replace("2.5", "1e308"), "1e+308 is outside what can be measured"),
        (BASELINE.text().replace("2.5", "5e-324"), "is outside what can be measured"),
    ],
)  # fmt: skip
def test_another_file_is_refused_with_where_what_and_cure(tmp_path: Path, text: str, what: str) -> None:
    (tmp_path / "b.json").write_text(text)
    with pytest.raises(DatasetError) as raised:
        Baseline.load(tmp_path / "b.json")
    assert what in raised.value.what
    assert raised.value.cure == "save it again with --save-baseline"
    assert raised.value.exit_code == 2


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(DatasetError, match="cannot be read"):
        Baseline.load(tmp_path / "none.json")
