"""A process that measures, answers or switches and that was stopped in mid-run taints the run, whatever it plays."""

from __future__ import annotations

import os
import signal
import threading
from typing import Any

import process_world as processes
import pytest
import testbed_world as worlds

from virtlab.plan import Trial
from virtlab.testbed import Testbed
from virtlab.testbed.session import TestbedSession

pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))
S = 10**9
ECHOES = {"interval_ns": 5_000_000, "count": 160, "timeout_ns": worlds.LATE_NS}
WORKLOADS: dict[str, dict[str, Any]] = {
    "rtt over UDP": {"workload": "rtt", "protocol": "udp", "ip_packet_bytes": 200, **ECHOES},
    "tcp_rr": {"workload": "tcp_rr", "duration_ns": 800_000_000, "request_bytes": 100, "response_bytes": 100},
    "psping over TCP": {
        "workload": "psping", "test": "latency", "protocol": "tcp", "request_bytes": 100, "response_bytes": 100,
        "count": 160, "warmup": 0, "interval_ns": 5_000_000, "timeout_ns": worlds.LATE_NS,
    },
    "psping over UDP": {
        "workload": "psping", "test": "latency", "protocol": "udp", "request_bytes": 100, "response_bytes": 100,
        "count": 160, "warmup": 0, "interval_ns": 5_000_000, "timeout_ns": worlds.LATE_NS,
    },
    "burst_load": {
        "workload": "burst_load", "protocol": "udp", "burst_bytes": 2000, "period_ns": 5_000_000, "streams": 1,
        "direction": "request_reply", "origin": "from", "phase": "fixed", "phase_ns": 0, "duration_ns": 800_000_000,
    },
    "udp_stream": {
        "workload": "udp_stream", "ip_packet_bytes": 500, "rate_bit_per_s": 5_000_000, "duration_ns": 800_000_000,
    },
    "tcp_stream": {"workload": "tcp_stream", "message_bytes": 4096, "duration_ns": 800_000_000},
    "raw_stream": {"workload": "raw_stream", "frame_bytes": 500, "rate_pps": 1000, "duration_ns": 800_000_000},
}  # fmt: skip


def stop_for(pid: int, seconds: float) -> None:
    """Stops a process, and lets it go on."""
    os.kill(pid, signal.SIGSTOP)
    threading.Timer(seconds, os.kill, (pid, signal.SIGCONT)).start()


def played(role: dict[str, Any], victim: str) -> tuple[str, tuple[str, ...]]:
    """Status and reasons of a run in which the victim was stopped for 100 ms."""
    plan = worlds.echo_plan(
        worlds.bridged(),
        roles={"load": {"from": "a", "to": "b", **role}},
        timeline=[{"id": "measure", "do": "run", "role": "load"}],
        collect={"packets": ["load"], "counters": []},
    )
    with Testbed().open(plan, worlds.Patient()) as session:
        assert isinstance(session, TestbedSession)

        def act() -> None:
            agents = processes.agents_of(session, "switch" if victim == "switch" else "probe")
            stop_for(agents[victim == "a"], 0.1)

        outcome = session.run(Trial("t0", 1), worlds.ActingSink(act))
    return outcome.status, outcome.reasons


@pytest.mark.parametrize("workload", WORKLOADS)
@pytest.mark.parametrize("end", ["b", "a"])
def test_an_end_that_was_stopped_for_a_tenth_of_a_second_taints_the_run(workload: str, end: str) -> None:
    status, reasons = played(WORKLOADS[workload], end)
    assert status == "tainted"
    assert any(f"guest {end}: starved: the probe stood still" in reason for reason in reasons), reasons


def test_a_soft_switch_that_was_stopped_taints_the_run() -> None:
    status, reasons = played(WORKLOADS["rtt over UDP"], "switch")
    assert status == "tainted"
    assert any("soft switch: starved: it stood still" in reason for reason in reasons), reasons
