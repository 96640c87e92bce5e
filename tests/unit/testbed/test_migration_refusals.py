"""A guest that cannot be moved is refused before anything is built, with the place, the reason and the cure."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.unit.testbed.test_testbed_refusals import HERE

from virtlab.plan import Plan
from virtlab.simulator.moves import refused as simulator_refused
from virtlab.testbed.build.lower import lower
from virtlab.testbed.build.moves import refused
from virtlab.testbed.build.ports import as_built, port_refusals
from virtlab.testbed.platforms.qemu.acceleration import FORCED
from virtlab.testbed.platforms.qemu.command import Machine
from virtlab.testbed.play.series import sampling_refusals
from virtlab.testbed.queues.applied import QUEUEING
from virtlab.testbed.refusals import memory_refusals
from virtlab.testbed.steps.operations import (
    AddressAdd,
    BridgePortSet,
    ForwardingAdd,
    LinkSet,
    QdiscAdd,
    SysctlSet,
    TapAdd,
)
from virtlab.testbed.vswitches.ovs_rules import OvsBridge

GOLDEN = json.loads((Path(__file__).parents[2] / "golden" / "plans" / "live_migration.json").read_text())
Change = Callable[[dict[str, Any]], None]


def plan(*changes: Change) -> Plan:
    """The golden Plan, as this testbed plays it, changed."""
    values = copy.deepcopy(GOLDEN)
    values["world"]["arp"] = "live"
    move(over="machine", timeout_ns=30 * 10**9)(values)
    for change in changes:
        change(values)
    return Plan.model_validate(values)


def move(**fields: Any) -> Change:
    def change(values: dict[str, Any]) -> None:
        for key, value in fields.items():
            if value is None:
                values["timeline"][1].pop(key, None)
            else:
                values["timeline"][1][key] = value

    return change


def guest(**fields: Any) -> Change:
    return lambda values: values["world"]["guests"]["v"].update(fields)


def vnic(**fields: Any) -> Change:
    return lambda values: values["world"]["guests"]["v"]["vnics"]["eth0"].update(fields)


def world(**fields: Any) -> Change:
    return lambda values: values["world"].update(fields)


def bridge(**fields: Any) -> Change:
    return lambda values: values["world"]["vswitches"]["h2.br"].update(fields)


def client(**fields: Any) -> Change:
    return lambda values: values["roles"]["client"].update(fields)


def collect(**fields: Any) -> Change:
    return lambda values: values["collect"].update(fields)


def more(**action: Any) -> Change:
    return lambda values: values["timeline"].append({"id": "more", "guest": "v", **action})


def on_disk(kind: str | None, **action: Any) -> Change:
    """It has a disk that moves along."""

    def change(values: dict[str, Any]) -> None:
        values["world"]["guests"]["v"]["disk"] = {"size_bytes": 1 << 20}
        move(disk=kind, **action)(values)

    return change


def again(**action: Any) -> Change:
    """It moves on, or back."""
    fields = {"to": "h1", "timeout_ns": 10**9, "after": {"event": "settle.done"}, **action}
    return more(do="migrate", **fields)


def test_the_plan_as_it_is_played_is_not_refused() -> None:
    assert list(refused(plan())) == []
    assert list(refused(plan(move(mode=None, over=None)))) == []
    assert list(refused(plan(again()))) == []
    assert list(refused(plan(on_disk(None)))) == []
    assert list(refused(plan(on_disk("shared", mode="hot", downtime_limit_ns=None)))) == []
    assert list(refused(plan(on_disk("mirrored")))) == []
    assert list(refused(plan(again(to="h3")))) == []


@pytest.mark.parametrize(
    ("change", "path", "words"),
    [
        (move(mode="warm"), "timeline.go.mode", "write 'mode: pre_copy | hot | post_copy | cold'"),
        (move(mode="cold", rounds_limit=3), "timeline.go.rounds_limit", "'cold' has no rounds"),
        (move(mode="cold", connections=2), "timeline.go.connections", "is not copied"),
        (move(mode="cold", compression="zlib"), "timeline.go.compression", "is not copied"),
        (move(mode="post_copy"), "timeline.go.mode", "sysctl vm.unprivileged_userfaultfd=1"),
        (move(mode="post_copy", connections=2), "timeline.go.connections", "write 'mode: pre_copy'"),
        (move(mode="hot", rounds_limit=3), "timeline.go.rounds_limit", "'hot' has no rounds"),
        (move(mode="hot", auto_converge=True), "timeline.go.auto_converge", "'hot' has no rounds"),
        (move(mode="hot", downtime_limit_ns=10**8), "timeline.go.downtime_limit", "'hot' has no rounds"),
        (move(recover_after_ns=10**9), "timeline.go.recover_after", "write 'mode: post_copy'"),
        (move(connections=17), "timeline.go.connections", "a number from 2 to 16"),
        (move(compression="zstd"), "timeline.go.compression", "'connections: 2'"),
        (move(compression="xbzrle", connections=2), "timeline.go.compression", "remove 'connections'"),
        (move(over="network"), "timeline.go.over", "no address of the guests' network is left for h1"),
        (move(timeout_ns=None), "timeline.go.timeout", "write 'timeout: 30 s'"),
        (move(timeout_ns=60 * 10**9), "timeline.go.timeout", "50 s at most"),
        (move(to="h1"), "timeline.go.to", "'h1' is not another host"),
        (move(to="h9"), "timeline.go.to", "write 'to' with one of h2, h3"),
        (move(to=None), "timeline.go.to", "no host is named"),
        (guest(platform="namespace"), "timeline.go.guest", "write 'platform: qemu'"),
        (guest(image="disk.qcow2"), "timeline.go.guest", "take a guest without 'image'"),
        (move(disk="mirrored"), "timeline.go.disk", "v has no disk"),
        (on_disk("borrowed"), "timeline.go.disk", "write 'shared' or 'mirrored'"),
        (on_disk("mirrored", mode="cold"), "timeline.go.disk", "write 'disk: shared'"),
        (on_disk("mirrored", mode="post_copy"), "timeline.go.disk", "which post-copy leaves first"),
        (guest(pool="h1.some"), "timeline.go.pool", "give h2 'pools' and write which"),
        (bridge(learning=False), "timeline.go.guest.eth0", "let both learn"),
        (client(**{"from": "v", "to": "c"}), "timeline.go.guest", "which stands still"),
        (
            client(workload="udp_stream", payload_bytes=64, rate_bit_per_s=10**6, interval_ns=None),
            "timeline.go.guest",
            "which stands still",
        ),
        (more(do="migrate", to="h3", timeout_ns=10**9), "timeline.more.after", "write 'after: go.finished'"),
        (
            more(do="migrate", to="h3", timeout_ns=10**9, after={"event": "go.started"}),
            "timeline.more.after",
            "may still be moving ('go')",
        ),
        (
            more(do="migrate", to="h3", timeout_ns=10**9, after={"any": ["go.finished", "load.started"]}),
            "timeline.more.after",
            "may still be moving ('go')",
        ),
        (again(to="h2"), "timeline.more.to", "write 'to' with one of h1, h3"),
        (again(over="network"), "timeline.more.over", "write 'over: machine'"),
        (more(do="exec", argv=["true"]), "timeline.go.guest", "'more' asks something of it"),
        (collect(series=[{"source": "memory", "every_ns": 10**8}]), "collect.series.memory", "take it out"),
        (collect(counters=["guests"]), "collect.counters.guests", "take it out"),
    ],
)
def test_what_is_not_carried_over_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, change: Change, path: str, words: str
) -> None:
    (tmp_path / "unprivileged_userfaultfd").write_text("0\n")
    monkeypatch.setattr("virtlab.testbed.build.moves.USERFAULTS", tmp_path / "unprivileged_userfaultfd")
    found = [each for each in refused(plan(change)) if each.path == path]
    assert found, list(refused(plan(change)))
    assert any(words in f"{each.reason}; {each.cure}" for each in found), found


def processors(**cpus: int) -> Change:
    """Hosts with processors of their own, and one of them with a pool of `pool`, if that is said."""

    def change(values: dict[str, Any]) -> None:
        pool = cpus.pop("pool", None)
        for name, count in cpus.items():
            values["world"]["hosts"][name]["cpus"] = count
            if pool is not None:
                values["world"].setdefault("pools", {})[f"{name}.p"] = {"host": name, "cpus": pool}

    return change


@pytest.mark.parametrize(
    ("change", "wrong"),
    [
        (lambda: processors(h1=1), [("timeline.go.to", "give both hosts 'cpus', or neither")]),
        (lambda: processors(h2=1), [("timeline.go.to", "give both hosts 'cpus', or neither")]),
        (lambda: processors(h1=1, h2=2), []),
        (
            lambda: processors(h1=2, h2=2, pool=2),
            [
                ("timeline.go.guest", "write more 'cpus' of h1, or make its pools smaller"),
                ("timeline.go.guest", "write more 'cpus' of h2, or make its pools smaller"),
            ],
        ),
        (lambda: processors(h1=3, h2=3, pool=2), []),
    ],
)
def test_both_backends_refuse_the_same_places_on_processors(
    change: Callable[[], Change], wrong: list[tuple[str, str]]
) -> None:
    assert [(each.path, each.cure) for each in refused(plan(change()))] == wrong
    assert [(each.path, each.cure) for each in simulator_refused(plan(change()))] == wrong


def pooled(first: str | None = "h1.p", pools: dict[str, Any] | None = None, **action: Any) -> Change:
    """Hosts with a pool of one processor each, the guest in that of its first host, and its move into another."""

    def change(values: dict[str, Any]) -> None:
        own = {f"{host}.p": {"host": host, "cpus": 1} for host in ("h1", "h2", "h3")}
        values["world"]["pools"] = own | (pools or {})
        for name, (host, pool) in {"w": ("h2", "h2.p"), "x": ("h1", "h1.p"), "y": ("h3", "h3.p")}.items():
            values["world"]["guests"][name] = {
                "platform": "namespace",
                "host": host,
                "vnics": {},
                "pool": pool,
            }
        values["world"]["guests"]["v"]["pool"] = first
        move(**action)(values)

    return change


QUOTA = {"h2.q": {"host": "h2", "cpus": 1, "by": "quota"}}


@pytest.mark.parametrize(
    ("changes", "wrong"),
    [
        ([pooled(pool="h2.p")], None),
        ([pooled()], "write 'pool: p | none'"),
        ([pooled(pool="h2.other")], "h2 has no pool 'other'; write 'pool: p | none'"),
        ([pooled(pool="h3.p")], "h2 has no pool 'h3.p'"),
        ([pooled(pool="none")], "let it be in a pool of both"),
        ([pooled(None, pool="h2.p")], "let it be in a pool of both"),
        ([pooled(None)], None),
        ([pooled(pool="none"), processors(h2=2)], None),
        ([pooled(pool="none"), processors(h2=1)], "pools of h2 leave it no processor there"),
        ([guest(cpu_quota_ratio=1.5), pooled(pool="h2.p")], "a share of 1.5 processors in a pool that has 1"),
        ([pooled(pool="h2.p"), again(pool="h1.p")], None),
        ([pooled(pool="h2.p"), again()], "it is in pool 'h2.p' of the host that it leaves"),
        ([pooled(pool="h2.p"), again(pool="none")], "write 'pool: p', as there"),
        ([pooled(pool="h2.p"), again(to="h3", pool="h3.p")], None),
    ],
)
def test_an_action_says_in_which_pool_a_guest_is_at_its_destination(
    changes: list[Change], wrong: str | None
) -> None:
    for backend in (refused, simulator_refused):
        found = [f"{each.reason}; {each.cure}" for each in backend(plan(*changes))]
        assert len(found) == (wrong is not None), found
        assert wrong is None or wrong in found[0]


def test_a_pool_that_is_a_control_group_is_played_by_the_simulator_alone() -> None:
    for change in (
        pooled(pools=QUOTA, pool="h2.q"),
        pooled(pools={"h1.p": {"host": "h1", "cpus": 1, "by": "quota"}}, pool="h2.p"),
    ):
        (found,) = refused(plan(change))
        assert found.path == "timeline.go.pool"
        assert "write 'by: affinity'" in found.cure
        assert list(simulator_refused(plan(change))) == []


def cold() -> Change:
    return move(mode="cold", downtime_limit_ns=None, compression=None, connections=None)


def test_who_boots_anew_answers_echoes_again_and_nothing_else() -> None:
    assert list(refused(plan(cold()))) == []
    connects = {"workload": "tcp_rr", "request_bytes": 1, "response_bytes": 1, "interval_ns": None}

    def of_connections(values: dict[str, Any]) -> None:
        values["roles"]["client"] = {"from": "c", "to": "v", **connects}

    assert any("end with its kernel" in each.reason for each in refused(plan(cold(), of_connections)))

    def writer(values: dict[str, Any]) -> None:
        memory = {"rate_byte_per_s": 10**6, "working_set_bytes": 1 << 20}
        values["roles"]["memory"] = {"workload": "dirty", "from": "v", **memory}

    (found,) = refused(plan(cold(), writer))
    assert "ends when it is shut down" in found.reason
    assert found.cure.startswith("write 'mode: pre_copy'")


def serving(*calls: dict[str, Any]) -> Change:
    """It is the active server of a cluster; `calls`: what the timeline asks of that."""

    def change(values: dict[str, Any]) -> None:
        app = {
            "kind": "demand_server",
            "on": ["v", "c"],
            "active": "v",
            "demand_ns": 10**6,
            "ready": {"port": 7000},
        }
        values["world"]["services"] = {"app": app}
        values["timeline"] += calls

    return change


def test_a_service_moves_along_but_is_asked_nothing_and_ends_where_its_guest_is_shut_down() -> None:
    assert list(refused(plan(serving()))) == []
    other = {"id": "ask", "do": "call", "service": "app", "op": "restart", "args": {"guest": "c"}}
    assert list(refused(plan(serving(other)))) == []
    for asks in (
        {"id": "ask", "do": "call", "service": "app", "op": "restart"},
        {"id": "ask", "do": "call", "service": "app", "op": "fail", "args": {"guest": "v"}},
        {
            "id": "ask",
            "do": "wait",
            "until": {"call": "app.ready"},
            "timeout_ns": 10**9,
            "on_timeout": "fail",
        },
    ):
        (found,) = refused(plan(serving(asks)))
        assert found.path == "timeline.go.guest"
        assert "'ask' asks something of 'app'" in found.reason
    (found,) = refused(plan(cold(), serving()))
    assert "the service 'app' runs in it, and ends when it is shut down" in found.reason


def test_who_boots_at_another_host_says_where_it_is_as_its_link_comes_up() -> None:
    def inside(*changes: Change) -> list[object]:
        return [step.op for step in lower(plan(*changes)).machines["v"].steps]

    found = inside(cold())
    announced = next(
        at for at, op in enumerate(found) if isinstance(op, SysctlSet) and "arp_notify" in op.path
    )
    assert isinstance(found[announced + 1], AddressAdd), "it has an address before its link comes up"
    for other in (inside(), inside(cold(), world(arp="static"))):
        assert not [op for op in other if isinstance(op, SysctlSet) and "arp_notify" in op.path]


def test_the_destination_of_a_cold_move_waits_for_nobodys_memory() -> None:
    fields: dict[str, Any] = {
        "name": "v", "kernel": "k", "initramfs": "i", "accelerator": "tcg", "vcpus": 1, "memory_bytes": 1 << 27,
        "ports": [], "agent": 3, "monitor": 4, "held": True,
    }  # fmt: skip
    words = Machine(**fields).argv()
    assert "-S" in words
    assert "-incoming" not in words


def test_a_dirty_rate_is_sampled_of_machines_alone_and_for_a_second() -> None:
    asked = [{"source": "guest.dirty_rate", "every_ns": 10**9}]
    assert list(sampling_refusals(plan(collect(series=asked)))) == []
    (found,) = sampling_refusals(plan(collect(series=asked), guest(platform="namespace")))
    assert found.path == "collect.series.guest.dirty_rate"
    assert "platform qemu" in found.cure
    asked[0]["every_ns"] = 10**8
    (found,) = sampling_refusals(plan(collect(series=asked)))
    assert "write '1 s' or more" in found.cure


def test_post_copy_depends_on_the_kernel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("virtlab.testbed.build.moves.USERFAULTS", tmp_path / "here")
    wanted = plan(move(mode="post_copy", downtime_limit_ns=None))
    (found,) = refused(wanted)
    assert "no userfaultfd" in found.reason
    (tmp_path / "here").write_text("1\n")
    assert list(refused(wanted)) == []


def test_a_guest_may_write_to_its_memory_while_it_moves() -> None:
    def writer(values: dict[str, Any]) -> None:
        memory = {"rate_byte_per_s": 10**6, "working_set_bytes": 1 << 20}
        values["roles"]["memory"] = {"workload": "dirty", "from": "v", **memory}

    assert list(refused(plan(writer))) == []


def test_fixed_entries_change_when_the_guest_is_there() -> None:
    lowered = lower(plan(world(arp="static")))
    leg = lowered.machines["v"].legs["go"]
    changed = [
        (step.op.namespace, step.op.link, step.op.mac)
        for step in leg.moved
        if isinstance(step.op, ForwardingAdd)
    ]
    mac = plan().world.guests["v"].vnics["eth0"].mac
    tap = leg.there["eth0"]
    assert sorted(changed) == sorted(
        [("host:h1", lowered.uplinks["h1.up"].link, mac), (tap.namespace, tap.link, mac)]
    )
    assert lowered.soft_switch is not None
    before = lowered.soft_switch.forwarding or {}
    assert leg.relocated.keys() == before.keys()
    for switch, entries in leg.relocated.items():
        assert list(entries) == [mac]
        assert entries[mac] != before[switch][mac]


def test_rules_of_open_vswitch_change_when_the_guest_is_there() -> None:
    programs = {"h1.br": {"kind": "ovs-netdev"}, "h2.br": {"kind": "ovs-netdev"}}

    def ovs(values: dict[str, Any]) -> None:
        for name, fields in programs.items():
            values["world"]["vswitches"][name].update(fields)

    wanted = plan(ovs, world(arp="static"), vnic(isolated=True))
    assert list(refused(wanted)) == []
    lowered = lower(wanted)
    inside, mac = lowered.machines["v"], wanted.world.guests["v"].vnics["eth0"].mac
    before = lowered.vswitches["h1.br"], lowered.vswitches["h2.br"]
    assert all(isinstance(each, OvsBridge) for each in before)
    leg = inside.legs["go"]
    tap = leg.there["eth0"].link
    assert leg.interfaces["h2.br"] == {mac: tap}
    (towards,) = leg.interfaces["h1.br"].values()
    source, destination = (each for each in before if isinstance(each, OvsBridge))
    assert destination.port(tap).isolated
    assert source.addresses[mac] == inside.taps["eth0"].link, "until it has moved"
    assert towards != source.addresses[mac]
    assert not leg.moved


def test_a_port_is_isolated_at_the_destination_too() -> None:
    lowered = lower(plan(vnic(isolated=True)))
    there = lowered.machines["v"].legs["go"].there["eth0"]
    rules = [step.op for step in lowered.steps if isinstance(step.op, BridgePortSet)]
    (found,) = [op for op in rules if (op.namespace, op.link) == (there.namespace, there.link)]
    assert found.rules.isolated


QUEUED = vnic(port_rate_bit_per_s=5 * 10**7, queue={"kind": "fifo", "limit_packets": 20, "by": "kernel"})


def test_the_queue_of_its_port_stands_at_the_destination_beforehand() -> None:
    assert list(refused(plan(QUEUED))) == []
    lowered = lower(plan(QUEUED))
    inside = lowered.machines["v"]
    ports = [inside.taps["eth0"], inside.legs["go"].there["eth0"]]
    queueing = [step.op for step in lowered.steps if isinstance(step.op, QUEUEING)]
    here, there = (
        [op for op in queueing if (op.namespace, op.link) == (at.namespace, at.link)] for at in ports
    )
    assert [type(op) for op in here] == [type(op) for op in there]
    assert any(isinstance(op, QdiscAdd) for op in there)
    noted = {name: (queue.namespace, queue.link) for (name, _), queue in lowered.queues.items()}
    assert [noted[name] for name in ("v.eth0", "v.eth0@h2")] == [(at.namespace, at.link) for at in ports]


def test_open_vswitch_queues_at_both_ports_by_records_of_their_own() -> None:
    def ovs(values: dict[str, Any]) -> None:
        for name in ("h1.br", "h2.br"):
            values["world"]["vswitches"][name]["kind"] = "ovs-netdev"

    lowered = lower(plan(ovs, QUEUED))
    inside = lowered.machines["v"]
    for name, at in (("h1.br", inside.taps["eth0"]), ("h2.br", inside.legs["go"].there["eth0"])):
        switch = lowered.vswitches[name]
        assert isinstance(switch, OvsBridge)
        assert switch.qos(at.link) is not None
    assert {name for name, _ in lowered.queues} == {"v.eth0", "v.eth0@h2"}


OURS = vnic(port_rate_bit_per_s=5 * 10**7, queue={"kind": "fifo", "limit_packets": 20, "by": "virtlab"})


def test_a_port_of_the_soft_switch_waits_at_the_destination_before_its_tap() -> None:
    wanted = plan(OURS, world(arp="static"))
    assert [each for each in port_refusals(wanted, HERE) if "moves" in each.reason] == []
    built = as_built(wanted, "soft_switch")
    assert list(refused(built)) == []
    lowered = lower(built)
    request, inside = lowered.soft_switch, lowered.machines["v"]
    assert request is not None
    ports = {name: link["ends"] for name, link in request.links.items() if name.startswith("v.eth0")}
    assert set(ports) == {"v.eth0", "v.eth0@h2"}
    here, there = inside.taps["eth0"], inside.legs["go"].there["eth0"]
    taps = [step.op for step in lowered.steps if isinstance(step.op, TapAdd)]
    made = {(op.namespace, op.name): op.master for op in taps}
    mac = wanted.world.guests["v"].vnics["eth0"].mac
    behind = {name: lowered.uplinks[f"{name}.end"] for name in ports}
    assert made[here.namespace, here.link] != made[there.namespace, there.link]
    changed = [
        (step.op.namespace, step.op.link)
        for step in inside.legs["go"].moved
        if isinstance(step.op, ForwardingAdd) and step.op.mac == mac
    ]
    # h1 sends on to its wire, h2 to its port, and what lies behind both ports knows where the tap is.
    assert sorted(changed) == sorted(
        (at.namespace, at.link)
        for at in (
            lowered.uplinks["h1.up"], lowered.uplinks["v.eth0@h2.port"], there, behind["v.eth0"],
        )
    )  # fmt: skip
    assert not lowered.queues, "the kernel queues at none of both"


def test_a_port_of_the_kernel_and_one_of_the_soft_switch_are_each_at_their_host() -> None:
    def switched_there(values: dict[str, Any]) -> None:
        queue = {"kind": "fifo", "limit_packets": 20, "by": "virtlab"}
        own = values["world"]["guests"]["v"]["vnics"]["eth0"]
        own["there"] = {"h2": {"port_rate_bit_per_s": 10**7, "queue": queue}}

    built = as_built(plan(QUEUED, switched_there, vnic(pushback_bit_per_s=10**9)), "soft_switch")
    assert list(refused(built)) == [], "the wires of both hosts hold it back alike"
    lowered = lower(built)
    assert {name for name, _ in lowered.queues} == {"v.eth0"}
    assert lowered.soft_switch is not None
    assert "v.eth0@h2" in lowered.soft_switch.links
    assert "v.eth0" not in lowered.soft_switch.links


def test_what_holds_its_frames_back_is_the_same_at_both_ends() -> None:
    def pushback(**hosts: str) -> Change:
        def change(values: dict[str, Any]) -> None:
            for name, value in hosts.items():
                values["world"]["hosts"][name]["pushback"] = value

        return change

    def slower(values: dict[str, Any]) -> None:
        (link,) = [each for each in values["world"]["links"].values() if "h2.up" in each["ends"]]
        link["rate_bit_per_s"] //= 10

    (found,) = refused(plan(pushback(h1="uplink")))
    assert (
        found.reason
        == "guests behind 'h1.br' share the queue of its wire, and behind 'h2.br' they share none"
    )
    (found,) = refused(plan(pushback(h2="uplink")))
    assert "write one 'pushback'" in found.cure
    assert list(refused(plan(pushback(h1="uplink", h2="uplink"), slower))) == []
    held = vnic(pushback_bit_per_s=10**9)
    assert list(refused(plan(held))) == []
    (found,) = refused(plan(held, slower))
    assert "at the rate of the wire of 'h1.br'" in found.reason


def test_another_try_that_goes_elsewhere_leaves_no_one_host_to_move_from() -> None:
    def tried(to: str) -> Change:
        fields = {"do": "migrate", "guest": "v", "timeout_ns": 10**9}
        tries = {"id": "tries", "to": to, "after": {"event": "go.failed"}, **fields}
        on = {"id": "on", "to": "h1", "after": {"any": ["go.finished", "tries.finished"]}, **fields}
        return lambda values: values["timeline"].extend([tries, on])

    assert list(refused(plan(tried("h2")))) == []
    (found,) = refused(plan(tried("h3")))
    assert (found.path, found.cure) == ("timeline.on.after", "let another try have the same 'to'")
    assert "v is at h2 or h3 then" in found.reason


def test_memory_is_needed_at_both_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(FORCED, "tcg")
    one = (96 + 64) << 20  # of the guest, and of QEMU itself
    assert list(memory_refusals(plan(), 2 * one)) == []
    (found,) = memory_refusals(plan(), 2 * one - 1)
    assert found.path == "guests.v.memory_bytes"


def test_the_destination_is_built_with_the_world() -> None:
    lowered = lower(plan())
    steps = [step for step in lowered.steps if step.because == "timeline.go"]
    taps = [step.op for step in steps if isinstance(step.op, TapAdd)]
    assert [(tap.namespace, tap.master) for tap in taps] == [("host:h2", "br")]
    assert lowered.machines["v"].legs["go"].there["eth0"].link == taps[0].name
    ups = [(step.op.namespace, step.op.link) for step in steps if isinstance(step.op, LinkSet)]
    assert ups == [("guest:v", "lo"), ("host:h2", taps[0].name)]
    assert not [step for step in lower(without_move()).steps if step.because.startswith("timeline")]


def without_move() -> Plan:
    values = copy.deepcopy(GOLDEN)
    values["world"]["arp"] = "live"
    values["timeline"] = values["timeline"][:1]
    values["windows"] = {}
    return Plan.model_validate(values)


def test_a_destination_is_the_same_machine_that_waits() -> None:
    fields: dict[str, Any] = {
        "name": "v", "kernel": "k", "initramfs": "i", "accelerator": "tcg", "vcpus": 1, "memory_bytes": 1 << 27,
        "ports": (), "agent": 3, "monitor": 4,
    }  # fmt: skip
    fields["moves"] = True
    assert Machine(**fields).whole_memory_bytes % (256 << 10), "not what QEMU's faulty shorter way takes"
    assert Machine(**{**fields, "accelerator": "kvm"}).whole_memory_bytes == 1 << 27
    here, there = Machine(**fields).argv(), Machine(**fields, incoming=True).argv()
    assert [*here, "-incoming", "defer"] == there
