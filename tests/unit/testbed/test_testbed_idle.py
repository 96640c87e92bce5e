"""What is read of idle processors, who gets a processor of its own, and which agent is refused."""

from __future__ import annotations

import shutil
import struct
from pathlib import Path

import pytest

from virtlab.errors import MachineError
from virtlab.plan import Plan
from virtlab.testbed.build import idle
from virtlab.testbed.leader.process import agent_path


def two_guests(*kinds: str) -> Plan:
    guests = {
        f"g{number}": {"platform": "namespace", "host": "h", "vnics": {}, "idle": kind}
        for number, kind in enumerate(kinds)
    }
    return Plan.model_validate({"world": {"hosts": {"h": {}}, "guests": guests}})


def test_a_polling_guest_shares_its_processor_with_nobody() -> None:
    assert idle.processors(two_guests("poll", "sleep"), [0, 1, 2]) == {"g0": [2], "g1": [0, 1]}
    assert idle.processors(two_guests("poll", "poll"), [0, 1, 2]) == {"g0": [2], "g1": [1]}


def test_more_polling_guests_than_processors_are_refused() -> None:
    assert idle.processors(two_guests("poll", "poll"), [0, 1]) is None
    assert idle.processors(two_guests("sleep", "sleep"), [0]) == {}


def test_idle_conditions_are_what_the_kernel_says(tmp_path: Path) -> None:
    assert set(idle.conditions(tmp_path).values()) == {idle.NOT_OFFERED}
    files = {
        "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
        "sys/devices/system/cpu/cpu0/cpuidle/state1/name": "C1\n",
        "sys/devices/system/cpu/cpu0/cpuidle/state1/latency": "2\n",
        "sys/devices/system/cpu/cpu0/cpuidle/state1/disable": "1\n",
        "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/cpu_dma_latency").write_bytes(struct.pack("=i", 0))
    found = idle.conditions(tmp_path)
    assert found["cpufreq_governor"] == "performance"
    assert found["cpuidle_states"] == "C1 (2 us, off)"
    assert (found["cpu_dma_latency"], found["clocksource"]) == ("0 us", "tsc")


def test_a_machine_is_virtual_where_its_processors_halt_into_kvm(tmp_path: Path) -> None:
    driver = tmp_path / "sys/devices/system/cpu/cpuidle/current_driver"
    driver.parent.mkdir(parents=True)
    assert not idle.is_virtual(tmp_path)
    for name, virtual in (("intel_idle\n", False), ("haltpoll\n", True)):
        driver.write_text(name)
        assert idle.is_virtual(tmp_path) is virtual


def test_steal_is_a_share_of_all_ticks() -> None:
    assert idle.steal_ratio((10, 1000), (20, 1100)) == 0.1
    assert idle.steal_ratio((10, 1000), (10, 1000)) is None


def test_an_agent_for_another_architecture_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = tmp_path / "virtlab-agent"
    shutil.copy(agent_path(), foreign)
    with foreign.open("r+b") as file:
        file.seek(18)
        file.write(struct.pack("<H", 0x1234))
    monkeypatch.setenv("VIRTLAB_AGENT", str(foreign))
    with pytest.raises(MachineError, match="another architecture") as refused:
        agent_path()
    assert "make agent" in refused.value.cure


def test_a_missing_agent_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VIRTLAB_AGENT", str(tmp_path / "none"))
    with pytest.raises(MachineError, match="missing") as refused:
        agent_path()
    assert "make agent" in refused.value.cure
