"""Xen without it: what a domain's configuration says, what xentop tells, how ports are lowered, what is refused."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from virtlab.catalogue import PLATFORMS
from virtlab.experiment import load_text
from virtlab.plan import Action, Plan
from virtlab.plan.model import Trigger
from virtlab.planner import plan_run
from virtlab.testbed.build.lower import lower
from virtlab.testbed.build.machine import KERNEL_QDISCS
from virtlab.testbed.image import elf, packages, xen
from virtlab.testbed.image.initramfs import Image
from virtlab.testbed.image.kernels import Kernel
from virtlab.testbed.kinds.findings import Findings
from virtlab.testbed.lab import XenLab
from virtlab.testbed.lab.rules import LAB_VM, refusals
from virtlab.testbed.lab.xen import RULES, XenCommand
from virtlab.testbed.platforms.xen.config import Domain
from virtlab.testbed.platforms.xen.domains import place_of
from virtlab.testbed.platforms.xen.platform import memory_refusals
from virtlab.testbed.platforms.xen.xentop import Reader
from virtlab.testbed.play.counters import made_anew
from virtlab.testbed.steps.operations import Claim, ForwardingAdd, LinkSet, TapAdd

GOLDEN = Path(__file__).parents[2] / "golden" / "xen"
INSIDE = Findings(
    None,
    dict.fromkeys(KERNEL_QDISCS),
    root=True,
    has_ipv6=True,
    switch_qdiscs=(),
    automatic_link="kernel",
    xen=True,
)


def plan(**guest: Any) -> Plan:
    """Two domains on one bridge, and an echo between them."""
    words = "".join(f", {key}: {value}" for key, value in guest.items())
    experiment = load_text(f"""
