"""A dirty rate is asked of QEMU by the method that a machine allows, and which it was is said."""

from __future__ import annotations

from typing import Any

import pytest

from virtlab.plan import SeriesRequest
from virtlab.testbed.platforms.qemu import kvm
from virtlab.testbed.platforms.qemu.command import processor
from virtlab.testbed.platforms.qemu.dirtying import Dirtying, ring_of

S = 10**9


class Qemu:
    """A monitor whose measurement is over as soon as it is asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def execute(self, command: str, arguments: dict[str, Any] | None = None) -> dict[str, Any]:
        if command == "calc-dirty-rate":
            assert arguments is not None
            self.asked.append(arguments)
            return {}
        assert command == "query-dirty-rate"
        # As QEMU 7.2 says it of either mode, in MiB/s; of a ring each processor beside it.
        return {"status": "measured" if self.asked else "unstarted", "dirty-rate": 7}


def test_pages_are_sampled_but_where_kvm_keeps_a_ring() -> None:
    clock = [0]
    dirtying = Dirtying(lambda: clock[0], lambda name: 4096 if name == "fast" else 0)
    dirtying.begin([SeriesRequest(source="guest.dirty_rate", every_ns=2 * S)])
    fast, slow = Qemu(), Qemu()
    for _ in range(2):
        dirtying.look({"fast": fast, "slow": slow})  # type: ignore[dict-item]
        clock[0] += 2 * S
    assert fast.asked[0] == {"calc-time": 2, "mode": "dirty-ring"}, "which takes no number of pages"
    assert slow.asked[0] == {"calc-time": 2, "mode": "page-sampling", "sample-pages": 16384}
    (rows,) = dirtying.end()
    assert list(zip(rows["entity"], rows["value"], strict=True)) == [
        ("guests.fast", 7 << 20),
        ("guests.slow", 7 << 20),
    ]


def test_only_a_machine_on_hardware_gets_a_ring() -> None:
    assert processor("kvm", ring_of("kvm", 65536))[:2] == ["-accel", "kvm,dirty-ring-size=4096"]
    assert processor("kvm", ring_of("kvm", 0))[:2] == ["-accel", "kvm"]
    assert "dirty-ring" not in " ".join(processor("tcg", ring_of("tcg", 65536)))


def test_where_kvm_is_not_to_be_had_no_ring_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setattr(kvm, "DEVICE", tmp_path / "kvm")
    assert kvm.dirty_ring_entries() == 0
    (tmp_path / "kvm").write_text("no device\n")
    assert kvm.dirty_ring_entries() == 0
