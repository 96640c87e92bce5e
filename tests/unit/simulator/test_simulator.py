"""The simulator plays what the Plan says, the same way every time, and refuses the rest."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from tests.contract.test_backend_contract import Kept, Watcher, plan_of
from tests.theory.simulated import Values, beside, counters, parsed, simulated, values_of

from virtlab.errors import MachineError
from virtlab.plan import Trial
from virtlab.simulator import Simulator

LOAD = {
    "burst_bytes": 30_000,
    "period_ns": 10_000_000,
    "streams": 3,
    "phase": "random",
    "direction": "request_reply",
}


def as_bytes(kept: Kept) -> list[tuple[str, str, str, bytes]]:
    return [
        (stream, schema, name, column.tobytes() if column.dtype != object else repr(column.tolist()).encode())
        for (stream, schema), blocks in kept.blocks.items()
        for block in blocks
        for name, column in block.items()
    ]


def test_the_same_seed_gives_the_same_bytes_and_another_seed_others() -> None:
    values = beside(values_of(count=200, pushback=True), LOAD)
    first, again, other = (as_bytes(simulated(values, seed)[1]) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_a_role_that_is_added_changes_no_other_roles_phases() -> None:
    values = beside(values_of(count=20), LOAD)
    before = simulated(values)[1].column("load", "burst/1", "intended_ns")[:30]
    values["roles"]["more"] = {
        "workload": "rtt",
        "from": "b",
        "to": "a",
        "payload_bytes": 64,
        "interval_ns": 10**6,
    }
    values["timeline"].append({"id": "more", "do": "start", "role": "more"})
    assert simulated(values)[1].column("load", "burst/1", "intended_ns")[:30].tolist() == before.tolist()


def test_it_says_that_it_simulated_an_ideal_world() -> None:
    with Simulator().open(plan_of(), Watcher()) as session:
        assert session.realised.link_realisation() == "simulated"
        guest = session.realised.objects["guests.a"]
        assert guest.by == "simulator"
        assert guest.applied["profile"] == "ideal"
        assert session.realised.versions["profile"] == "ideal"


def test_what_an_ideal_world_does_not_have_is_missing_not_zero() -> None:
    values = values_of()
    values["collect"]["series"] = [{"source": "host.cpu", "every_ns": 10**8}]
    values["collect"]["counters"] = ["links", "softnet"]
    _, kept = simulated(values)
    said = [event.details["text"] for event in kept.events if event.what == "log.info"]
    assert any("host.cpu" in text for text in said)
    assert any("softnet" in text for text in said)
    assert ("series", "series/1") not in kept.blocks


def routed() -> Values:
    """a and b on networks of their own, router r between them with a vNIC on each host's bridge."""
    values = values_of()
    guests = values["world"]["guests"]
    guests["b"]["vnics"]["eth0"]["ip"] = ["10.0.1.1/24"]
    guests["r"] = {
        "platform": "namespace", "host": "h1", "forwards": True,
        "vnics": {
            "eth0": {"vswitch": "h1.br", "mac": "02:00:00:00:00:0a", "ip": ["10.0.0.254/24"]},
            "eth1": {"vswitch": "h1.br", "mac": "02:00:00:00:00:0b", "ip": ["10.0.1.254/24"]},
        },
    }  # fmt: skip
    values["world"]["routes"] = {
        "a": [{"to": "10.0.1.0/24", "via": "10.0.0.254", "vnic": "eth0"}],
        "b": [{"to": "10.0.0.0/24", "via": "10.0.1.254", "vnic": "eth0"}],
    }
    return values


def test_a_router_passes_packets_on_in_no_time_of_its_own() -> None:
    outcome, kept = simulated(routed())
    assert outcome.status == "ok", outcome.reasons
    assert set(kept.column("probe", "rtt/1", "rtt_ns")) == {488_320}
    end = counters(kept, "end")
    assert end["guests.r.vnics.eth0", "received_packets"] == end["guests.r.vnics.eth1", "sent_packets"] == 30


def test_ends_without_a_way_are_refused() -> None:
    values = routed()
    del values["world"]["routes"]["b"]
    (refusal,) = Simulator().check(parsed(values))
    assert refusal.path.startswith("roles.probe")
    values = routed()
    values["world"]["guests"]["r"]["forwards"] = False
    assert Simulator().check(parsed(values))[0].path == "roles.probe"


def test_raw_frames_are_numbered_per_flow() -> None:
    values = values_of()
    values["roles"]["probe"] = {
        "workload": "raw_stream", "from": "a", "to": "b", "frame_bytes": 64, "rate_pps": 1000, "flows": 4,
        "duration_ns": 100_000_000,
    }  # fmt: skip
    _, kept = simulated(values)
    flows = kept.column("probe", "packet/1", "flow")
    seq = kept.column("probe", "packet/1", "seq")
    assert len(flows) == 100
    assert all(seq[flows == flow].tolist() == list(range(25)) for flow in range(4))


