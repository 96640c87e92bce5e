"""Guests that share processors of a pool: whatever they compute, together they get no more, by their own counters and
by the kernel's; and what was applied is read back.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import container_world as containers
import machine_world as machines
import numpy as np
import pytest
import testbed_world as worlds
from test_testbed_privileges import as_nobody

from virtlab.errors import MachineError
from virtlab.experiment import load_text
from virtlab.plan import Outcome, Plan, Realised, Refusal, Trial
from virtlab.planner import plan_run
from virtlab.testbed import Testbed
from virtlab.testbed.leader import ledger
from virtlab.testbed.leader.memory_accounts import CGROUP_ROOT

pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))
ROOT = os.geteuid() == 0
by_root = pytest.mark.skipif(not ROOT, reason="control groups are root's")
PROCESSORS = len(os.sched_getaffinity(0))

# Two processes that compute for a while, and what the kernel says that they used: begin, end, CPU time in s.
BUSY = """\
import os, time
begin = time.monotonic()
children = [os.fork() for _ in range(1)] + [0]
end = begin + 1.5
while time.monotonic() < end: pass
if children[0] == 0: os._exit(0)
os.wait()
own, theirs = os.times()[:2], os.times()[2:4]
print(f"begin={begin} end={time.monotonic()} used={sum(own) + sum(theirs)}")
"""
FILE = """\
version: 1
name: pooled
hosts:
  h1:
    pools: {pools}
    guests: {guests}
topology: none
roles:
  left: {{workload: program, from: h1.a, to: h1.b, argv: {busy}, metrics: {metrics}}}
  right: {{workload: program, from: h1.b, to: h1.a, argv: {busy}, metrics: {metrics}}}
