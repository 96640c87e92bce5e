"""Guests that poll: they have a processor of their own, and their receivers spin where others sleep."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest
import testbed_world as worlds

from virtlab.plan import Trial
from virtlab.testbed import Testbed

CPUS = sorted(os.sched_getaffinity(0))
COUNT = 600
TICKS = 20  # of the one that spins, after which they are compared

pytestmark = [
    pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing())),
    pytest.mark.skipif(len(CPUS) < 2, reason="a guest that polls needs a processor of its own: 2 are needed"),
]


def probes_of(ancestor: int) -> dict[int, set[int]]:
    """Processors of each probe below a process."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = {}
    for pid in parents:
        line = [pid]
        while line[-1] in parents and line[-1] != ancestor:
            line.append(parents[line[-1]])
        try:
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
            if line[-1] == ancestor and b"probe" in words:
                found[pid] = os.sched_getaffinity(pid)
        except OSError:
            continue
    return found


def processor_ticks(pid: int) -> int:
    """Clock ticks that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_a_polling_guest_spins_on_a_processor_that_nobody_shares() -> None:
    world = worlds.one_host(2)
    world["guests"]["g2"]["idle"] = "poll"
    plan = worlds.echo_plan(world, count=COUNT, source="g1", target="g2")
    plan.roles["probe"].__pydantic_extra__["protocol"] = (
        "udp"  # icmp is answered by the kernel, which never sleeps
    )
    assert Testbed().check(plan) == []
    begun = threading.Event()
    sink = worlds.ActingSink(begun.set, later_s=0.0)
    outcomes = []
    with Testbed().open(plan, worlds.Patient()) as session:
        measuring = threading.Thread(target=lambda: outcomes.append(session.run(Trial("t0", 1), sink)))
        measuring.start()
        assert begun.wait(60)
        seen = probes_of(os.getpid())
        used = {pid: processor_ticks(pid) for pid in seen}
        spent = dict.fromkeys(used, 0)
        while measuring.is_alive() and max(spent.values()) < TICKS:
            time.sleep(0.05)
            spent = {pid: processor_ticks(pid) - before for pid, before in used.items()}
        measuring.join()
    alone, rest = sorted(seen, key=lambda pid: CPUS[-1] not in seen[pid])
    assert (seen[alone], seen[rest]) == ({CPUS[-1]}, set(CPUS[:-1]))
    assert spent[alone] > spent[rest]
    assert outcomes[0].status in {"ok", "tainted"}, outcomes[0].reasons
    assert sink.rows("probe", "rtt/1") == COUNT
