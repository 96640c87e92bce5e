"""What the machine does while nothing happens, which sets how fast it answers: read back for every run.

A processor that clocked down or went into a deep idle state wakes late: tens of microseconds in every echo. A guest
that is to poll instead of sleep gets a processor of its own, and as root the deep states are shut for the run: the
kernel keeps wake-ups below the microseconds that an open /dev/cpu_dma_latency says.

A virtual machine's processor is deepest asleep of all: one that halts is handed to other machines of its host, and
wakes milliseconds late. So on a virtual machine root shuts the idle states for every run, whatever guests do.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Sequence
from pathlib import Path

from virtlab.plan import Plan

DMA_LATENCY = Path("/dev/cpu_dma_latency")
_CPU = Path("sys/devices/system/cpu")
_DRIVER = _CPU / "cpuidle/current_driver"
_OF_VIRTUAL_MACHINES = "haltpoll"  # the idle driver that Linux takes where KVM runs it
_CLOCK = Path("sys/devices/system/clocksource/clocksource0/current_clocksource")
NOT_OFFERED = "not offered"


def pollers(plan: Plan) -> list[str]:
    """Guests that poll."""
    return [name for name, guest in plan.world.guests.items() if guest.idle == "poll"]


def processors(plan: Plan, available: Sequence[int]) -> dict[str, list[int]] | None:
    """The processors of each guest: one of its own for each that polls, the rest for all others.

    Empty if no guest polls; None if there are too few, as at least one is for those that sleep and the kernel.
    """
    polling = pollers(plan)
    if not polling:
        return {}
    if len(polling) >= len(available):
        return None
    own = dict(zip(polling, ([cpu] for cpu in reversed(available)), strict=False))
    rest = list(available[: len(available) - len(polling)])
    return {name: own.get(name, rest) for name in plan.world.guests}


def conditions(root: Path = Path("/")) -> dict[str, str]:
    """Governor, idle driver and states, latency limit and clock source, as the kernel has them now."""
    cpus = root / _CPU
    governors = {_read(path) for path in cpus.glob("cpu[0-9]*/cpufreq/scaling_governor")}
    states = [
        f"{_read(state / 'name')} ({_read(state / 'latency')} us{', off' if _read(state / 'disable') == '1' else ''})"
        for state in sorted(cpus.glob("cpu0/cpuidle/state*"))
    ]
    return {
        "cpufreq_governor": ", ".join(sorted(governors)) or NOT_OFFERED,
        "cpuidle_driver": _read(root / _DRIVER) or NOT_OFFERED,
        "cpuidle_states": ", ".join(states) or NOT_OFFERED,
        "cpu_dma_latency": _latency(root / DMA_LATENCY.relative_to("/")),
        "clocksource": _read(root / _CLOCK) or NOT_OFFERED,
    }


def is_virtual(root: Path = Path("/")) -> bool:
    """Whether this machine's processors halt into a hypervisor."""
    return _read(root / _DRIVER) == _OF_VIRTUAL_MACHINES


def hold_awake() -> int | None:
    """Keeps every processor out of its deep idle states while the returned descriptor is open; None when refused."""
    with contextlib.suppress(OSError):
        descriptor = os.open(DMA_LATENCY, os.O_RDWR | os.O_CLOEXEC)
        try:
            os.write(descriptor, struct.pack("=i", 0))
        except OSError:
            os.close(descriptor)
            return None
        return descriptor
    return None


def ticks(root: Path = Path("/")) -> tuple[int, int]:
    """Clock ticks of all processors since boot: stolen by what runs beneath, and in total."""
    words = _read(root / "proc/stat").partition("\n")[0].split()[1:9]
    values = [int(word) for word in words]
    return (values[7], sum(values)) if len(values) == 8 else (0, 0)


def steal_ratio(before: tuple[int, int], after: tuple[int, int]) -> float | None:
    """The share of processor time that was stolen; None when no tick passed."""
    passed = after[1] - before[1]
    return (after[0] - before[0]) / passed if passed > 0 else None


def _latency(path: Path) -> str:
    """The limit in force, which only root may read."""
    try:
        return f"{struct.unpack('=i', path.read_bytes()[:4])[0]} us"
    except (OSError, struct.error):
        return NOT_OFFERED


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