def test_a_stopped_load_ends_and_a_set_one_changes() -> None:
    values = beside(values_of(count=60), LOAD | {"streams": 1, "phase": "fixed"})
    values["roles"]["load"]["tunable"] = ["burst_bytes"]
    values["timeline"] += [
        {"id": "more", "do": "set", "role": "load", "args": {"burst_bytes": 6000},
         "after": {"event": "measure.started", "plus_ns": 95_000_000}},
        {"id": "end", "do": "stop", "role": "load", "after": {"any": ["measure.finished"]}},
    ]  # fmt: skip
    outcome, kept = simulated(values)
    assert outcome.status == "ok", outcome.reasons
    intended = kept.column("load", "burst/1", "intended_ns")
    sent = kept.column("load", "burst/1", "sent_bytes")
    changed = outcome.marks["more.done"].t_ns
    assert set(sent[intended < changed]) == {30_000}
    assert set(sent[intended > changed]) == {6000}
    assert intended.max() <= outcome.marks["end.started"].t_ns
    assert outcome.marks["load.finished"].t_ns == outcome.marks["end.done"].t_ns
    assert (kept.column("load", "burst/1", "finished_ns") > 0).all()


def test_a_run_that_is_not_over_in_time_fails_and_a_time_out_censors() -> None:
    values = values_of(count=1000)
    values["limits"]["run_ns"] = 10**9
    outcome, _ = simulated(values)
    assert outcome.status == "failed"
    assert "limits.run_ns" in outcome.reasons[0]
    values = values_of(count=1000)
    values["timeline"][0] |= {"timeout_ns": 10**9, "on_timeout": "censor"}
    values["timeline"][1]["after"] = {"any": ["measure.finished", "measure.timeout"]}
    values["windows"] = {"measured": {"from": "measure.started", "to": "measure.timeout"}}
    outcome, kept = simulated(values)
    assert outcome.status == "ok", outcome.reasons
    assert outcome.censored == ("measure",)
    assert outcome.marks["measure.timeout"].t_ns == 10**9
    assert kept.column("probe", "sent/1", "sent_ns").max() <= 10**9


@pytest.mark.slow
def test_a_closed_loop_without_a_link_on_its_way_stands_still_and_is_told() -> None:
    values = values_of(interval_ns=0)
    del values["roles"]["probe"]["count"]
    values["world"]["guests"]["b"]["vnics"]["eth0"]["vswitch"] = "h1.br"
    outcome, _ = simulated(values)
    assert outcome.status == "failed"
    assert "stands still" in outcome.reasons[0]


def test_a_closed_loop_sends_when_the_reply_has_come() -> None:
    _, kept = simulated(values_of(interval_ns=0, count=50))
    assert set(np.diff(kept.column("probe", "sent/1", "sent_ns"))) == {488_320}


@pytest.mark.parametrize("kind", ["fifo", "pfifo", "pfifo_fast", "sfq", "codel", "fq_codel"])
def test_every_discipline_of_the_soft_switch_is_simulated(kind: str) -> None:
    values = beside(values_of(count=50), LOAD)
    for link in values["world"]["links"].values():
        link["queue"] = {
            "ab": {"kind": kind, "limit_packets": 100},
            "ba": {"kind": kind, "limit_packets": 100},
        }
    outcome, kept = simulated(values)
    assert outcome.status == "ok", outcome.reasons
    assert len(kept.column("probe", "rtt/1", "rtt_ns")) == 50


def guest(key: str, value: Any) -> Any:
    return lambda values: values["world"]["guests"]["a"].update({key: value})


def vnic(key: str, value: Any) -> Any:
    return lambda values: values["world"]["guests"]["a"]["vnics"]["eth0"].update({key: value})


def probe(key: str, value: Any) -> Any:
    return lambda values: values["roles"]["probe"].update({key: value})