version: 1
name: domains
hosts: {{h: {{platform: xen, guests: 2, vswitch: linux_bridge{words}}}}}
roles: {{probe: {{workload: rtt, from: h.g1, to: h.g2, size: 100 B ip_packet, interval: 10 ms, count: 5}}}}
""")
    return plan_run(experiment, experiment.points()[0], 0)


def changed(plan: Plan, guest: str, **fields: Any) -> Plan:
    guests = dict(plan.world.guests)
    guests[guest] = guests[guest].model_copy(update=fields)
    return plan.model_copy(update={"world": plan.world.model_copy(update={"guests": guests})})


def paths(plan: Plan, found: Findings = INSIDE, rules: Any = RULES) -> dict[str, str]:
    return {each.path: each.cure for each in refusals(plan, found, rules)}


def test_a_domain_is_configured_as_the_golden_file_says() -> None:
    macs = ["02:00:00:00:00:01", "02:00:00:00:00:02"]
    text = Domain("h.g1", vcpus=2, memory_bytes=(200 << 20) + 1, macs=macs).text()
    assert text == (GOLDEN / "domain.cfg").read_text(encoding="utf-8")


PORTS = {"Domain-0": 0, "g1": 1, "g2": 1}


def read(said: bytes, size: int | None = None, ports: Mapping[str, int] = PORTS) -> Reader:
    """What a reader makes of it, so many bytes a second."""
    reader = Reader(ports)
    for number, at in enumerate(range(0, len(said), size or len(said))):
        reader.feed(said[at : at + (size or len(said))], number * 1_000_000_000)
    return reader


def test_xentop_is_read_as_it_comes_and_its_first_shares_are_of_no_time() -> None:
    said = (GOLDEN / "xentop.txt").read_bytes()
    for size in (1, 100, len(said)):
        reader = read(said, size)
        assert reader.iteration == 1
        assert {name: line.vcpus for name, line in reader.lines.items()} == {"Domain-0": 2, "g1": 1, "g2": 1}
        assert reader.lines["g1"].memory_bytes == 128 << 20
        shares = {entity: value for _, entity, metric, value in reader.rows if metric == "cpu"}
        assert shares == {"domain-0": 0.342, "guests.g1": 0.06, "guests.g2": 0.015}
        assert sum(metric == "memory_used" for _, _, metric, _ in reader.rows) == 6


def iterations(*tables: str) -> bytes:
    """Tables of one domain, `g1`, with these lines about its ports."""
    head, first, *_ = (GOLDEN / "xentop.txt").read_text(encoding="utf-8").splitlines()
    cells = first.split()
    cells[0] = "g1"
    out = []
    for table in tables:
        cells[head.split().index("NETS")] = str(table.count("Net"))
        out.append(f"{head}\n{' '.join(cells)}\n{table}")
    return "".join(out).encode()


def port(number: int, sent: int, received: int) -> str:
    """As xentop has it: RX is what domain 0 received, so what the guest sent."""
    return (
        f"Net{number} RX: {sent:8d}bytes        7pkts        0err        0drop  "
        f"TX: {received:8d}bytes        8pkts        0err        1drop\n"
    )


def rates(reader: Reader) -> list[tuple[str, float]]:
    return [(metric, value) for _, _, metric, value in reader.rows if metric.startswith("network_")]


def test_rates_of_a_domains_ports_are_over_the_time_between_two_tables_and_from_its_own_side() -> None:
    tables = [port(0, 1000, 10) + port(1, 0, 0), port(0, 2000, 10) + port(1, 500, 40)]
    reader = Reader({"g1": 2})
    first, second = (iterations(table) for table in tables)
    reader.feed(first, 5_000_000_000)
    assert rates(reader) == []
    reader.feed(second, 7_000_000_000)
    assert rates(reader) == [("network_received", 40 * 8 / 2), ("network_sent", 1500 * 8 / 2)]


def test_a_domain_of_which_a_port_is_not_told_has_no_rates_rather_than_too_small_ones() -> None:
    said = [iterations(port(0, 1000, 10)), iterations(port(0, 2000, 20))]
    reader = Reader({"g1": 2})
    for number, table in enumerate(said):
        reader.feed(table, number * 1_000_000_000)
    assert rates(reader) == []
    assert sum(metric == "memory_used" for _, _, metric, _ in reader.rows) == 2


def test_a_domain_that_was_made_anew_counts_from_zero() -> None:
    reader = Reader({"g1": 1})
    reader.feed(iterations(port(0, 1000, 10)), 1_000_000_000)
    reader.forget("g1")
    reader.feed(iterations(port(0, 4000, 20)), 2_000_000_000)
    assert rates(reader) == []
    reader.feed(iterations(port(0, 3000, 30)), 3_000_000_000)
    assert rates(reader) == [], "nobody said that it ended, but it counts less than before"
    reader.feed(iterations(port(0, 3001, 30)), 4_000_000_000)
    assert rates(reader) == [("network_received", 0.0), ("network_sent", 8.0)]


def test_domains_whose_ports_are_elsewhere_are_passed_over() -> None:
    reader = read((GOLDEN / "xentop.txt").read_bytes(), ports={"g2": 1})
    assert {entity for _, entity, _, _ in reader.rows} == {"guests.g2"}


def test_a_line_of_xentop_is_of_the_instant_at_which_it_was_whole() -> None:
    said = (GOLDEN / "xentop.txt").read_bytes()
    end = said.rindex(b"Domain-0")
    reader = Reader(PORTS)
    reader.feed(said[: end + 20], 1)
    reader.feed(said[end + 20 :], 2)
    assert {t_ns for t_ns, _, metric, _ in reader.rows if metric == "cpu"} == {2}


def test_what_is_done_about_a_domains_port_is_found_again_when_it_is_made_anew() -> None:
    lowered = lower(plan())
    (port,) = lowered.machines["h.g1"].taps.values()
    again = [step.op for step in lowered.late if place_of(step) == port]
    assert isinstance(again[0], Claim)
    assert {type(op) for op in again} >= {Claim, LinkSet, ForwardingAdd}
    others = [step.op for step in lowered.late if place_of(step) != port]
    (other,) = lowered.machines["h.g2"].taps.values()
    assert {place_of(step) for step in lowered.late if step.op in others} == {other}
    assert made_anew(plan(), lowered, {"h.g1"}) == {port}


def test_a_reset_of_a_domain_ends_what_runs_in_it_so_one_that_measures_is_refused() -> None:
    base = plan()
    reset = Action(id="gone", do="reset", guest="h.g1", after=Trigger(event="probe.started"))
    found = paths(base.model_copy(update={"timeline": (*base.timeline, reset)}))
    assert found == {"timeline.gone.guest": "reset a guest that forwards"}


def test_the_back_end_of_a_port_is_claimed_and_bridged_once_it_is_there() -> None:
    lowered = lower(plan())
    port = lowered.machines["h.g1"].taps["eth0"]
    mac = plan().world.guests["h.g1"].vnics["eth0"].mac
    about = [
        step.op
        for step in lowered.late
        if getattr(step.op, "link", getattr(step.op, "name", "")) == port.link
    ]
    assert about[0] == Claim(port.namespace, port.link, f"fe{mac[2:]}")
    bridge = lowered.vswitches["h.br"].link
    assert LinkSet(port.namespace, port.link, mtu_bytes=1500, master=bridge) in about
    assert LinkSet(port.namespace, port.link, up=True) in about
    assert ForwardingAdd(port.namespace, port.link, mac) in about
    early = [step.op for step in lowered.steps]
    assert not any(isinstance(op, TapAdd) for op in early)
    assert port.link not in {getattr(op, "link", None) for op in early}, "it does not exist yet"


def test_a_domain_is_refused_where_no_hypervisor_is_and_the_cure_is_the_place() -> None:
    found = paths(plan(), replace(INSIDE, xen=False), RULES)
    assert found["guests.h.g1.platform"] == "run it with --in xen"
    assert "write one of namespace, native" in paths(plan(), INSIDE, LAB_VM)["guests.h.g1.platform"]
    assert paths(plan(vcpus=2, memory="200 MiB")) == {}


def test_everything_that_a_domain_cannot_have_is_refused_at_once_with_a_cure() -> None:
    base = plan()
    vnic = base.world.guests["h.g1"].vnics["eth0"].model_copy(update={"model": "e1000"})
    wrong = changed(
        base, "h.g1", vcpus=99, memory_bytes=1 << 20, idle="poll", cpu_quota_ratio=0.5, vnics={"eth0": vnic}
    )
    found = paths(wrong)
    keys = ("vcpus", "memory_bytes", "idle", "cpu_quota_ratio", "vnics.eth0.model")
    assert {f"guests.h.g1.{key}" for key in keys} <= set(found)
    assert all(found.values())


def test_guests_that_want_more_memory_than_the_machine_has_are_refused_together() -> None:
    assert list(memory_refusals(plan())) == []
    (found,) = memory_refusals(changed(plan(), "h.g2", memory_bytes=1900 << 20))
    assert found.path == "guests.h.g2.memory_bytes"
    assert "2028 MiB" in found.reason


def test_the_machine_boots_the_hypervisor_with_two_modules_whose_commas_are_doubled() -> None:
    wanted = XenCommand(
        name="xen", kernel="/a,b/vmlinux", initramfs="/c/i.cpio", accelerator="tcg", vcpus=2, memory_bytes=2 << 30,
        ports=(), agent=3, monitor=4, hypervisor="/c/xen",
    )  # fmt: skip
    argv = wanted.argv()
    assert argv[argv.index("-kernel") + 1] == "/c/xen"
    kernel, initramfs = argv[argv.index("-initrd") + 1].replace(",,", "\0").split(",")
    assert kernel.replace("\0", ",").split()[0] == "/a,b/vmlinux"
    assert initramfs == "/c/i.cpio"
    assert argv[argv.index("-cpu") + 1] == "qemu64", "domain 0 dies on one with everything"
    assert "dom0_mem=512M,max:512M" in argv[argv.index("-append") + 1]


def test_each_domain_counts_in_the_time_that_a_run_is_thought_to_take() -> None:
    two = plan()
    one = changed(two, "h.g2", platform="namespace")
    assert XenLab().estimate_ns(two) - XenLab().estimate_ns(one) >= 10_000_000_000


def test_the_platform_says_what_it_is() -> None:
    xen_platform = PLATFORMS["xen"]
    assert xen_platform.features.own_kernel
    assert xen_platform.vswitch
    assert set(xen_platform.limits) == {"memory", "vcpus"}
    assert "experimental" in xen_platform.meaning


def test_libraries_of_libraries_are_found_and_those_that_are_nowhere_are_named(tmp_path: Path) -> None:
    shell = shutil.which("sh")
    assert shell is not None
    program = Path(shell).resolve()
    if not elf.is_elf(program.read_bytes()) or elf.is_static(program.read_bytes()):
        pytest.skip("the shell is no program with libraries")
    names = elf.needed(program.read_bytes())
    assert "libc.so.6" in names
    loader = elf.interpreter(program.read_bytes())
    assert loader is not None
    assert Path(loader).exists()
    found, absent = packages.lacking([program], lambda _: None)
    assert found == {}
    assert set(absent) == set(names)
    library = next(path for path in Path("/usr/lib").glob("*-linux-gnu*/libc.so.6"))
    found, absent = packages.lacking([program], lambda name: library if name == "libc.so.6" else None)
    assert found == {"libc.so.6": library}
    assert "libgcc_s.so.1" in absent, "the C library loads it later"


def test_alternatives_architectures_and_programs_are_no_libraries_to_fetch() -> None:
    said = "Depends: libc6 (>= 2.36), python3:any, xen-utils-common, libfoo1:amd64 | libbar\nPre-Depends: zlib1g\n"
    assert packages.libraries_in(said) == ["libc6", "libfoo1", "zlib1g"]


def test_an_image_of_xen_is_an_image_with_a_hypervisor(tmp_path: Path) -> None:
    kernel = Kernel("xen", "6.1", "linux", tmp_path)
    image = xen.XenImage(kernel, tmp_path / "i", tmp_path / "xen", "xen-hypervisor-4.17-amd64_1")
    assert isinstance(image, Image)
    assert image.domain_0 == tmp_path / "vmlinuz", "packed in a way that is unpacked fast"
    (tmp_path / "vmlinux").touch()
    assert image.domain_0 == tmp_path / "vmlinux"
