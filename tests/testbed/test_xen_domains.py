"""Domains of Xen in a machine that boots the hypervisor: on demand (`make xen`), for an emulated one takes minutes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import testbed_world as worlds
from killing import held_namespaces, kill, play, surroundings
from test_testbed_privileges import NOBODY, as_nobody

import virtlab.testbed.platforms.xen.domains
import virtlab.testbed.session  # loaded before the identity changes: see test_testbed_privileges
from virtlab.errors import GuestError
from virtlab.experiment import load_text
from virtlab.plan import Plan, Trial
from virtlab.planner import plan_run
from virtlab.results import Dataset
from virtlab.testbed import image
from virtlab.testbed.lab import XenLab
from virtlab.testbed.lab.xen import RULES
from virtlab.testbed.platforms.qemu import monitor
from virtlab.testbed.platforms.xen import config

ASKED = "VIRTLAB_TEST_XEN"
WHY_NOT = (
    RULES.lacking() if os.environ.get(ASKED) else f"Xen is booted on demand: set {ASKED}=1, or `make xen`"
)
pytestmark = [
    pytest.mark.skipif(WHY_NOT is not None, reason=str(WHY_NOT)),
    pytest.mark.timeout(1800),
]
COUNT = 30
FRAMES = 20  # of each flow
ECHO = f"""
version: 1
name: xen-echo
hosts:
  h: {{platform: xen, guests: 2, vswitch: linux_bridge}}
roles:
  probe: {{workload: rtt, from: h.g1, to: h.g2, size: 100 B ip_packet, interval: 50 ms, count: {COUNT}, timeout: 20 s}}
collect: {{series: {{guest.cpu: 1 s}}, counters: [vnics, guests]}}
repeat: {{minimum: 1, maximum: 1}}
"""
STREAMS = """
version: 1
name: xen-streams
hosts:
  h:
    platform: xen
    vswitch: linux_bridge
    guests: {a: {vcpus: 2, memory: 192 MiB}, b: {}, n: {platform: namespace}}
roles:
  tcp: {workload: tcp_stream, from: h.a, to: h.b, duration: 2 s}
  udp: {workload: udp_stream, from: h.b, to: h.n, size: 500 B payload, rate: 100 kbit/s, duration: 2 s}
timeline:
  - {id: tcp, do: run, role: tcp}
  - {id: udp, do: run, role: udp, after: tcp.finished + 500 ms}
collect: {series: {guest.cpu: 1 s, memory: 1 s}, counters: [vnics, guests]}
repeat: {minimum: 1, maximum: 1}
"""
FORWARDING = f"""
version: 1
name: xen-forwarding
hosts:
  sut:
    vswitches: {{br0: {{isolate: true}}, br1: {{isolate: true}}}}
    guests:
      generator: {{vswitches: [br0], isolate: false}}
      receiver: {{vswitches: [br1], isolate: false}}
      vm: {{platform: xen, count: 2, vswitches: [br0, br1], forwarding: layer3}}
