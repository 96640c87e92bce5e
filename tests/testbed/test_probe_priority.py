"""As root, threads that measure delay stand above other processes, and lose that when they keep a processor busy."""

from __future__ import annotations

import contextlib
import os
import re
import time
from pathlib import Path

import probe_world as pw
import process_world as processes
import pytest
import testbed_world as worlds

from virtlab.plan import Trial
from virtlab.testbed import Testbed
from virtlab.testbed.session import TestbedSession

pytestmark = [
    pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing())),
    pytest.mark.skipif(os.geteuid() != 0, reason="a real-time priority needs root"),
]
PACED = {
    "workload": "rtt",
    "ip_packet_bytes": 84,
    "interval_ns": 5_000_000,
    "count": 200,
    "timeout_ns": 10**9,
}


def policies(pid: int) -> set[int]:
    """Scheduling policies of the threads of a process."""
    threads = [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()]
    return {os.sched_getscheduler(thread) for thread in threads}


@pytest.mark.parametrize(("limits", "above"), [({}, True), ({"cpu_quota_ratio": 0.5}, False)])
def test_both_ends_of_a_paced_role_stand_above_others_unless_their_guest_is_bounded(
    limits: dict[str, object], above: bool
) -> None:
    world = worlds.bridged()
    for guest in world["guests"].values():
        guest.update(limits)
    plan = worlds.echo_plan(
        world,
        roles={"load": {"from": "a", "to": "b", "protocol": "udp", **PACED}},
        timeline=[{"id": "measure", "do": "run", "role": "load"}],
        collect={"packets": ["load"], "counters": []},
    )
    seen: list[set[int]] = []
    with Testbed().open(plan, worlds.Patient()) as session:
        assert isinstance(session, TestbedSession)

        def act() -> None:
            seen.extend(policies(pid) for pid in processes.agents_of(session, "probe"))

        assert session.run(Trial("t0", 1), worlds.ActingSink(act)).status != "failed"
        assert session.realised.versions["probe_priority"] == "SCHED_FIFO 1 (rtt)"
    assert seen
    assert [os.SCHED_FIFO in each for each in seen] == [above] * len(seen)


def test_a_stream_that_never_sleeps_goes_back_to_the_fair_scheduler(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe]
) -> None:
    sender, receiver = ends
    stream = {
        "role": "s",
        "workload": "udp_stream",
        "parameters": {"duration_ns": 800_000_000, "payload_bytes": 64},
    }
    port = receiver.ask("arm", side="server", local=world.b.end(), peer=world.a.end(), **stream)["port"]
    there = world.b.end() | {"port": port}
    sender.ask("arm", side="client", local=world.a.end(), peer=there, fifo_priority=1, **stream)
    for end in (receiver, sender):
        end.ask("start", role="s")
    sender.wait_event("finished", "s")
    sender.wait_log("no real-time priority any more")
    until_none_is_above(sender)
    for end in (sender, receiver):
        end.ask("disarm", role="s")


def until_none_is_above(end: pw.Probe, *, but: int = 0) -> None:
    """Waits until so many threads of a probe have a real-time priority, and no more."""
    deadline = time.monotonic() + 60
    while len(fifo := above(end.process.pid)) != but:
        assert time.monotonic() < deadline, f"threads {sorted(fifo)} are above others still"
        time.sleep(0.01)


def above(pid: int) -> set[str]:
    """Names of the threads of a process that have a real-time priority."""
    found = set()
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            if os.sched_getscheduler(int(task.name)) == os.SCHED_FIFO:
                found.add((task / "comm").read_text().strip())
    return found


def test_a_server_that_computes_before_its_start_goes_back_too(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe]
) -> None:
    _, server = ends
    role = {"role": "s", "workload": "rtt", "local": world.b.end(), "peer": world.a.end()}
    own = {key: value for key, value in PACED.items() if key != "workload"}
    polling = {**own, "protocol": "udp", "idle": "poll"}
    server.ask("arm", side="server", parameters=polling, fifo_priority=1, **role)
    limits = Path(f"/proc/{server.process.pid}/limits").read_text()
    assert re.search(
        r"Max realtime timeout +1000000 +1000000 ", limits
    )  # what the kernel does without a governor
    until_none_is_above(server, but=1)
    assert above(server.process.pid) == {"governor"}
    server.ask("disarm", role="s")
    until_none_is_above(server)
    server.wait_log("no real-time priority any more")


@pytest.mark.parametrize("priority", [0, 99, 2**31 - 1])
def test_a_priority_above_which_no_governor_fits_is_given_to_nobody(
    world: pw.World, ends: tuple[pw.Probe, pw.Probe], priority: int
) -> None:
    _, server = ends
    role = {"role": "s", "workload": "rtt", "local": world.b.end(), "peer": world.a.end()}
    own = {key: value for key, value in PACED.items() if key != "workload"}
    server.ask("arm", side="server", parameters={**own, "protocol": "udp"}, fifo_priority=priority, **role)
    assert above(server.process.pid) == set()
    server.wait_log(f"{priority} is not a valid real-time priority of traffic")
    server.ask("disarm", role="s")
