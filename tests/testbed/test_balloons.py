"""Virtual machines that give memory back by a balloon, and take it again when their kernel would end a process."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import machine_world as machines
import pytest
import testbed_world as worlds

from virtlab.errors import GuestError
from virtlab.experiment import load_text
from virtlab.plan import Outcome, Trial
from virtlab.planner import plan_run
from virtlab.testbed import Testbed

pytestmark = [
    pytest.mark.skipif(machines.missing() is not None, reason=str(machines.missing())),
    pytest.mark.skipif(os.geteuid() != 0, reason="control groups are root's"),
]
MIB = 1 << 20
# Two machines of 384 MiB in a pool of 704: 1.09 times what it has. Their balloons leave 384 of it, and QEMU needs its
# own.
FILE = """\
version: 1
name: ballooned
hosts:
  h1:
    pools: {cores: {cpus: 1, memory: 704 MiB}}
    guests: {app: {count: 2, platform: qemu, memory: 384 MiB, balloon: 192 MiB, pool: cores}}
topology: none
roles:
  one:
    workload: program
    from: h1.app1
    to: h1.app2
    argv: &fill [dd, if=/dev/zero, of=/dev/null, bs=FILLED M, count=TIMES]
  two: {workload: program, from: h1.app2, to: h1.app1, argv: *fill, enabled: BOTH}
timing: {together: true, warmup: 0 s, drain: 1500 ms}
collect: {telemetry: off, series: {}, counters: [guests]}
"""


Counted = dict[str, dict[str, int]]  # entity -> counter -> value


def played(filled_mib: int, *, both: bool = False) -> tuple[Outcome, Counted, Counted, Mapping[str, Any]]:
    """The outcome, counters as the run began and ended, and what the first machine is as read back."""
    text = FILE.replace("FILLED M", f"{filled_mib}M").replace("BOTH", str(both).lower())
    experiment = load_text(text.replace("TIMES", "8" if both else "1"))
    plan = plan_run(experiment, experiment.points()[0], 0)
    if lacking := [refused for refused in Testbed().check(plan) if "balloon" in refused.reason]:
        pytest.skip(f"{lacking[0].reason}: {lacking[0].cure}")
    sink = worlds.MemorySink()
    with Testbed().open(plan, worlds.Patient()) as session:
        outcome = session.run(Trial("t0", 1), sink)
        read_back = session.realised.objects["guests.h1.app1"].read_back
    began: Counted = {}
    ended: Counted = {}
    for found, mark in ((began, "begin"), (ended, "end")):
        for (entity, counter), value in sink.counters(mark).items():
            found.setdefault(entity, {})[counter] = value
    return outcome, began, ended, read_back


def test_a_balloon_is_filled_before_the_run_and_gives_way_to_a_guest_in_need() -> None:
    outcome, began, ended, read_back = played(240)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert read_back["memory_bytes"] == 384 * MIB
    assert read_back["balloon_bytes"] == 192 * MIB
    for guest in ("guests.h1.app1", "guests.h1.app2"):
        assert began[guest]["balloon_bytes"] == 192 * MIB
    assert ended["guests.h1.app1"]["balloon_bytes"] < 192 * MIB, "what it filled is more than it had left"
    assert ended["guests.h1.app2"]["balloon_bytes"] == 192 * MIB
    faults = ended["guests.h1.app1"]["page_faults"] - began["guests.h1.app1"]["page_faults"]
    assert faults > 240 * MIB // 4096 // 512, "at least one for each huge page"


def test_guests_that_want_all_of_it_at_once_use_up_their_pool() -> None:
    with pytest.raises(GuestError, match="its virtual machine ended with signal 9"):
        played(320, both=True)