roles:
  load:
    workload: raw_stream
    from: sut.generator
    to: sut.receiver
    size: 512 B frame
    rate: 20 packet/s
    duration: {2 * FRAMES // 20} s
    via: [sut.vm1, sut.vm2]
timing: {{drain: 3 s}}
collect: {{counters: [vnics, guests]}}
repeat: {{minimum: 1, maximum: 1}}
"""
PLAYER = """
import sys
sys.path.insert(0, sys.argv[1])
import testbed_world as worlds
import test_xen_domains as xen
from virtlab.testbed import image
from virtlab.testbed.lab import XenLab
plan = xen.plan_of(xen.ECHO)
print("begin", flush=True)
with XenLab().open(plan, worlds.Patient()) as session:
    print("built", flush=True)
    input()
"""


_ = virtlab.testbed.session, virtlab.testbed.platforms.xen.domains, monitor


def plan_of(text: str) -> Plan:
    experiment = load_text(text)
    return plan_run(experiment, experiment.points()[0], 0)


def test_one_command_ends_in_a_report_of_an_echo_between_two_domains(tmp_path: Path) -> None:
    (tmp_path / "echo.yaml").write_text(ECHO)
    command = [str(Path(sys.executable).parent / "virtlab"), "run", "echo.yaml", "--in", "xen", "--json"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["ended"] == "complete"
    assert (tmp_path / "xen-echo.results" / "report" / "report.html").is_file()
    (record,) = Dataset.open(tmp_path / "xen-echo.results").runs("ok")
    assert len(record.samples("probe", "rtt/1")["rtt_ns"]) == COUNT


@pytest.mark.parametrize("victim", ["python", "leader", "machine"])
def test_a_machine_with_xen_killed_with_its_player_leaves_nothing(victim: str) -> None:
    own = held_namespaces({os.getpid()})
    before = surroundings()
    player = play(PLAYER)
    if victim == "python":
        player.says("built")
    else:
        time.sleep(5.0)
    kill(player, victim, own)
    assert surroundings() == before


@pytest.fixture
def _cache(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A copy of the image that an ordinary user has as his own."""
    with tempfile.TemporaryDirectory() as name:
        shutil.copytree(image.folder() / "xen", Path(name) / "virtlab" / "images" / "xen")
        for path in (Path(name), *Path(name).rglob("*")):
            os.chown(path, NOBODY, NOBODY)
        monkeypatch.setenv("XDG_CACHE_HOME", name)
        yield


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
@pytest.mark.usefixtures("_cache")
def test_an_ordinary_user_boots_xen_without_sudo() -> None:
    plan = plan_of(ECHO)

    def work() -> None:
        own = XenLab()
        try:
            assert own.check(plan) == []
            with own.open(plan, worlds.Patient()) as session:
                sink = worlds.MemorySink()
                assert session.run(Trial("t0", 1), sink).status in {"ok", "tainted"}
                assert sink.rows("probe", "sent/1") == COUNT
        finally:
            own.close()

    assert as_nobody(work) == ""


@pytest.fixture(scope="module")
def lab() -> Iterator[XenLab]:
    """One machine for the tests that leave it alive."""
    backend = XenLab()
    yield backend
    backend.close()


def columns(sink: worlds.MemorySink, schema: str) -> list[tuple[str, dict[str, np.ndarray]]]:
    return [(stream, dict(block)) for stream, kind, block in sink.blocks if kind == schema]


def test_domains_of_several_sizes_stream_to_each_other_and_to_a_namespace(lab: XenLab) -> None:
    plan = plan_of(STREAMS)
    assert lab.check(plan) == []
    with lab.open(plan, worlds.Patient()) as session:
        facts = session.realised.objects
        assert (facts["guests.h.a"].read_back["vcpus"], facts["guests.h.b"].read_back["vcpus"]) == (2, 1)
        assert facts["guests.h.a"].read_back["memory_bytes"] == 192 << 20
        assert facts["guests.h.b"].read_back["memory_bytes"] == config.MEMORY_BYTES
        assert session.realised.versions["hypervisor"].startswith("xen-hypervisor-")
        assert "experimental" in session.realised.versions
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        assert {"xen", "h.a", "h.b"} <= set(outcome.clocks)
        received = {
            stream: sink.rows(stream, schema)
            for stream, schema in (("tcp", "interval/1"), ("udp", "packet/1"))
        }
        assert all(received.values()), received
        rows = [
            (entity, metric, value)
            for _, block in columns(sink, "series/1")
            for entity, metric, value in zip(block["entity"], block["metric"], block["value"], strict=True)
        ]
        shares = [value for entity, metric, value in rows if (entity, metric) == ("guests.h.a", "cpu")]
        assert shares
        assert "tool:xentop" in {entity for entity, metric, _ in rows if metric == "cpu"}, (
            "its cost is nobody else's"
        )
        assert max(shares) > 0
        memory = {
            value for entity, metric, value in rows if (entity, metric) == ("guests.h.a", "memory_used")
        }
        assert memory == {float(192 << 20)}
        begin, end = sink.counters("begin"), sink.counters("end")
        sent = [key for key in end if key[0].startswith("guests.h.a.vnics.eth0") and "packets" in key[1]]
        assert any(end[key] > begin.get(key, 0) for key in sent), sent
    assert lab.check(plan) == []


def test_domains_forward_between_namespaces_flow_by_flow(lab: XenLab) -> None:
    plan = plan_of(FORWARDING)
    with lab.open(plan, worlds.Patient()) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        arrived = sink.rows("load", "packet/1")
        assert 0 < arrived <= 2 * FRAMES
        begin, end = sink.counters("begin"), sink.counters("end")
        for guest in ("sut.vm1", "sut.vm2"):
            counted = {
                key: end[key] - begin.get(key, 0) for key in end if key[0].startswith(f"guests.{guest}.vnics")
            }
            assert max(counted.values(), default=0) > 0, guest


def test_a_domain_that_does_not_start_is_one_error_and_the_next_run_is_as_ever(
    lab: XenLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan = plan_of(ECHO)
    with monkeypatch.context() as patched:
        patched.setattr(config, "GUEST_INITRAMFS", "/guest/nothing")
        with pytest.raises(GuestError, match=r"guests\.h\.g[12]: its domain ended with code 1"):
            lab.open(plan, worlds.Patient())
    with monkeypatch.context() as patched:
        patched.setattr(config, "_COMMAND_LINE", (*config._COMMAND_LINE, "rdinit=/nothing"))
        with pytest.raises(
            GuestError, match=r"guests\.h\.g[12]: its kernel panicked: .*its console ends with"
        ):
            lab.open(plan, worlds.Patient())
    with lab.open(plan, worlds.Patient()) as session:
        sink = worlds.MemorySink()
        assert session.run(Trial("t0", 1), sink).status in {"ok", "tainted"}
        assert sink.rows("probe", "sent/1") == COUNT
