"""Values kept beside a run are those of its samples, or they are not used; a load counts beside one role."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.unit.analysis.test_analysis_values import RTT, plan_with, record_of, replies

from virtlab.analysis import values_file, values_of_run
from virtlab.analysis.window import RoleWindow, beside_of, measuring_beside, role_window
from virtlab.folders import Folder
from virtlab.plan import Mark, Plan
from virtlab.results import RunRecord


@pytest.fixture
def record(tmp_path: Path) -> RunRecord:
    blocks = {("r", "rtt/1"): replies([0, 1, 2], [100, 110, 130])}
    return record_of(tmp_path, plan_with(RTT, levels={"load": "0 B"}), blocks)


def file_of(record: RunRecord) -> Path:
    return record.folder / values_file.FILE_NAME


def change(record: RunRecord, **values: Any) -> None:
    """Rewrites parts of the kept file."""
    there = json.loads(file_of(record).read_bytes())
    file_of(record).write_text(json.dumps(there | values), encoding="utf-8")


@pytest.mark.slow
def test_kept_values_are_the_values(record: RunRecord) -> None:
    first = values_file.values_of(record)
    assert file_of(record).is_file()
    assert first == values_file.values_of(record) == values_of_run(record)


def test_kept_values_are_read_and_not_taken_again(record: RunRecord, monkeypatch: pytest.MonkeyPatch) -> None:
    first = values_file.values_of(record)
    monkeypatch.setattr("virtlab.analysis.runs.values_of_run", None)
    assert values_file.values_of(record) == first


@pytest.mark.slow
@pytest.mark.parametrize("part", ["schema", "code", "samples"])
def test_values_of_other_code_or_samples_are_taken_anew(record: RunRecord, part: str) -> None:
    true = values_file.values_of(record)
    change(record, values=[["r", "rtt", "mean", 7.0, "ns", 3, ""]], **{part: "another"})
    assert values_file.values_of(record) == true
    assert json.loads(file_of(record).read_bytes())[part] != "another"


@pytest.mark.slow
def test_values_that_somebody_else_wrote_are_taken_anew(record: RunRecord, tmp_path: Path) -> None:
    true = values_file.values_of(record)
    change(record, values=[["r", "rtt", "mean", 7.0, "ns", 3, ""]])
    assert values_file.values_of(record) == true
    values_file._key.cache_clear()
    with pytest.MonkeyPatch.context() as other:
        other.setenv("XDG_CACHE_HOME", str(tmp_path / "of another"))
        assert values_file.values_of(record) == true  # sealed by another user now
    values_file._key.cache_clear()
    theirs = file_of(record).read_bytes()
    assert values_file.values_of(record) == true
    assert file_of(record).read_bytes() != theirs


@pytest.mark.slow
def test_values_of_samples_that_were_exchanged_are_taken_anew(record: RunRecord) -> None:
    values_file.values_of(record)
    before = file_of(record).read_bytes()
    for path in (record.folder / "samples").iterdir():
        there = path.stat()
        path.write_bytes(path.read_bytes())
        os.utime(path, ns=(there.st_atime_ns, there.st_mtime_ns))
    values_file.values_of(record)
    assert file_of(record).read_bytes() != before


@pytest.mark.slow
@pytest.mark.parametrize("mode", [0o644, 0o640])
def test_a_key_that_others_can_read_seals_nothing(
    record: RunRecord, mode: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "virtlab").mkdir()
    (tmp_path / "virtlab" / values_file.KEY_NAME).write_bytes(bytes(values_file.KEY_BYTES))
    (tmp_path / "virtlab" / values_file.KEY_NAME).chmod(mode)
    values_file._key.cache_clear()
    try:
        assert values_file.values_of(record) == values_of_run(record)
    finally:
        values_file._key.cache_clear()
    assert not file_of(record).exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"values": 3}', "null", "[" * 10**5, '{"values": [], "seal": 3}']
)
def test_a_damaged_file_is_taken_anew(record: RunRecord, content: str) -> None:
    true = values_file.values_of(record)
    file_of(record).write_text(content, encoding="utf-8")
    assert values_file.values_of(record) == true


def test_a_folder_that_cannot_be_written_gives_the_values_all_the_same(
    record: RunRecord, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise PermissionError(13, "refused")

    monkeypatch.setattr(Folder, "write", refused)
    assert values_file.values_of(record) == values_of_run(record)
    assert not file_of(record).exists()


def plan_of(*runs: dict[str, Any]) -> Plan:
    """A load beside measuring roles m0, m1, ... that run one after another."""
    guest = plan_with(RTT).model_dump(mode="json", by_alias=True)
    roles = {f"m{n}": {"from": "a", "to": "b", **role} for n, role in enumerate(runs)}
    load = {"workload": "burst_load", "from": "a", "to": "b", "burst_bytes": 1000, "period_ns": 10_000_000}
    timeline = [{"id": "load", "do": "start", "role": "load"}]
    timeline += [
        {"id": name, "do": "run", "role": name, "after": {"event": "load.started"}} for name in roles
    ]
    guest |= {"roles": {"load": load, **roles}, "timeline": timeline, "windows": {}}
    return Plan.parse(json.dumps(guest))


UDP = {"workload": "udp_stream", "payload_bytes": 1472, "duration_ns": 1_000_000}
PROBE = {"workload": "rtt", "count": 3, "interval_ns": 1_000_000}


def test_a_load_counts_beside_the_first_role_that_takes_not_all() -> None:
    assert measuring_beside(plan_of(UDP, PROBE), "load") == ["m1", "m0"]
    assert measuring_beside(plan_of(PROBE, UDP), "load") == ["m0", "m1"]
    assert measuring_beside(plan_of(UDP, UDP | {"rate_bit_per_s": 1000}), "load") == ["m1", "m0"]
    assert measuring_beside(plan_of(UDP, UDP), "load") == ["m0", "m1"]


def test_beside_one_measuring_role_a_load_counts_as_it_does() -> None:
    assert measuring_beside(plan_of(PROBE), "load") == []
    assert measuring_beside(plan_of(PROBE, UDP), "m1") == []


def test_a_load_does_not_count_beside_a_role_that_was_over_when_it_began(tmp_path: Path) -> None:
    marks = {
        "m0.started": Mark(100),
        "m0.finished": Mark(400),
        "load.started": Mark(450),
        "m1.started": Mark(500),
        "m1.finished": Mark(900),
        "load.finished": Mark(950),
    }
    record = replace(
        record_of(tmp_path, plan_of(PROBE, PROBE), {}), windows={"measured": (100, 900)}, marks=marks
    )
    assert role_window(record, "load") == RoleWindow(500, 900, "m1", whole=False)
    assert beside_of(record, "load") == "m1"
    alone = replace(record, marks=marks | {"m1.started": Mark(960), "m1.finished": Mark(990)})
    assert role_window(alone, "load") == RoleWindow(450, 900, "measured", whole=False)
    assert beside_of(alone, "load") is None
    assert beside_of(record, "m1") is None


def test_the_window_of_a_load_is_that_of_the_role_beside_which_it_counts(tmp_path: Path) -> None:
    record = replace(
        record_of(tmp_path, plan_of(PROBE, UDP), {}),
        windows={"measured": (100, 900)},
        marks={
            "load.started": Mark(10),
            "m0.started": Mark(100),
            "m0.finished": Mark(400),
            "m1.started": Mark(500),
            "m1.finished": Mark(900),
            "load.finished": Mark(950),
        },
    )
    assert role_window(record, "load") == RoleWindow(100, 400, "m0", whole=False)
    assert role_window(record, "m1") == RoleWindow(500, 900, "measured", whole=True)
