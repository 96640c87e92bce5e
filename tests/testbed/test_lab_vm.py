"""A whole experiment inside one virtual machine: its kernel's disciplines, its clock, its record, its death."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import testbed_world as worlds

from virtlab.campaign import CampaignObserver, open_dataset, run_campaign
from virtlab.errors import GuestError
from virtlab.experiment import load_text
from virtlab.plan import Plan, Trial
from virtlab.report.gather import conditions
from virtlab.results import Dataset
from virtlab.testbed.build.machine import KERNEL_QDISCS
from virtlab.testbed.lab import LabVm, vm
from virtlab.testbed.lab.rules import LAB_VM
from virtlab.testbed.leader import queries
from virtlab.testbed.leader.channels import INSIDE_COMMAND
from virtlab.testbed.leader.control import Control, Pending
from virtlab.testbed.platforms.qemu import command

pytestmark = [
    pytest.mark.skipif(LAB_VM.lacking() is not None, reason=str(LAB_VM.lacking())),
    pytest.mark.timeout(600),
]

COUNT = 20
DISCIPLINES: dict[str, dict[str, Any]] = {
    "fifo": {"limit_packets": 100},
    "sfq": {
        "limit_packets": 60,
        "parameters": {"quantum_bytes": 3000, "perturb_ns": 10**10, "flows": 100, "depth": 64, "divisor": 512},
    },
    "codel": {"parameters": {"target_ns": 7_000_000, "interval_ns": 70_000_000, "ecn": True}},
    "fq_codel": {
        "limit_packets": 2000,
        "parameters": {
            "target_ns": 7_000_000, "interval_ns": 70_000_000, "ecn": False, "flows": 64, "quantum_bytes": 300,
            "memory_limit_bytes": 1 << 20, "drop_batch": 8,
        },
    },
    "pie": {
        "limit_packets": 300,
        "parameters": {
            "target_ns": 7_000_000, "tupdate_ns": 20_000_000, "alpha": 3, "beta": 25, "ecn": True, "bytemode": True,
        },
    },
    "htb": {
        "limit_packets": 100,
        "parameters": {
            "rate_bit_per_s": worlds.RATE, "burst_bytes": 20_000, "cburst_bytes": 15_001, "quantum_bytes": 2000,
        },
    },
    "hfsc": {
        "limit_packets": 100,
        "parameters": {"m1_bit_per_s": worlds.RATE, "d_ns": 10_000_000, "m2_bit_per_s": worlds.RATE // 2},
    },
    "tbf": {"limit_bytes": 50_000, "parameters": {"rate_bit_per_s": worlds.RATE + 1, "burst_bytes": 9_999}},
    "netem": {"limit_packets": 50, "parameters": {"delay_ns": 1_000_001, "loss_ratio": 1e-9}},
}  # fmt: skip
# What the kernel tells of these values where it counts in other units, and where two of them bound each other.
TOLD = {
    "sfq": {"flows": 60, "limit_packets": 60, "depth": 64, "divisor": 512, "perturb_ns": 10**10},
    "codel": {"target_ns": 6_999_000, "interval_ns": 69_999_000, "ecn": 1},
    "fq_codel": {"target_ns": 6_999_000, "ecn": 0, "memory_limit_bytes": 1 << 20, "drop_batch": 8},
    "pie": {"limit_packets": 300, "tupdate_ns": 20_000_000, "alpha": 3, "beta": 25, "ecn": 1, "bytemode": 1},
    "htb": {"default_class": 1},
    "hfsc": {"default_class": 1},
    "tbf": {"limit_bytes": 50_000, "rate_bit_per_s": worlds.RATE},
    "netem": {"limit_packets": 50, "delay_ns": 1_000_001},
}


# A kernel takes network namespaces down when it finds the time to, and gives the last ones free when the next ends: so
# one is made here first, and is still counted beside the machine's own. Spare ones are counted until the cache is
# shrunk.
LOOK = """
unshare -n true
for place in /proc/[0-9]*; do
    [ ${place#/proc/} = $$ ] || { [ -e $place/exe ] && read -r name <$place/comm && echo "process $name"; }
done 2>/dev/null
while read -r line; do echo "mount $line"; done </proc/mounts
echo "descriptors $(ls /proc/1/fd | wc -l)"
echo "interfaces $(ls /sys/class/net)"
echo 1 >/sys/kernel/slab/net_namespace/shrink
while read -r name active rest; do [ $name != net_namespace ] || echo "namespaces $active"; done </proc/slabinfo
"""
KEPT = 2  # network namespaces: the machine's own, and the one that was made to look
SETTLE_S = 60.0


def inside(lab: LabVm) -> dict[str, list[str]]:
    """What is in the machine, by kind: processes, mounts, how many network namespaces, and files of its first
    process.
    """
    assert lab._machine is not None
    said = queries.output_of(
        lab._machine.control,
        "lab-vm",
        vm.HOME,
        ["sh", "-c", LOOK],
        channel=INSIDE_COMMAND.first,
        leader=vm.INSIDE,
    )
    found: dict[str, list[str]] = {}
    for line in said.splitlines():
        kind, _, what = line.partition(" ")
        found.setdefault(kind, []).append(what)
    assert set(found) == {"process", "mount", "descriptors", "interfaces", "namespaces"}, said
    return {kind: sorted(each) for kind, each in found.items()}


def settled(lab: LabVm) -> dict[str, list[str]]:
    """The same once its kernel has taken down what ended; what it still holds, when it has not by then."""
    end = time.monotonic() + SETTLE_S
    while int((found := inside(lab))["namespaces"][0]) > KEPT and time.monotonic() < end:
        time.sleep(0.2)
    return found


def plan_of(world: dict[str, Any] | None = None) -> Plan:
    plan = worlds.echo_plan(worlds.bridged(switches=1) if world is None else world, count=COUNT)
    return plan.model_copy(
        update={"collect": plan.collect.model_copy(update={"counters": ("links", "vnics")})}
    )


def test_the_kernel_inside_has_every_discipline_whatever_this_one_has(lab: LabVm) -> None:
    able = lab.capabilities()
    assert {kind: able.qdiscs[f"{kind}/kernel"] for kind in KERNEL_QDISCS} == dict.fromkeys(KERNEL_QDISCS)
    assert able.links["netem"] is None
    assert able.backend == "lab-vm"
    assert able.fingerprint["accelerator"] in {"tcg", "kvm"}
    assert able.fingerprint["kernel"] in able.fingerprint["kernel_package"]


@pytest.mark.parametrize(
    "kinds", [(*DISCIPLINES,)[first : first + 3] for first in range(0, len(DISCIPLINES), 3)]
)
def test_packets_pass_each_discipline_of_the_kernel_inside_with_the_values_that_it_was_given(
    lab: LabVm, kinds: Sequence[str]
) -> None:
    world = worlds.bridged(switches=len(kinds) - 1, realise="shaping")
    found = dict(zip(world["links"], kinds, strict=True))
    for link, kind in found.items():
        queue = {"kind": kind, "by": "kernel", **DISCIPLINES[kind]}
        world["links"][link]["queue"] = {"ab": queue, "ba": queue}
    plan = plan_of(world)
    assert lab.check(plan) == []
    with lab.open(plan, worlds.Patient()) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        assert sink.rows("probe", "rtt/1") == COUNT
        begin, end = sink.counters("begin"), sink.counters("end")
        for link in found:
            for direction in ("ab", "ba"):
                key = (f"links.{link}.{direction}", "packets")
                assert end[key] - begin[key] >= COUNT, key
        realised = session.realised
        assert realised.link_realisation() == "shaping"
        for link, kind in found.items():
            for end_facts in realised.objects[f"links.{link}"].read_back.values():
                # HFSC has a class of its discipline's own handle, told after it.
                there = {qdisc["handle"]: qdisc for qdisc in reversed(end_facts["qdiscs"])}
                assert (there["1:"]["kind"], there["10:"]["kind"]) == (
                    "htb",
                    "pfifo" if kind == "fifo" else kind,
                )
                assert TOLD.get(kind, {}).items() <= there["10:"].items()


def test_a_link_inside_is_netem_and_holds_each_frame_for_its_serialisation(lab: LabVm) -> None:
    plan = plan_of()
    size = plan.roles["probe"].parameters["ip_packet_bytes"]
    frame_ns = max(84, size + 38) * 8 * 10
    with lab.open(plan, worlds.Patient()) as session:
        assert session.realised.link_realisation() == "netem"
        for trial in range(2):
            sink = worlds.MemorySink()
            outcome = session.run(Trial(f"t{trial}", trial), sink)
            assert outcome.status in {"ok", "tainted"}, outcome.reasons
            columns = next(columns for _, schema, columns in sink.blocks if schema == "rtt/1")
            # Two links there, two back: a timer of the kernel never fires early.
            assert min(columns["rtt_ns"]) >= 4 * frame_ns
            begin, end = outcome.windows["measured"]
            slack = outcome.clocks["lab-vm"]["bound_ns"] + 1_000_000
            assert all(begin - slack <= t_ns <= end + slack for t_ns in columns["sent_ns"])
            assert "console-lab-vm.log" in sink.artefacts


def test_marks_and_flows_that_the_kernels_fq_codel_counts_are_among_the_samples(lab: LabVm) -> None:
    marking = {
        "kind": "fq_codel", "by": "kernel",
        "parameters": {"ecn": True, "target_ns": 1_000_000, "interval_ns": 20_000_000},
    }  # fmt: skip
    world = worlds.bridged(
        switches=1, realise="shaping", rate_bit_per_s=10_000_000, queue={"ab": marking, "ba": marking}
    )
    stream = {
        "workload": "tcp_stream", "from": "a", "to": "b", "duration_ns": 3_000_000_000, "streams": 4, "ecn": True,
    }  # fmt: skip
    plan = worlds.echo_plan(world, roles={"probe": stream})
    assert lab.check(plan) == []
    with lab.open(plan, worlds.Patient()) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
    begin, end = sink.counters("begin"), sink.counters("end")
    line = "links.l0.ab"
    assert end[line, "marked_packets"] - begin[line, "marked_packets"] > 3
    assert end[line, "new_flows"] - begin[line, "new_flows"] >= 4, "each connection begins as a new flow"
    assert end[line, "new_flows_waiting"] >= 0 <= end[line, "old_flows_waiting"]
    assert end[line, "packets"] - begin[line, "packets"] > 100


# What frames carry (the priority of their tag, the code point of their IP header), which class that is, and how many
# come.
TAGGED: dict[str, tuple[dict[str, Any], str, int]] = {
    "golden": ({"priority": 5, "dscp": 46, "via": ["b"]}, "gold", 200),
    "other": ({"priority": 5, "dscp": 10, "via": ["b"]}, "voice", 300),
    "bare": ({"priority": 6}, "voice", 400),
    "low": ({"priority": 4, "dscp": 46, "via": ["b"]}, "rest", 250),
}


def test_tagged_frames_are_counted_in_the_class_that_the_kernels_flower_filter_finds(lab: LabVm) -> None:
    rate = {"parameters": {"rate_bit_per_s": 30_000_000, "ceil_bit_per_s": 90_000_000}}
    classes = ("gold", "voice", "rest")
    queue = {
        "kind": "htb", "by": "kernel", "default": "rest", "classes": dict.fromkeys(classes, rate),
        "match": [
            {
                "class": "gold", "pcp": [5], "dscp": [46], "protocol": 17, "source": "10.0.0.0/24",
                "destination": "10.0.0.2/32",
            },
            {"class": "voice", "pcp": [5, 6]},
        ],
    }  # fmt: skip
    world = worlds.bridged(switches=1, realise="shaping", queue={"ab": queue, "ba": queue})
    world["guests"]["b"]["forwards"] = True  # so that a sender may name it in 'via'; frames are its own
    stream = {"workload": "raw_stream", "from": "a", "to": "b", "frame_bytes": 200, "rate_pps": 500}
    plan = worlds.echo_plan(
        world,
        roles={
            name: {**stream, **carried, "duration_ns": count * 2_000_000}
            for name, (carried, _, count) in TAGGED.items()
        },
        timeline=[{"id": name, "do": "run", "role": name} for name in TAGGED],
        windows={"measured": {"from": "golden.started", "to": "low.finished"}},
        collect={"counters": ["links"]},
    )
    assert lab.check(plan) == []
    with lab.open(plan, worlds.Patient()) as session:
        for facts in session.realised.objects["links.l0"].read_back.values():
            flower = [each["fields"] for each in facts["filters"] if each["kind"] == "flower"]
            assert [each["vlan_priority"] for each in flower] == [5, 5, 6]
            assert (flower[0]["dscp"], flower[0]["network"], flower[0]["protocol"]) == (46, 0x0800, 17)
            assert (flower[0]["source"], flower[0]["destination"]) == ("10.0.0.0/24", "10.0.0.2/32")
        for number in range(
            3
        ):  # an emulated processor that stands still may send nothing of a stream, or too much at once
            sink = worlds.MemorySink()
            outcome = session.run(Trial(f"t{number}", number), sink)
            assert outcome.status in {"ok", "tainted"}, outcome.reasons
            begin, end, stop = sink.counters("begin"), sink.counters("end"), sink.counters("stop")
            frames = {name: stop[f"{name}/client", "sent_packets"] for name in TAGGED}
            sent = {
                each: sum(frames[name] for name, (_, wanted, _) in TAGGED.items() if wanted == each)
                for each in classes
            }
            passed = [
                {
                    each: end[at] - begin[at]
                    for each in classes
                    for at in [(f"links.{link}.ab.{each}", "packets")]
                }
                for link in ("l0", "l1")
            ]
            if all(frames.values()) and passed == [sent, sent]:
                break
    assert all(0 < frames[name] <= count for name, (_, _, count) in TAGGED.items()), frames
    assert passed == [sent, sent]


@pytest.mark.parametrize(("kind", "datapath"), [("ovs-kernel", "system"), ("ovs-netdev", "netdev")])
def test_open_vswitch_forwards_inside_by_either_of_its_datapaths(
    lab: LabVm, kind: str, datapath: str
) -> None:
    if (why := lab.capabilities().vswitches[kind]) is not None:
        pytest.skip(why)
    world = worlds.bridged(switches=1)
    for vswitch in world["vswitches"].values():
        vswitch["kind"] = kind
    plan = worlds.echo_plan(world, count=COUNT)
    assert lab.check(plan) == []
    with lab.open(plan, worlds.Patient()) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        assert sink.rows("probe", "rtt/1") == COUNT
        for host in ("h1", "h2"):
            realised = session.realised.objects[f"vswitches.{host}.br"]
            assert (realised.by, realised.read_back["datapath"]) == (kind, datapath)
            counted = {
                name: value
                for (entity, name), value in sink.counters("end").items()
                if entity == f"hosts.{host}.ovs"
            }
            assert counted["flow_cache_received_packets"] >= 2 * COUNT
            assert counted.get("flow_cache_lost_upcalls", 0) == 0


def test_a_record_says_which_kernel_ran_and_whether_its_processor_was_emulated(lab: LabVm) -> None:
    with lab.open(plan_of(), worlds.Patient()) as session:
        held = session.realised.versions
    assert held["kernel"] in held["kernel_package"]
    assert held["host_kernel"] == os.uname().release
    assert held["emulated_cpu"] == ("yes" if held["accelerator"] == "tcg" else "no")
    assert int(held["lab_memory_bytes"]) == vm.MEMORY_BYTES


TEXT = """
version: 1
name: inside
seed: 3
hosts: 2
topology: {shape: line, switches: 1}
link: {rate: 100 Mbit/s, realise: shaping, queue: {kind: codel}}
roles:
  probe: {workload: rtt, from: h1.g1, to: h2.g1, size: 1000 B ip_packet, interval: 10 ms, count: 20}
timing: {warmup: 50 ms, drain: 20 ms}
repeat: 2
"""


def test_a_campaign_inside_goes_on_where_it_was_and_its_report_says_what_ran(
    lab: LabVm, tmp_path: Path
) -> None:
    experiment = load_text(TEXT)
    path = tmp_path / "inside.results"
    finished: list[dict[str, int]] = []
    for _ in range(2):
        able = lab.capabilities()
        with open_dataset(path, TEXT, name="inside", seed=experiment.seed, backend=able) as dataset:
            run_campaign(experiment, dataset, lab, CampaignObserver(), run_limit=1)
            files = [record.folder / "run.json" for record in dataset.runs()]
            finished.append({str(file): file.stat().st_mtime_ns for file in files})
    first, second = finished
    assert (len(first), len(second)) == (1, 2)
    assert first.items() <= second.items(), "what was finished is not made again"
    read = Dataset.open(path)
    said = conditions.machine(read, list(read.runs()))
    assert said["Backend"]["accelerator"] in {"tcg", "kvm"}
    built = said["Versions of what built the runs"]
    assert built["kernel"] in built["kernel package"]
    assert built["emulated cpu"] in {"yes", "no"}
    assert {record.backend for record in read.runs()} == {"lab-vm"}


def test_the_machine_outlives_a_run_and_nothing_of_the_run_stays_in_it(lab: LabVm) -> None:
    with lab.open(plan_of(), worlds.Patient()):
        machine = lab._machine
    before = settled(lab)
    assert int(before.pop("namespaces")[0]) <= KEPT
    for trial in range(2):
        with lab.open(plan_of(), worlds.Patient()) as session:
            assert lab._machine is machine
            during = inside(lab)
            assert len(during["process"]) > len(before["process"])
            assert int(during["namespaces"][0]) > KEPT
            session.run(Trial(f"t{trial}", trial), worlds.MemorySink())
        after = settled(lab)
        assert int(after.pop("namespaces")[0]) <= KEPT
        assert after == before


def test_a_soft_switch_and_what_is_not_inside_are_refused_before_anything_is_built(lab: LabVm) -> None:
    world = worlds.bridged(switches=1, realise="soft_switch")
    world["guests"]["a"] |= {"platform": "qemu", "memory_bytes": 100 << 20}
    found = {refusal.path: refusal for refusal in lab.check(worlds.echo_plan(world, count=1))}
    assert {"links.l0.realise", "guests.a.platform"} <= set(found)
    assert all(refusal.cure for refusal in found.values())


def test_a_machine_that_dies_in_mid_run_is_told_with_its_console_and_replaced_at_the_next_run() -> None:
    plan = plan_of()
    roles = {"probe": plan.roles["probe"].model_copy(update={"count": 2000})}
    backend = LabVm()
    try:
        with backend.open(plan.model_copy(update={"roles": roles}), worlds.Patient()) as session:
            victim = machine_process(backend)
            sink = worlds.ActingSink(lambda: os.kill(victim, signal.SIGKILL))
            try:
                outcome = session.run(Trial("t0", 1), sink)
                reasons: tuple[str, ...] = outcome.reasons
                assert outcome.status == "failed"
            except GuestError as error:
                reasons = (str(error),)
        assert reasons[0].startswith(
            "lab-vm: its virtual machine ended with signal 9; its console ends with: "
        ), reasons
        with backend.open(plan, worlds.Patient()) as session:
            assert session.run(Trial("t1", 1), worlds.MemorySink()).status in {"ok", "tainted"}
    finally:
        backend.close()


def test_a_machine_that_stands_still_is_told_with_its_console_and_replaced_at_the_next_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wait = Control.wait

    def impatient(self: Control, asked: Pending[Any], *, timeout_s: float = 0.0) -> Any:
        return wait(self, asked, timeout_s=min(timeout_s, 1.0))

    backend = LabVm()
    try:
        with backend.open(plan_of(), worlds.Patient()) as session:
            still = machine_process(backend)
            os.kill(still, signal.SIGSTOP)
            monkeypatch.setattr(Control, "wait", impatient)
            said = r"lab-vm: on the request 'clock', it gave no answer within 1 s; its console ends with: "
            with pytest.raises(GuestError, match=said):
                session.run(Trial("t0", 1), worlds.MemorySink())
            monkeypatch.undo()
        with backend.open(plan_of(), worlds.Patient()) as session:
            assert machine_process(backend) != still
            assert session.run(Trial("t1", 1), worlds.MemorySink()).status in {"ok", "tainted"}
    finally:
        backend.close()
    assert not Path(f"/proc/{still}").exists()


def test_a_machine_that_panics_at_boot_is_told_with_its_words(monkeypatch: pytest.MonkeyPatch) -> None:
    append = command.Machine._append
    monkeypatch.setattr(
        command.Machine, "_append", lambda self: append(self) + " rdinit=/nothing root=/dev/nowhere"
    )
    before = worlds.own_processes()
    with pytest.raises(GuestError, match=r"lab-vm: its kernel panicked: .*Kernel panic"):
        LabVm().open(plan_of(), worlds.Patient())
    assert worlds.own_processes() <= before


def test_a_machine_that_does_not_answer_in_time_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vm.LabMachine, "boot_timeout_s", 0.1)
    before = worlds.own_processes()
    with pytest.raises(GuestError, match=r"lab-vm: did not boot within 0.1 s; its console ends with: "):
        LabVm().open(plan_of(), worlds.Patient())
    assert worlds.own_processes() <= before


def machine_process(backend: LabVm) -> int:
    """The machine's process, below the leader that carries it."""
    assert backend._machine is not None
    waiting = [backend._machine.outer.process.pid]
    while waiting:
        pid = waiting.pop()
        if b"qemu-system" in Path(f"/proc/{pid}/cmdline").read_bytes():
            return pid
        for task in Path(f"/proc/{pid}/task").iterdir():
            waiting += [int(child) for child in (task / "children").read_text().split()]
    raise AssertionError("no machine runs")