timing: {{together: true, warmup: 0 s, drain: 0 s}}
collect: {{telemetry: 200 ms}}
"""


def plan_of(pools: str = "{cores: {cpus: 1}}", guests: str = "[a, b]") -> Plan:
    busy = json.dumps(["python3", "-c", BUSY])
    metrics = "{used: {regex: 'used=(?P<used>[0-9.]+)', unit: s, better: lower}}"
    experiment = load_text(FILE.format(pools=pools, guests=guests, busy=busy, metrics=metrics))
    return plan_run(experiment, experiment.points()[0], 0)


def played(plan: Plan) -> tuple[Outcome, Realised, worlds.MemorySink]:
    assert Testbed().check(plan) == []
    sink = worlds.MemorySink()
    with Testbed().open(plan, worlds.Patient()) as session:
        outcome = session.run(Trial(id="t0", seed=1), sink)
        return outcome, session.realised, sink


def printed(sink: worlds.MemorySink, role: str) -> tuple[float, float, float]:
    found = re.search(rb"begin=(\S+) end=(\S+) used=(\S+)", sink.artefacts[f"{role}.out"])
    assert found is not None
    begin, end, used = map(float, found.groups())
    return begin, end, used


def together(sink: worlds.MemorySink) -> tuple[float, float]:
    """How long two roles took together, and what they used of processors in that time, s."""
    left, right = printed(sink, "left"), printed(sink, "right")
    return max(left[1], right[1]) - min(left[0], right[0]), left[2] + right[2]


def series(sink: worlds.MemorySink, entity: str, metric: str) -> list[float]:
    return [
        float(value)
        for _, schema, columns in sink.blocks
        if schema == "series/1"
        for of, what, value in zip(columns["entity"], columns["metric"], columns["value"], strict=True)
        if (of, what) == (entity, metric)
    ]


def test_two_busy_guests_of_a_pool_of_one_processor_get_one_together() -> None:
    outcome, realised, sink = played(plan_of())
    assert outcome.reasons == () or outcome.status == "tainted", outcome.reasons
    took_s, used_s = together(sink)
    assert used_s <= took_s * 1.02
    pool = realised.objects["pools.h1.cores"]
    (cpu,) = pool.applied["processors"]
    assert pool.read_back == {"h1.a": {"processors": [cpu]}, "h1.b": {"processors": [cpu]}}
    used = series(sink, "pools.h1.cores", "cpu")
    assert used
    assert max(used) < 1.1  # the two looks at each thread are not of one instant
    assert series(sink, "pools.h1.cores", "cpu_share") == pytest.approx(used)
    of_host = series(sink, "pools.h1.cores", "host_cpu_share")
    assert of_host == pytest.approx([each / os.cpu_count() for each in used])  # type: ignore[operator]


@pytest.mark.skipif(PROCESSORS < 2, reason="two pools of a processor each need two")
def test_a_pool_that_is_asked_for_more_than_it_has_is_full() -> None:
    """Of four processes that always compute, each computes or waits for a processor at every moment, and no processor
    idles.

    What others of this machine take of the pool's processor is theirs, and no bound of this test: it is computing, too.
    """
    outcome, realised, sink = played(plan_of())
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    [processor] = realised.objects["pools.h1.cores"].applied["processors"]
    middle = slice(1, -2)  # without what starts and ends
    wanted = sum(
        np.array(series(sink, guest, "cpu")[middle])
        + np.array(series(sink, guest, "run_queue_delay")[middle]) / 1e9
        for guest in ("guests.h1.a", "guests.h1.b")
    )
    assert np.median(wanted) == pytest.approx(4, rel=0.15), "as many as the processes that want to run"
    assert max(series(sink, "pools.h1.cores", "cpu_share")) < 1.1, "and the pool has one processor for them"
    busy = np.array(series(sink, f"host.cpu{processor}", "cpu")) + np.array(
        series(sink, f"host.cpu{processor}", "steal")
    )
    assert np.median(busy[middle]) > 0.95, "which is never idle"


def test_two_pools_are_on_processors_of_their_own() -> None:
    pools = "{cores: {cpus: 1}, storage: {cpus: 1}}"
    outcome, realised, _ = played(plan_of(pools, "{a: {pool: cores}, b: {pool: storage}}"))
    assert outcome.status != "failed", outcome.reasons
    cores, storage = (realised.objects[f"pools.h1.{name}"] for name in ("cores", "storage"))
    assert not set(cores.applied["processors"]) & set(storage.applied["processors"])
    assert cores.read_back["h1.a"]["processors"] == cores.applied["processors"]
    assert storage.read_back["h1.b"]["processors"] == storage.applied["processors"]


@pytest.mark.skipif(PROCESSORS < 2, reason="a mask is widened to a second processor")
def test_a_program_that_leaves_its_pool_fails_the_run() -> None:
    leave = "import os, time; time.sleep(0.2); os.sched_setaffinity(0, range(os.cpu_count())); time.sleep(60)"
    service = {"kind": "program", "on": "h1.a", "argv": ["python3", "-c", leave]}
    text = ECHOES.format(platform="namespace", by="affinity").replace("count: 20", "count: 100")
    experiment = load_text(f"{text}services: {json.dumps({'loose': service})}\n")
    outcome, _, _ = played(plan_run(experiment, experiment.points()[0], 0))
    assert outcome.status == "failed"
    assert any("h1.a: python3 may run on processors" in reason for reason in outcome.reasons), outcome.reasons


@by_root
def test_a_quota_bounds_a_pool_beneath_which_a_guest_has_its_own() -> None:
    guests = "{a: {cpu: 50 %}, b: {}}"
    outcome, realised, sink = played(plan_of("{cores: {cpus: 1, by: quota}}", guests))
    assert outcome.status != "failed", outcome.reasons
    took_s, used_s = together(sink)
    assert used_s <= took_s + 0.3  # a quota is of periods of 100 ms, and each processor takes a slice of it
    pool = realised.objects["pools.h1.cores"]
    quota = pool.read_back.get("cpu.cfs_quota_us") or pool.read_back["cpu.max"].split()[0]
    assert quota == "100000"
    assert len(pool.applied["processors"]) == PROCESSORS


@by_root
@pytest.mark.parametrize(
    "platform",
    [
        "namespace",
        pytest.param("container", marks=pytest.mark.skipif(containers.missing() is not None, reason="runc")),
    ],
)
def test_a_weight_is_read_back_beside_that_of_the_others_in_the_pool(platform: str) -> None:
    text = ECHOES.format(platform=f"{platform}, weight: 300", by="affinity")
    _, realised, _ = played(plan_run(load_text(text), load_text(text).points()[0], 0))
    found = [realised.objects[f"guests.h1.{name}"].read_back for name in "ab"]
    weights = [int(each.get("cpu.weight") or int(each["cpu.shares"]) // 10) for each in found]
    assert weights == [300, 100]


def sessions() -> set[Path]:
    return set(CGROUP_ROOT.rglob("virtlab-*/pool-*"))


@by_root
def test_the_group_of_a_pool_goes_with_its_session() -> None:
    plan = plan_of("{cores: {cpus: 1, by: quota}}")
    before = sessions()
    with Testbed().open(plan, worlds.Patient()):
        assert len(sessions() - before) == 1
    assert sessions() <= before


def refused(plan: Plan) -> list[Refusal]:
    return Testbed().check(plan)


def test_a_pool_of_more_processors_than_there_are_is_refused() -> None:
    (only,) = refused(plan_of(f"{{cores: {{cpus: {PROCESSORS + 1}}}}}"))
    assert only.path == "pools.h1.cores"
    assert f"{PROCESSORS + 1} processors together" in only.reason


def test_a_world_is_not_built_where_it_is_not_refused_and_processors_are_too_few() -> None:
    with pytest.raises(MachineError, match="more processors than"):
        Testbed().open(plan_of(f"{{cores: {{cpus: {PROCESSORS + 1}}}}}"), worlds.Patient())


ECHOES = """\
version: 1
name: echoes
hosts:
  h1: {{pools: {{cores: {{cpus: 1, by: {by}}}}}, guests: {{a: {{platform: {platform}}}, b: {{}}}}}}
