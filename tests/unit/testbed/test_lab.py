"""The laboratory machine without one: what is refused, how links are realised inside, how channels are counted."""

from __future__ import annotations

import dataclasses
import json
import socket
from pathlib import Path
from typing import Any

import pytest

from virtlab.agents import Conversation
from virtlab.agents.requests.every import Bye
from virtlab.agents.requests.leader import Exec
from virtlab.campaign.loop.resumption import open_dataset
from virtlab.cli.experiment.run import made_backend
from virtlab.cli.testbed.up import up
from virtlab.errors import DatasetError, ExperimentError
from virtlab.plan import Capabilities, Plan
from virtlab.testbed.build import fabric
from virtlab.testbed.build.machine import KERNEL_QDISCS
from virtlab.testbed.kinds.findings import Findings
from virtlab.testbed.lab.rules import refusals
from virtlab.testbed.leader.control import Control

INSIDE = Findings(
    None, dict.fromkeys(KERNEL_QDISCS), root=True, has_ipv6=True, switch_qdiscs=(), automatic_link="kernel"
)


def world(**queue: Any) -> dict[str, Any]:
    """Two native hosts and a link with a queue."""
    guests = {
        name: {
            "platform": "native",
            "host": host,
            "vnics": {
                "e0": {"mac": f"02:00:00:00:00:0{n}", "ip": [f"10.0.0.{n}/24"], "uplink": f"{host}.up"}
            },
        }
        for n, (name, host) in enumerate((("a", "h1"), ("b", "h2")), start=1)
    }
    link = {"ends": ["h1.up", "h2.up"], "rate_bit_per_s": 100_000_000, "queue": {"ab": queue, "ba": queue}}
    return {"hosts": {"h1": {}, "h2": {}}, "guests": guests, "links": {"l": link}}


def plan(values: dict[str, Any], **more: Any) -> Plan:
    return Plan.model_validate({"world": values, **more})


@pytest.mark.parametrize(
    ("queue", "by"),
    [
        ({"kind": "fifo", "limit_packets": 10}, "netem"),
        ({"kind": "fifo", "limit_bytes": 10_000}, "shaping"),
        ({"kind": "codel"}, "shaping"),
        ({"kind": "sfq", "by": "kernel"}, "shaping"),
        ({"kind": "codel", "by": "virtlab"}, "soft_switch"),
    ],
)
def test_inside_the_kernel_realises_links_by_netem_where_that_can_queue_so(
    queue: dict[str, Any], by: str
) -> None:
    assert fabric.realisation(plan(world(**queue)), INSIDE.machine.link) == by


def test_what_the_kernel_inside_plays_is_not_refused() -> None:
    for kind in ("fifo", "sfq", "codel", "fq_codel"):
        assert refusals(plan(world(kind=kind, limit_packets=100)), INSIDE) == []


def test_everything_that_is_not_inside_is_refused_at_once_with_a_cure() -> None:
    values = world(kind="codel", by="virtlab", limit_packets=100)
    values["hosts"]["h1"]["at"] = "ssh"
    values["guests"]["a"] |= {"platform": "qemu", "cpu_quota_ratio": 0.5, "idle": "poll"}
    values["vswitches"] = {"h2.br": {"kind": "macvlan", "host": "h2"}}
    roles = {"probe": {"workload": "rtt", "from": "a", "to": "b", "meter": "ping"}}
    found = {refusal.path: refusal for refusal in refusals(plan(values, roles=roles), INSIDE)}
    wanted = {
        "hosts.h1.at", "guests.a.platform", "guests.a.idle", "vswitches.h2.br.kind",
        "roles.probe.meter", "links.l.queue.ab.by", "links.l.queue.ba.by",
    }  # fmt: skip
    assert wanted <= set(found)
    assert all(refusal.reason and refusal.cure for refusal in found.values())


def told(values: dict[str, Any]) -> dict[str, tuple[str, str]]:
    """What is refused inside: path -> reason and cure."""
    return {refusal.path: (refusal.reason, refusal.cure) for refusal in refusals(plan(values), INSIDE)}


