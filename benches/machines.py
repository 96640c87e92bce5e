"""Virtual machines: how long four take to be ready beside one bare QEMU boot, what they hold, how fast they answer.

The peer is QEMU alone with the same kernel and initial file system, until the agent's first word comes through its
serial port: no world, no taps, no addresses. On two processors four emulated machines need at least twice its time.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "testbed"))
sys.path.insert(0, str(Path(__file__).parents[1] / "python"))

import machine_world as machines
import testbed_world as worlds
from _skipped import skipped

from virtlab.agents.requests.every import Hello, ReadClock
from virtlab.agents.requests.leader import ReadCounters
from virtlab.plan import Plan
from virtlab.testbed import Testbed
from virtlab.testbed.image import boot_image
from virtlab.testbed.leader.control import Control
from virtlab.testbed.platforms.qemu.command import MEMORY_BYTES, Machine, Port
from virtlab.testbed.session import TestbedSession

GUESTS = 4
PASSES = 3
QUESTIONS = 500
READY_RATIO_MAX = 1.3
RESIDENT_MAX_BYTES = 220 * 10**6
ROUND_TRIP_MAX_NS = 5_000_000


def bench() -> Iterator[dict[str, Any]]:
    """Figures, or the reason that there are none."""
    why = machines.missing()
    if why is not None:
        yield skipped("machines", why)
        return
    bare_s = statistics.median(_bare_boot_s() for _ in range(PASSES))
    ready, resident, trips = [], [], []
    for _ in range(PASSES):
        begin = time.monotonic()
        with Testbed().open(_plan(), worlds.Patient()) as session:
            assert isinstance(session, TestbedSession)
            ready.append(time.monotonic() - begin)
            resident += _resident_bytes(session)
            leader, _ = next(iter(session.leaders().values()))
            trips += _round_trips_ns(session.leader.control, leader)
    ready_s = statistics.median(ready)
    yield {
        "name": "machines.bare_boot", "value": bare_s, "unit": "s", "ratio": None,
        "peer": f"QEMU alone, {platform.release()}, load {os.getloadavg()[0]:.1f}", "goal": None,
    }  # fmt: skip
    yield {
        "name": "machines.four_ready", "value": ready_s, "unit": "s", "ratio": ready_s / (2 * bare_s),
        "peer": "twice the time of one bare boot", "goal": f"ratio <= {READY_RATIO_MAX}",
    }  # fmt: skip
    yield {
        "name": "machines.resident", "value": max(resident), "unit": "B", "ratio": max(resident) / MEMORY_BYTES["cloud"],
        "peer": "memory of the guest", "goal": f"<= {RESIDENT_MAX_BYTES}",
    }  # fmt: skip
    yield {
        "name": "machines.control_round_trip", "value": statistics.median(trips), "unit": "ns",
        "ratio": statistics.median(trips) / _own_round_trip_ns(), "peer": "the world's own leader",
        "goal": f"<= {ROUND_TRIP_MAX_NS}",
    }  # fmt: skip


def _plan() -> Plan:
    return worlds.plan(machines.machines(worlds.one_host(GUESTS)))


def _bare_boot_s() -> float:
    image = boot_image("cloud")
    ours, theirs = socket.socketpair()
    monitor, monitor_theirs = socket.socketpair()
    with tempfile.TemporaryFile() as console, ours, theirs, monitor, monitor_theirs:
        argv = Machine(
            "bare", str(image.kernel.image), str(image.initramfs), "tcg", 1, MEMORY_BYTES["cloud"],
            ports=list[Port](), agent=theirs.fileno(), monitor=monitor_theirs.fileno(),
        ).argv()  # fmt: skip
        begin = time.monotonic()
        with subprocess.Popen(
            argv, stdin=subprocess.DEVNULL, stdout=console, stderr=subprocess.DEVNULL,
            pass_fds=(theirs.fileno(), monitor_theirs.fileno()),
        ) as machine:  # fmt: skip
            try:
                control = Control(ours)
                control.wait(control.send(Hello()), timeout_s=120.0)
                return time.monotonic() - begin
            finally:
                machine.kill()


def _round_trips_ns(control: Control, channel: int) -> list[int]:
    found = []
    for _ in range(QUESTIONS):
        begin = time.perf_counter_ns()
        control.call(ReadClock(), channel=channel)
        found.append(time.perf_counter_ns() - begin)
    return found


def _own_round_trip_ns() -> float:
    from virtlab.testbed.leader.process import Leader

    with Leader.start() as leader:
        return statistics.median(_round_trips_ns(leader.control, 0))


def _resident_bytes(session: TestbedSession) -> list[int]:
    rows = session.leader.control.call(ReadCounters(groups=["guests"]))["rows"]
    return [int(value) for _, counter, value in rows if counter == "resident_bytes"]


if __name__ == "__main__":
    with contextlib.suppress(BrokenPipeError):
        for figure in bench():
            print(json.dumps(figure), flush=True)