topology: none
roles:
  probe: {{workload: rtt, from: h1.a, to: h1.b, interval: 10 ms, count: 20}}
collect: {{telemetry: 200 ms}}
"""


def echoes(platform: str, by: str = "affinity") -> Plan:
    experiment = load_text(ECHOES.format(platform=platform, by=by))
    return plan_run(experiment, experiment.points()[0], 0)


@by_root
def test_an_ordinary_user_confines_guests_by_affinity_and_is_refused_a_quota() -> None:
    def work() -> None:
        assert [(each.path, each.cure) for each in Testbed().check(echoes("namespace", "quota"))] == [
            ("pools.h1.cores.by", "run as root, or write 'by: affinity'")
        ]
        outcome, realised, _ = played(echoes("namespace"))
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        pool = realised.objects["pools.h1.cores"]
        assert pool.read_back["h1.a"]["processors"] == pool.applied["processors"]

    assert as_nobody(work) == ""


@pytest.mark.skipif(containers.missing() is not None, reason=str(containers.missing()))
@pytest.mark.parametrize("by", ["affinity", pytest.param("quota", marks=by_root)])
def test_a_container_is_in_its_pool_with_all_that_runs_in_it(by: str) -> None:
    outcome, realised, sink = played(echoes("container", by))
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    pool = realised.objects["pools.h1.cores"]
    assert pool.read_back["h1.a"]["processors"] == pool.applied["processors"]
    if by == "quota":
        assert "/pool-h1.cores/" in realised.objects["guests.h1.a"].applied["control_group"]
    assert series(sink, "pools.h1.cores", "cpu_share")


@pytest.mark.skipif(machines.missing() is not None, reason=str(machines.missing()))
def test_all_threads_of_a_virtual_machine_are_in_its_pool() -> None:
    outcome, realised, sink = played(echoes("qemu"))
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    pool = realised.objects["pools.h1.cores"]
    assert pool.read_back["h1.a"] == {"processors": pool.applied["processors"]}
    assert series(sink, "pools.h1.cores", "cpu")


KILLED = """
import sys, time
sys.path.insert(0, sys.argv[1])
import test_pools, testbed_world as worlds
from virtlab.testbed import Testbed
with Testbed().open(test_pools.plan_of("{cores: {cpus: 1, by: quota}}"), worlds.Patient()):
    print("built", flush=True)
    time.sleep(60)
"""


@by_root
def test_the_group_of_a_pool_is_swept_after_a_run_that_was_killed() -> None:
    before = sessions()
    argv = [sys.executable, "-c", KILLED, str(Path(__file__).parent)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as player:
        assert player.stdout is not None
        assert player.stdout.readline() == "built\n"
        assert len(sessions() - before) == 1
        player.kill()
    ledger.sweep()
    assert sessions() <= before