def test_the_soft_switch_is_refused_inside_wherever_it_is_named_and_nowhere_else() -> None:
    why = "no soft switch spins on a virtual processor: links and queues inside are the kernel's"
    cure = "write 'by: kernel' or 'by: auto', or leave out --in lab-vm"
    assert told(world(kind="codel", by="virtlab")) == {
        "links.l.queue.ab.by": (why, cure), "links.l.queue.ba.by": (why, cure)
    }  # fmt: skip
    values = world(kind="codel")
    values["links"]["l"]["realise"] = "soft_switch"
    assert told(values) == {
        "links.l.realise": (why, "write 'realise: auto' (or 'shaping'), or leave out --in lab-vm")
    }
    values = world(kind="fifo", limit_packets=100)
    values["vswitches"] = {"h1.br": {"kind": "linux_bridge", "host": "h1", "uplinks": ["h1.up"]}}
    values["guests"]["a"]["platform"] = "namespace"
    vnic = values["guests"]["a"]["vnics"]["e0"]
    vnic |= {"uplink": None, "vswitch": "h1.br", "queue": {"kind": "codel", "by": "virtlab"}}
    for rate in (None, 50_000_000):
        vnic["port_rate_bit_per_s"] = rate
        assert told(values) == {"guests.a.vnics.e0.queue.by": (why, cure)}


def test_what_else_the_kernel_inside_does_not_do_is_told_at_once_with_ways_that_lead_out() -> None:
    rule = {"class": "a", "flow": [0, 2]}
    found = told(world(kind="prio", by="virtlab", classes={"a": {}}, default="a", match=[rule]))
    out = "write 'by: virtlab' and leave out --in lab-vm: the soft switch plays it"
    assert set(found) == {
        f"links.l.queue.{direction}.{key}" for direction in ("ab", "ba") for key in ("by", "match.0")
    }
    assert found["links.l.queue.ab.match.0"] == ("the kernel hashes flows by a secret of its own", out)
    values = world(kind="codel")
    values["links"]["l"]["propagation_ns"] = 1000
    assert told(values)["links.l.propagation_ns"] == (
        "a token bucket delays nothing",
        "remove it, take FIFOs that count packets, or leave out --in lab-vm",
    )
    values = world(kind="codel")
    values["links"]["l"]["realise"] = "netem"
    assert told(values)["links.l.queue.ab.kind"][1] == "write 'realise: shaping'"


def test_guests_that_need_more_memory_together_than_the_machine_has_are_refused_in_one_line() -> None:
    values = world(kind="fifo", limit_packets=100)
    for name in ("a", "b"):
        values["guests"][name] |= {"platform": "namespace", "memory_bytes": 280 << 20}
    assert refusals(plan(values), INSIDE) == []
    values["guests"]["b"]["memory_bytes"] += 3 << 20
    (refusal,) = refusals(plan(values), INSIDE)
    assert refusal.path == "guests"
    assert "2 guests with what the file lets them have need 569 MiB together" in refusal.reason
    assert refusal.cure == "write fewer guests, or less 'memory' for each, or leave out --in lab-vm"


def test_more_containers_than_fit_and_more_processors_than_there_are_are_refused() -> None:
    one: dict[str, Any] = {"platform": "container", "host": "h1", "vnics": {}}
    values: dict[str, Any] = {
        "hosts": {"h1": {}},
        "guests": {f"g{number}": dict(one) for number in range(40)},
    }
    values["guests"]["g7"]["cpu_quota_ratio"] = 2.5
    found = {refusal.path: refusal.reason for refusal in refusals(plan(values), INSIDE)}
    assert "the laboratory machine has 2 processors, not 2.5" in found["guests.g7.cpu_quota_ratio"]
    assert "40 guests" in found["guests"]
    values["guests"] = {"g0": one}
    assert "guests" not in {refusal.path for refusal in refusals(plan(values), INSIDE)}