@pytest.mark.parametrize(
    ("change", "path"),
    [
        (probe("workload", "no_such"), "roles.probe.workload"),
        (probe("family", "ipv6"), "roles.probe"),
        (probe("conut", 3), "roles.probe"),
        (probe("ip_packet_bytes", 70_000), "roles.probe"),
        (guest("platform", "libvirt"), "guests.a.platform"),
        (vnic("mtu_bytes", 9000), "guests.b.vnics.eth0.mtu_bytes"),
        (vnic("ip", ["fd00::1/64"]), "roles.probe"),
        (vnic("mac", "02:00:00:00:00:02"), "guests.b.vnics.eth0.mac"),
        (lambda v: v["world"]["vswitches"]["h1.br"].update(kind="ovs_netdev"), "vswitches.h1.br.kind"),
        (lambda v: v["world"]["links"]["l1"].update(queue={"ab": {"kind": "cake"}}), "links.l1.queue.ab.kind"),
        (lambda v: v["world"]["links"]["l1"].update(ends=["h1.up", "nowhere.p"]), "links.l1"),
        (lambda v: v["timeline"].append({"id": "x", "do": "exec", "guest": "c", "argv": ["ls"]}), "timeline.x.guest"),
        (lambda v: v["timeline"].append({"id": "x", "do": "exec", "guest": "a"}), "timeline.x"),
        (lambda v: v["collect"].update(packets=["nobody"]), "collect.packets.nobody"),
    ],
)  # fmt: skip
def test_what_is_not_modelled_is_refused_where_it_stands(change: Any, path: str) -> None:
    values = values_of()
    change(values)
    plan = parsed(values)
    found = Simulator().check(plan)
    assert path in {refusal.path for refusal in found}, found
    assert all(refusal.reason and refusal.cure for refusal in found)
    with pytest.raises(MachineError):
        Simulator().open(plan, Watcher())


def flooding(**role: Any) -> Any:
    values = values_of()
    values["roles"]["probe"] = {
        "workload": "udp_stream", "from": "a", "to": "b", "payload_bytes": 1472, "duration_ns": 10**7, **role,
    }  # fmt: skip
    return values


def test_as_fast_as_possible_is_the_devices_own_rate_where_nothing_holds_back_and_said() -> None:
    values = flooding()
    values["world"]["guests"]["b"]["vnics"]["eth0"]["vswitch"] = "h1.br"
    outcome, kept = simulated(values)
    assert outcome.status == "ok", outcome.reasons
    # 10 ms of frames that each occupy 1538 octet times of 10 Gbit/s, a bucket of ten, and a socket's 1 MiB that wait at
    # the end.
    expected = 10**7 / (1538 * 0.8) + 10 + 2**20 / 1514
    assert len(kept.column("probe", "packet/1", "seq")) == pytest.approx(expected, abs=12)
    said = [event.details["text"] for event in kept.events if event.what == "log.info"]
    assert any(text.startswith("roles.probe: as fast as possible is 10 Gbit/s here") for text in said), said
    with Simulator().open(parsed(values), Watcher()) as session:
        assert "10 Gbit/s" in session.realised.objects["roles.probe"].applied["assumed"]


def test_a_link_and_a_rate_hold_a_sender_back_without_anything_taken_for_granted() -> None:
    for values in (flooding(rate_bit_per_s=10**6), flooding()):
        held = "rate_bit_per_s" in values["roles"]["probe"]
        if not held:
            values["world"]["guests"]["a"]["vnics"]["eth0"]["pushback_bit_per_s"] = 10**8
        _, kept = simulated(values)
        said = [event.details["text"] for event in kept.events if event.what == "log.info"]
        assert not any("as fast as possible" in text for text in said), said


@pytest.mark.slow
def test_tcp_without_any_link_gets_on_at_the_devices_own_rate() -> None:
    values = values_of()
    values["roles"]["probe"] = {"workload": "tcp_stream", "from": "a", "to": "b", "duration_ns": 10**8}
    values["world"]["guests"]["b"]["vnics"]["eth0"]["vswitch"] = "h1.br"
    values["world"]["links"], values["world"]["switches"] = {}, {}
    for vswitch in values["world"]["vswitches"].values():
        vswitch["uplinks"] = []
    outcome, kept = simulated(values)
    assert outcome.status == "ok", outcome.reasons
    received = kept.column("probe", "interval/1", "received_bytes").sum() * 8 / 0.1
    assert 0.9 * 10e9 * 1448 / 1538 < received <= 1.01 * 10e9 * 1448 / 1538


def test_the_golden_plan_is_played() -> None:
    from pathlib import Path

    from virtlab.plan import Plan

    text = (Path(__file__).parents[2] / "golden/plans/switched_network.json").read_text()
    plan = Plan.parse(text)
    kept = Kept()
    with Simulator().open(plan, Watcher()) as session:
        outcome = session.run(Trial("t0", plan.seed), kept)
    assert outcome.status == "ok", outcome.reasons
    assert {"probe", "load"} <= {stream for stream, _ in kept.blocks}
    assert json.loads(text)["windows"].keys() == outcome.windows.keys()


def test_offloads_change_nothing_where_nobody_speaks_tcp() -> None:
    values = values_of()
    vnic("offloads", "default")(values)
    assert not Simulator().check(parsed(values))
