"""The fastest link that the soft switch is trusted with: measured here, kept, and asked before anything is built."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.unit.testbed.test_testbed_refusals import put, refused

from virtlab.testbed.build import switch_capacity
from virtlab.testbed.build.switch_capacity import CAREFUL_BIT_PER_S, Capacity, keep, limit, stored

FAST = Capacity(small_pps=500_000, full_pps=400_000, added_delay_p50_ns=900, added_delay_p99_ns=20_000)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def test_a_busy_gigabit_both_ways_is_130_thousand_full_frames_a_second() -> None:
    assert Capacity(0, 130_040).rate_bit_per_s() == pytest.approx(1e9, rel=1e-4)


def test_without_a_measurement_a_careful_figure_holds() -> None:
    assert stored() is None
    assert limit()[0] == CAREFUL_BIT_PER_S


def test_the_best_measurement_is_kept_and_a_busy_machine_lowers_nothing() -> None:
    keep(FAST)
    keep(Capacity(100_000, 50_000))
    assert stored() == FAST
    assert limit()[0] == FAST.rate_bit_per_s() > 3 * CAREFUL_BIT_PER_S


def test_another_machines_measurement_counts_for_nothing() -> None:
    keep(FAST)
    place = switch_capacity.folder() / switch_capacity.FILE_NAME
    said = json.loads(place.read_text(encoding="utf-8"))
    said["machine"]["cpu"] = "another"
    place.write_text(json.dumps(said), encoding="utf-8")
    assert stored() is None
    place.write_text("{", encoding="utf-8")
    assert stored() is None


def test_a_link_is_refused_above_what_was_measured() -> None:
    rate = put("world/links/h1-s1/rate_bit_per_s", 2_000_000_000)
    assert refused(rate) == ["links.h1-s1.rate_bit_per_s"]
    keep(FAST)
    assert refused(rate) == []
