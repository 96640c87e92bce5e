"""Series of existing hosts: by their own kernels, sent after the traffic; this machine's are not passed off as
theirs.
"""

from __future__ import annotations

import platform
from collections.abc import Sequence
from pathlib import Path

import far_world as far_worlds
import numpy as np
import pytest
import testbed_world as worlds
from test_existing_hosts import opened, plan_of

from virtlab.plan import Columns, Plan, SeriesRequest, Trial
from virtlab.testbed import Testbed
from virtlab.testbed.build import idle

pytestmark = [
    pytest.mark.skipif(far_worlds.missing() is not None, reason=str(far_worlds.missing())),
    pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing())),
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("reached"),
]
EVERY_NS = 50_000_000
COUNT = 100
# What every Linux tells of itself: series, the entity below the guest, a metric.
TOLD = (
    ("host.cpu", "cpu", "cpu"),
    ("host.cpu", "cpu0", "steal"),
    ("memory", "memory", "memory_available"),
    ("softnet", "cpu0", "softnet_processed"),
    ("qdisc", "vnics.eth0", "backlog_packets"),
    ("vnics", "vnics.eth0", "received_bytes"),
)


def sampled(plan: Plan, *sources: str) -> Plan:
    """The Plan with series, and an interface whose kernel queues something."""
    wanted = tuple(SeriesRequest(source=source, every_ns=EVERY_NS) for source in sources)
    collect = plan.collect.model_copy(update={"series": wanted, "counters": ("vnics", "softnet", "cpu")})
    return plan.model_copy(update={"collect": collect})


def series(blocks: Sequence[tuple[str, str, Columns]]) -> dict[tuple[str, str], list[tuple[int, float]]]:
    """(entity, metric) -> instants and values."""
    found: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for _, schema, columns in blocks:
        if schema == "series/1":
            for t_ns, entity, metric, value in zip(
                columns["t_ns"], columns["entity"], columns["metric"], columns["value"], strict=True
            ):
                found.setdefault((str(entity), str(metric)), []).append((int(t_ns), float(value)))
    return found


@pytest.fixture
def _queues(far: far_worlds.FarHosts) -> None:
    for number, name in enumerate(far_worlds.NAMES, start=1):
        far.run(name, "tc", "qdisc", "replace", "dev", f"lan{number}", "root", "pfifo", "limit", "1000")


@pytest.mark.usefixtures("_queues")
@pytest.mark.parametrize("user", ["root", far_worlds.USER])
def test_series_of_existing_hosts_are_their_own_and_none_is_this_machines(user: str) -> None:
    sources = ("host.cpu", "guest.cpu", "memory", "softnet", "qdisc", "vnics")
    plan = sampled(plan_of(f"{user}@host-a", f"{user}@host-b", count=COUNT, protocol="udp"), *sources)
    assert Testbed().check(plan) == []
    with opened(plan) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        found = series(sink.blocks)
        again = worlds.MemorySink()
        assert session.run(Trial("t1", 2), again).status in {"ok", "tainted"}
    begin, end = outcome.windows["measured"]
    slack_ns = max(outcome.clocks[name]["bound_ns"] for name in ("a", "b")) + 1_000_000
    for name in ("a", "b"):
        for _, entity, metric in TOLD:
            rows = found.get((f"guests.{name}.{entity}", metric), [])
            assert len(rows) > 1, (name, entity, metric, sorted(found))
            # Its instants are on the run's clock, and it went on while the role played.
            instants = np.array([t_ns for t_ns, _ in rows])
            assert (np.diff(instants) > 0).all()
            assert ((instants >= begin - slack_ns) & (instants <= end + slack_ns)).any()
        # Its probe, which is all that runs there for the guest, took some time, and no more than one processor.
        assert found[f"guests.{name}", "cpu"], sorted(found)
        assert found[f"guests.{name}", "run_queue_delay"]
        assert all(value > 0 for _, value in found[f"guests.{name}.memory", "memory_available"])
        carried = [value for _, value in found[f"guests.{name}.vnics.eth0", "received_bytes"]]
        assert carried == sorted(carried)
        assert carried[-1] > carried[0], "the role's echoes came through it"
    # So it is with counters.
    counted = {entity for entity, _ in sink.counters("end") if "/" not in entity}
    assert {f"guests.{name}.softnet.cpu0" for name in ("a", "b")} <= counted
    assert [entity for entity in counted if not entity.startswith("guest")] == []
    ours = [entity for entity, _ in found if not entity.startswith("guests.")]
    assert [entity for entity in ours if entity.split(".")[0] in {"host", "memory", "soft_switch"}] == []
    assert {entity.split(".")[1] for entity, _ in found if entity.startswith("guests.")} == {"a", "b"}
    assert series(again.blocks).keys() == found.keys(), "series begin anew with every trial"


def test_samples_wait_at_existing_hosts_until_the_role_is_over() -> None:
    """Their way here is the network that is measured."""
    taken: list[int] = []

    class NotingSink(worlds.MemorySink):
        def block(self, stream: str, schema: str, columns: Columns) -> None:
            super().block(stream, schema, columns)
            if schema == "series/1":
                taken.append(len([event for event in self.events if event.what == "measure.finished"]))

    with opened(sampled(plan_of(count=COUNT), "host.cpu")) as session:
        assert session.run(Trial("t0", 1), NotingSink()).status in {"ok", "tainted"}
    assert taken
    assert set(taken) == {1}


def test_what_an_existing_host_is_stands_in_its_read_back_and_in_the_conditions(
    far: far_worlds.FarHosts,
) -> None:
    with opened(plan_of()) as session:
        for name in ("a", "b"):
            told = session.realised.objects[f"guests.{name}"].read_back
            # The far hosts share this machine's kernel and processors, so these are known.
            assert told["kernel"] == far.run(name, "uname", "-r").strip() == platform.release()
            assert told["kernel_build"] == far.run(name, "uname", "-v").strip()
            lines = Path("/proc/cpuinfo").read_text().splitlines()
            models = {line.partition(":")[2].strip() for line in lines if line.startswith("model name")}
            assert not models or told["cpu"] in models
            assert told["cpus"] == int(far.run(name, "getconf", "_NPROCESSORS_ONLN"))
            assert told.get("clocksource", idle.NOT_OFFERED) == idle.conditions()["clocksource"]
            for key in ("kernel", "cpus"):
                assert session.realised.versions[f"guests.{name}.{key}"] == str(told[key])


def test_threads_of_virtual_machines_are_refused_where_every_guest_exists_already() -> None:
    plan = sampled(plan_of(), "guest.vcpus")
    (refusal,) = Testbed().check(plan)
    assert refusal.path == "collect.series.guest.vcpus"
    assert "exists already" in refusal.reason
    assert "host.cpu" in refusal.cure