def test_a_runtime_that_stays_outside_is_refused_also_where_the_environment_names_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    values = {"hosts": {"h1": {}}, "guests": {"g": {"platform": "container", "host": "h1", "vnics": {}}}}
    monkeypatch.setenv("VIRTLAB_RUNTIME", "podman")
    found = {refusal.path: refusal for refusal in refusals(plan(values), INSIDE)}
    told = found["guests.g.runtime"]
    assert told.reason.startswith("what $VIRTLAB_RUNTIME names stays outside the laboratory machine")
    assert told.cure == "unset VIRTLAB_RUNTIME, or set it to runc or crun, or leave out --in lab-vm"
    for quiet in ("runc", "crun"):
        monkeypatch.setenv("VIRTLAB_RUNTIME", quiet)
        reasons = [refusal.reason for refusal in refusals(plan(values), INSIDE)]
        assert not [reason for reason in reasons if "VIRTLAB_RUNTIME" in reason]


def test_channels_below_zero_are_of_what_carries_the_world() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        control = Control(ours, at=-5)
        control.tell(Bye(), channel=-5)
        control.tell(Bye())
        control.begin(-2, 60_000)
        asked = control.send(Exec(-1, "x", ["x"]), channel=-2)
        from virtlab._native import FrameDecoder, encode_frame

        decoder = FrameDecoder()
        decoder.feed(theirs.recv(1 << 16))
        frames = [decoder.next_frame() for _ in range(3)]
        assert [channel for channel, _, _ in frames] == [0, 5, 3]
        assert json.loads(frames[2][2])["channel"] == 1, (
            "a channel among the fields is one of the leader asked"
        )
        exited = {"event": "exited", "channel": 2, "channels": 3, "code": None, "signal": 9, "tail": ""}
        theirs.send(encode_frame(3, 0, json.dumps(exited).encode()))
        theirs.send(encode_frame(3, 0, json.dumps({"re": asked.number, "ok": {"pid": 1}}).encode()))
        assert control.wait(asked) == {"pid": 1}
        assert [control.ended(channel) for channel in (-1, 0, 1, 2, 3)] == [None, *["signal 9"] * 3, None]
        control.renew(-1)
        assert control.ended(0) is None
        assert list(control.messages(0.0)) == []
        control.close()
    assert Conversation().stray_bytes == 0


def test_a_dataset_goes_on_with_the_same_kernel_and_processor_only(tmp_path: Any) -> None:
    text = "name: x\n"
    facts = {"kernel_package": "linux-image-1", "accelerator": "tcg"}
    able = Capabilities("lab-vm", {}, {}, {}, {}, {}, {}, 1, facts)
    open_dataset(tmp_path / "d", text, name="x", seed=1, backend=able).close()
    open_dataset(tmp_path / "d", text, name="x", seed=1, backend=able).close()
    for key, value in (("kernel_package", "linux-image-2"), ("accelerator", "kvm")):
        other = dataclasses.replace(able, fingerprint={**facts, key: value})
        with pytest.raises(DatasetError, match=f"{key} {facts[key]} -> {value}"):
            open_dataset(tmp_path / "d", text, name="x", seed=1, backend=other)
    with pytest.raises(DatasetError, match="was made by backend 'lab-vm', not 'testbed'"):
        open_dataset(
            tmp_path / "d", text, name="x", seed=1, backend=dataclasses.replace(able, backend="testbed")
        )


def test_a_place_that_there_is_not_and_a_simulator_somewhere_are_refused() -> None:
    with pytest.raises(ExperimentError, match="'cellar' is not a place"):
        made_backend("testbed", "ideal", "cellar")
    with pytest.raises(ExperimentError, match="the simulator is built nowhere"):
        made_backend("simulator", "ideal", "lab-vm")


def test_a_kept_world_in_the_laboratory_is_refused_with_another_way(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="lives no longer than the command") as caught:
        up(tmp_path / "any.yaml", where="lab-vm")
    assert "'exec' action" in caught.value.cure
