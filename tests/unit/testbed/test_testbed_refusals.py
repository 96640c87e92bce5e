"""Everything that a machine cannot do is refused before anything is built, with the place, the reason and the cure."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from virtlab.plan import Plan
from virtlab.planner.timeline import plan_length_ns
from virtlab.testbed.kinds.findings import Findings
from virtlab.testbed.platforms.qemu.acceleration import FORCED
from virtlab.testbed.play.taints import clock_taint, switch_taints
from virtlab.testbed.refusals import capabilities, memory_refusals, refusals

GOLDEN = json.loads(
    (Path(__file__).parents[2] / "golden" / "plans" / "switched_network.json").read_text(encoding="utf-8")
)
HERE = Findings(
    world=None,
    qdiscs={"htb": None, "tbf": None, "pfifo": None, "bfifo": None, "netem": "unknown kind"},
    root=False,
    has_ipv6=True,
    switch_qdiscs=("fifo",),
)


def refused(change: Callable[[dict[str, Any]], None], found: Findings = HERE) -> list[str]:
    values = copy.deepcopy(GOLDEN)
    change(values)
    all_of_them = refusals(Plan.model_validate(values), found)
    assert all(refusal.reason and refusal.cure for refusal in all_of_them)
    return [refusal.path for refusal in all_of_them]


def put(path: str, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(values: dict[str, Any]) -> None:
        here = values
        *parents, last = path.split("/")
        for name in parents:
            here = here[int(name)] if isinstance(here, list) else here[name]
        here[int(last) if isinstance(here, list) else last] = value  # type: ignore[index]

    return change


@pytest.mark.parametrize(("share", "words"), [(0.0099, "less than 1 % of a CPU"), (0.01, None), (4.0, None)])
def test_a_share_of_a_cpu_that_the_kernel_would_not_take_is_refused(share: float, words: str | None) -> None:
    values = copy.deepcopy(GOLDEN)
    values["world"]["guests"]["a"]["cpu_quota_ratio"] = share
    found = refusals(Plan.model_validate(values), replace(HERE, root=True))
    told = [each.reason for each in found if each.path == "guests.a.cpu_quota_ratio"]
    assert told == ([f"the kernel holds no group to {words}"] if words else [])


def test_the_golden_plan_is_not_refused() -> None:
    assert refused(lambda values: None) == []


def test_an_ordinary_user_says_how_much_memory_a_machine_has_and_bounds_nothing_else() -> None:
    def machine(values: dict[str, Any]) -> None:
        values["world"]["guests"]["a"] |= {"platform": "qemu", "memory_bytes": 1 << 30}

    assert "guests.a.memory_bytes" not in refused(machine)

    def share(values: dict[str, Any]) -> None:
        machine(values)
        values["world"]["guests"]["a"]["cpu_quota_ratio"] = 0.5

    assert "guests.a.cpu_quota_ratio" in refused(share)


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (put("world/hosts/h1/at", "ssh"), "hosts.h1.at"),
        (put("world/guests/a/platform", "vm"), "guests.a.platform"),
        (put("world/guests/a/host", "h9"), "guests.a.host"),
        (put("world/guests/a/cpu_quota_ratio", 0.5), "guests.a.cpu_quota_ratio"),
        (put("world/guests/a/memory_bytes", 10**8), "guests.a.memory_bytes"),
        (put("world/guests/a/vnics/eth0/mtu_bytes", 20), "guests.a.vnics.eth0.mtu_bytes"),
        (put("world/guests/a/vnics/eth0/offloads", "default"), "guests.a.vnics.eth0.offloads"),
        (put("world/guests/b/vnics/eth0/mac", "02:00:00:00:00:01"), "guests.b.vnics.eth0.mac"),
        (put("world/vswitches/h1.br/kind", "ovs"), "vswitches.h1.br.kind"),
        (put("world/vswitches/h1.br/parameters", {"stp": True}), "vswitches.h1.br.parameters"),
        (put("world/vswitches/h1.br/uplinks", ["h1.up", "h1.up2"]), "vswitches.h1.br"),
        (put("world/services", {"store": {"kind": "fax", "on": ["a"]}}), "services.store.kind"),
        (put("world/services", {"store": {"kind": "store", "on": ["a"]}}), "services.store.ack"),
        (put("world/pools", {"h1.fast": {"host": "h1", "cpus": 1}}), "pools.h1.fast"),
        (put("world/links/h1-s1/rate_bit_per_s", 10**10), "links.h1-s1.rate_bit_per_s"),
        (put("world/links/h1-s1/realise", "netem"), "links"),
        (put("world/links/h1-s1/ends", ["h1.up", "s9.p1"]), "links.h1-s1"),
        (put("world/links/h1-s1/queue/ab/kind", "codel"), "links.h1-s1.queue.ab.kind"),
        (
            put("world/links/h1-s1/queue", {"ab": {"by": "virtlab"}, "ba": {"by": "kernel"}}),
            "links.h1-s1.queue.ab.by",
        ),
        (put("world/links/again", {"ends": ["s1.p8", "s2.p8"], "rate_bit_per_s": 10**8}), "links.again"),
        (put("world/links/s1-s2/ends", ["s1.p1", "s2.p1"]), "links.s1-s2"),
        (put("roles/probe/workload", "fax"), "roles.probe.workload"),
        (put("roles/probe/workload", "objects"), "roles.probe.to"),
        (put("roles/probe/to", "c"), "roles.probe.to"),
        (put("roles/probe/to", "a"), "roles.probe.to"),
        (put("world/guests/b/vnics/eth0/ip", ["fd00::2/64"]), "roles.probe"),
        (put("timeline/2/do", "migrate"), "timeline.stop.guest"),
        (put("timeline/2/do", "call"), "timeline.stop.service"),
        (put("timeline/2/role", "nobody"), "timeline.stop.role"),
        (put("timeline/3/after", {"event": "stop.finished"}), "timeline.drain.after"),
        (put("timeline/3/after", {"event": "nothing.done"}), "timeline.drain.after"),
        (
            put("timeline/3", {
                "id": "w", "do": "wait", "until": {"series": "x", "op": ">", "value": 1},
                "timeout_ns": 1, "on_timeout": "fail",
            }),
            "timeline.w.until",
        ),
        (put("timeline/3", {"id": "again", "do": "start", "role": "load"}), "timeline.again"),
        (put("windows/measured/to", "measure.over"), "windows.measured"),
        (put("collect/series", [{"source": "moon", "every_ns": 10**9}]), "collect.series.moon"),
        (put("collect/series", [{"source": "host.cpu", "every_ns": 10}]), "collect.series.host.cpu"),
        (put("collect/counters", ["stars"]), "collect.counters.stars"),
        (put("collect/packets", ["nobody"]), "collect.packets.nobody"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_where_it_stands(
    change: Callable[[dict[str, Any]], None], path: str
) -> None:
    assert path in refused(change)


BY_NETEM = (
    "load sch_netem, or take the lab VM's kernel: 'virtlab run FILE --in lab-vm', "
    "or simulate it: 'virtlab run FILE --backend simulator'"
)


@pytest.mark.parametrize(
    ("realise", "by", "kernel", "cure"),
    [
        ("auto", "auto", "unknown kind", f"write 'by: kernel', and {BY_NETEM}"),
        ("auto", "auto", None, "write 'by: kernel'"),
        ("auto", "virtlab", None, "write 'by: kernel'"),
        ("auto", "kernel", "unknown kind", BY_NETEM),
        ("auto", "kernel", None, None),
        ("soft_switch", "auto", None, "write 'realise: shaping'"),
        ("soft_switch", "virtlab", None, "write 'realise: shaping' and 'by: kernel'"),
        ("netem", "kernel", None, "write 'realise: shaping'"),
    ],
)
def test_a_distant_network_behind_a_link_is_led_to_a_kernel_that_has_it(
    realise: str, by: str, kernel: str | None, cure: str | None
) -> None:
    values = copy.deepcopy(GOLDEN)
    for link in values["world"]["links"].values():
        link["realise"] = realise
    values["world"]["links"]["h1-s1"]["queue"]["ab"] = {"kind": "netem", "by": by}
    found = refusals(Plan.model_validate(values), replace(HERE, qdiscs={**HERE.qdiscs, "netem": kernel}))
    told = {refusal.path: refusal.cure for refusal in found}
    assert told.get("links.h1-s1.queue.ab.kind") == cure


def test_links_by_a_netem_that_this_kernel_lacks_are_led_to_one_that_has_it() -> None:
    values = copy.deepcopy(GOLDEN)
    put("world/links/h1-s1/realise", "netem")(values)
    (refusal,) = (each for each in refusals(Plan.model_validate(values), HERE) if each.path == "links")
    assert refusal.cure == (
        "write 'realise: auto', load sch_netem, or take the lab VM's kernel: 'virtlab run FILE --in lab-vm'"
    )


def test_two_realisations_at_once_are_refused() -> None:
    def change(values: dict[str, Any]) -> None:
        put("world/links/h1-s1/realise", "shaping")(values)
        put("world/links/s1-s2/realise", "soft_switch")(values)

    assert refused(change) == ["links"]


@pytest.mark.slow
def test_a_bridge_has_so_many_ports() -> None:
    def change(values: dict[str, Any]) -> None:
        for number in range(1100):
            guest = copy.deepcopy(GOLDEN["world"]["guests"]["a"])
            guest["vnics"]["eth0"] |= {"mac": f"02:00:00:01:{number >> 8:02x}:{number & 255:02x}", "ip": []}
            values["world"]["guests"][f"x{number}"] = guest

    assert refused(change) == ["vswitches.h1.br"]


def test_root_may_bound_guests_and_netem_is_taken_where_the_kernel_has_it() -> None:
    assert refused(put("world/guests/a/cpu_quota_ratio", 0.5), replace(HERE, root=True)) == []
    with_netem = replace(HERE, qdiscs={**HERE.qdiscs, "netem": None})
    assert with_netem.machine.link == "netem"
    assert refused(put("world/links/h1-s1/rate_bit_per_s", 10**10), with_netem) == []


def test_a_machine_without_namespaces_refuses_everything_with_the_cure() -> None:
    nowhere = replace(HERE, world=("user namespaces are switched off here", "run as root"))
    assert refused(lambda values: None, nowhere) == ["machine"]
    said = capabilities(nowhere, {})
    assert all(reason is not None for reason in said.platforms.values())
    assert capabilities(HERE, {}).links["soft_switch"] is None


def test_the_length_of_a_timeline_is_what_its_waits_and_roles_say() -> None:
    plan = Plan.model_validate(GOLDEN)
    assert plan_length_ns(plan) == 500_000_000 + 100 * 10_000_000 + 200_000_000


def switch_stats(**port: int) -> dict[str, Any]:
    return {
        "lateness": {"count": 1000, "late_share": 0.0, "p99_ns": 9000},
        "ports": {"h1.up": {"ring_drops": 0, "oversize": 0, "bad_checksum": 0, **port}},
        "clock_steps": 0,
    }


def test_a_switch_that_kept_up_taints_nothing() -> None:
    assert switch_taints(switch_stats()) == ([], [])
    assert switch_taints({}) == ([], [])


def test_late_frames_and_ring_drops_taint_and_unfinished_frames_fail() -> None:
    late = switch_stats()
    late["lateness"]["late_share"] = 0.02
    assert "200 us late" in str(switch_taints(late)[0][0])
    assert "too slow" in str(switch_taints(switch_stats(ring_drops=3))[0][0])
    assert "offloads off" in str(switch_taints(switch_stats(oversize=1))[1][0])
    assert "checksum" in str(switch_taints(switch_stats(bad_checksum=1))[1][0])


def test_a_step_of_the_realtime_clock_taints_and_its_drift_does_not() -> None:
    before = {"raw_ns": 0, "realtime_ns": 10**18}
    assert clock_taint(before, {"raw_ns": 10**10, "realtime_ns": 10**18 + 10**10 + 100_000}) == []
    assert (
        "stepped by 50.0 ms"
        in clock_taint(before, {"raw_ns": 10**10, "realtime_ns": 10**18 + 10**10 + 50_000_000})[0].text
    )


def with_memory(*guests_bytes: int | None) -> Plan:
    guests = {
        f"g{number}": {"platform": "qemu", "host": "h", "vnics": {}, **({"memory_bytes": own} if own else {})}
        for number, own in enumerate(guests_bytes)
    }
    guests["beside"] = {"platform": "namespace", "host": "h", "vnics": {}, "memory_bytes": 1 << 50}
    return Plan.model_validate({"world": {"hosts": {"h": {}}, "guests": guests}})


def test_virtual_machines_with_more_memory_together_than_the_machine_has_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(FORCED, "tcg")
    (only,) = memory_refusals(with_memory(1 << 30, 2 << 30, None), 3 << 30)
    assert only.path == "guests.g1.memory_bytes"
    assert only.reason == "guests take 3.281 GiB of memory together, and this machine has 3"
    assert list(memory_refusals(with_memory(1 << 30, 2 << 30, None), 4 << 30)) == []
