"""What serves the disks of machines is the leader: stopped for a while, it held their guests up, which the run
tells.
"""

from __future__ import annotations

import os
import signal
import time

import machine_world as machines
import process_world as processes
import pytest
import testbed_world as worlds

from virtlab.plan import Trial
from virtlab.testbed import Testbed
from virtlab.testbed.session import TestbedSession

pytestmark = [
    pytest.mark.skipif(machines.missing() is not None, reason=str(machines.missing())),
    pytest.mark.timeout(300),
]
STOP_S = 0.1


def test_a_leader_that_is_stopped_taints_the_run_of_a_machine_with_a_disk() -> None:
    world = machines.machines(
        worlds.one_host(2), "g1", disk={"size_bytes": 16 << 20, "latency_ns": 1_000_000}
    )
    role = {
        "workload": "request_response", "from": "g2", "to": "g1", "duration_ns": 10**9, "write_bytes": 4096,
        "write_mode": "fsync", "connections": 2, "threads": 2, "request_bytes": 64, "response_bytes": 64,
        "timeout_ns": 10**10, "backlog": 64, "full": "wait",
    }  # fmt: skip
    plan = worlds.plan(world, roles={"ask": role}, timeline=[{"id": "ask", "do": "run", "role": "ask"}])
    with Testbed().open(plan, worlds.Patient()) as session:
        assert isinstance(session, TestbedSession)
        leaders = processes.agents_of(session, "leader")

        def stop() -> None:
            for number in (signal.SIGSTOP, signal.SIGCONT):
                for pid in leaders:
                    os.kill(pid, number)
                time.sleep(STOP_S)

        outcome = session.run(Trial("t0", 1), worlds.ActingSink(stop, at="ask.started"))
    assert outcome.status == "tainted", outcome
    told = [reason for reason in outcome.reasons if reason.startswith("guests.g1.disk: starved: ")]
    assert len(told) == 1, outcome.reasons
    assert float(told[0].rpartition("at most ")[2].removesuffix(" ms")) >= STOP_S * 1000 - 10
