"""The bench of migrations has every dirty rate among its first moves, and does not repeat a move that a file keeps."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

BENCHES = Path(__file__).parents[3] / "benches"


@pytest.fixture
def migration(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    monkeypatch.syspath_prepend(BENCHES)
    before, path = set(sys.modules), list(sys.path)
    import migration as module

    yield module
    sys.path[:] = path
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "/").parent in {
            BENCHES,
            BENCHES.parent / "tests" / "testbed",
        }:
            del sys.modules[name]


def test_the_first_moves_have_every_rate_and_all_of_them_every_pair(migration: ModuleType) -> None:
    assert {rate for _, rate in migration.pairs(8)} == set(migration.RATES)
    assert len(set(migration.pairs(24))) == 24
    assert migration.pairs(30)[24:] == migration.pairs(6)


def test_a_move_that_a_file_keeps_is_not_made_again(
    migration: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[int, int]] = []

    def move(bandwidth: int, dirty: int, **more: int) -> object:
        made.append((bandwidth, dirty))
        return migration.Measured(2.0, 0.02, 0.1, 1e8, 3.0, float(dirty), None, 0.5)

    monkeypatch.setattr(migration, "_move", move)
    file = str(tmp_path / "moves.jsonl")
    first = migration.Kept.of(file)
    one = first.move(60_000_000, 5_000_000)
    first.move(60_000_000, 5_000_000, 1)
    first.move(60_000_000, 5_000_000, rounds_limit=1)
    assert len(made) == 3, "another time and another limit are other moves"
    resumed = migration.Kept.of(file)
    assert resumed.move(60_000_000, 5_000_000) == one
    assert len(made) == 3
    resumed.move(80_000_000, 5_000_000)
    assert made[3:] == [(80_000_000, 5_000_000)]


@pytest.mark.slow
def test_the_simulated_copy_of_fourteen_gigabytes_takes_as_long_as_the_line(migration: ModuleType) -> None:
    figure = migration._fluid()
    assert figure["virtual_s"] == pytest.approx(14e9 / (125e6 * 1448 / 1538), rel=0.01)
    assert figure["value"] > 0


def test_the_pause_is_that_of_guests_that_write_and_not_of_those_that_write_nothing(
    migration: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    def move(bandwidth: int, dirty: int, **more: int) -> object:
        """Of a hypervisor that sends 400 MB/s in the pause, and later to pages that were never touched."""
        guest = migration.Moved(100e6, float(dirty), migration.WORKING_SET_BYTES)
        policy = migration.Policy(
            rule="qemu", downtime_limit_s=migration.LIMIT_NS / 1e9, rounds_limit=more.get("rounds_limit")
        )
        (course,) = migration.courses([guest], float(bandwidth), policy)
        paused_bytes = course.pause_s * bandwidth
        pause_s = 0.005 + paused_bytes / 400e6 + (0.0 if dirty else 0.012)
        total_s = 0.2 + course.total_s - course.pause_s + pause_s
        return migration.Measured(
            total_s, pause_s, 0.2, course.bytes, 3.0, float(dirty), pause_s + 0.05, 0.5, 0.05, paused_bytes
        )

    monkeypatch.setattr(migration, "_move", move)
    monkeypatch.setattr(migration, "_fluid", lambda: {"name": "migration.fluid"})
    monkeypatch.setattr(migration.machines, "missing", lambda: None)
    monkeypatch.setenv("VIRTLAB_MOVES", "24")
    monkeypatch.delenv("VIRTLAB_MOVES_KEPT", raising=False)
    figures = {figure["name"]: figure for figure in migration.bench()}
    fitted = figures["migration.parameters"]
    assert fitted["device_state_s"] == pytest.approx(0.005, rel=1e-6)
    assert fitted["value"] == pytest.approx(400e6, rel=1e-6)
    assert fitted["first_touch_s"] == pytest.approx(0.012, rel=1e-6)
    assert figures["migration.pause_error"]["value"] < 1e-6
    assert figures["migration.total_error"]["value"] < 1e-3
