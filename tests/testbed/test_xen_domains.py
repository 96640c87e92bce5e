"""Domains of Xen in a machine that boots the hypervisor: on demand (`make xen`), for an emulated one takes minutes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import forwarding_world as forwarding
import pytest
import testbed_world as worlds
from test_testbed_privileges import NOBODY, as_nobody

import virtlab.testbed.platforms.xen.domains
import virtlab.testbed.session  # loaded before the identity changes: see test_testbed_privileges
from virtlab.errors import GuestError
from virtlab.experiment import load_text
from virtlab.plan import Action, Plan, Trial
from virtlab.plan.model import Trigger
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
FRAMES = 40  # of both flows
GUESTS = ["vm1", "vm2"]
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
SERVED = """
version: 1
name: xen-served
hosts: {h: {platform: xen, guests: 2, vswitch: linux_bridge}}
services:
  app: {kind: demand_server, on: h.g2, demand: 1 ms, ready: {port: 7000, timeout: 2 min}}
  web:
    kind: program
    on: h.g2
    argv: [httpd, -f, -v, -p, "8080"]
    files: {index.html: served inside a domain}
    cpu: 50 %
    memory: 32 MiB
    ready: {port: 8080, http: /index.html, timeout: 2 min}
collect: {counters: [guests]}
roles:
  clients: {workload: request_response, from: h.g1, to: app, rate: 5 request/s, connections: 4, duration: 3 s}
  pages:
    workload: request_response
    protocol: http
    from: h.g1
    to: web
    path: /index.html
    rate: 5 request/s
    connections: 4
    duration: 3 s
timeline:
  - {id: ask, do: run, role: clients}
  - {id: again, do: call, service: web, op: restart, after: ask.finished, timeout: 2 min, on_timeout: fail}
  - {id: read, do: run, role: pages, after: again.done}
repeat: {minimum: 1, maximum: 1}
"""
REQUESTS = 15  # of each role
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


def series(sink: worlds.MemorySink) -> dict[tuple[str, str], list[tuple[int, float]]]:
    """Instants and values by entity and metric."""
    told: dict[tuple[str, str], list[tuple[int, float]]] = {}
    for block in (dict(columns) for _, schema, columns in sink.blocks if schema == "series/1"):
        names = zip(block["entity"], block["metric"], strict=True)
        for name, t_ns, value in zip(names, block["t_ns"], block["value"], strict=True):
            told.setdefault(name, []).append((int(t_ns), float(value)))
    return told


def check_rates(
    told: dict[tuple[str, str], list[tuple[int, float]]],
    begin: dict[tuple[str, str], int],
    end: dict[tuple[str, str], int],
) -> None:
    """xentop's rates are those of a domain's own port: `a` sent a stream to `b`, so one sent much and the other
    received it.

    Between the first and the last of them passed no more than the kernel counted at the back end, which is the other
    side.
    """
    for guest, metric, counter in (
        ("guests.h.a", "network_sent", "received_bytes"),
        ("guests.h.b", "network_received", "sent_bytes"),
    ):
        rates = told[guest, metric]
        other = told[guest, "network_received" if metric == "network_sent" else "network_sent"]
        assert max(rate for _, rate in rates) > max(rate for _, rate in other), "more than acknowledgements"
        passed = sum(rate * (t_ns - then) / 8e9 for (then, _), (t_ns, rate) in pairwise(rates))
        key = f"{guest}.vnics.eth0.tap", counter
        assert passed <= end[key] - begin.get(key, 0) + 1.0


def test_domains_of_several_sizes_stream_to_each_other_and_to_a_namespace(lab: XenLab) -> None:
    plan = plan_of(STREAMS)
    assert lab.check(plan) == []
    with lab.open(plan, worlds.Patient()) as session:
        facts = session.realised.objects
        assert (facts["guests.h.a"].read_back["vcpus"], facts["guests.h.b"].read_back["vcpus"]) == (2, 1)
        assert facts["guests.h.a"].read_back["memory_bytes"] == 192 << 20
        assert facts["guests.h.a"].read_back["networks"] == 1, "xentop sees its port"
        assert facts["guests.h.b"].read_back["memory_bytes"] == config.MEMORY_BYTES
        assert session.realised.versions["hypervisor"].startswith("xen-hypervisor-")
        assert "experimental" in session.realised.versions
        for number in range(3):  # xentop of a busy machine may tell too late of what is over
            sink = worlds.MemorySink()
            outcome = session.run(Trial(f"t{number}", number), sink)
            assert outcome.status in {"ok", "tainted"}, outcome.reasons
            told = series(sink)
            if any(rate > 0 for _, rate in told.get(("guests.h.a", "network_sent"), [])):
                break
        assert {"xen", "h.a", "h.b"} <= set(outcome.clocks)
        received = {
            stream: sink.rows(stream, schema)
            for stream, schema in (("tcp", "interval/1"), ("udp", "packet/1"))
        }
        assert all(received.values()), received
        assert max(share for _, share in told["guests.h.a", "cpu"]) > 0
        assert ("tool:xentop", "cpu") in told, "its cost is nobody else's"
        assert {value for _, value in told["guests.h.a", "memory_used"]} == {float(192 << 20)}
        begin, end = sink.counters("begin"), sink.counters("end")
        sent = [key for key in end if key[0].startswith("guests.h.a.vnics.eth0") and "packets" in key[1]]
        assert any(end[key] > begin.get(key, 0) for key in sent), sent
        check_rates(told, begin, end)
    assert lab.check(plan) == []


def test_services_in_a_domain_answer_and_one_that_was_restarted_does_again(lab: XenLab) -> None:
    plan = plan_of(SERVED)
    assert lab.check(plan) == []
    with lab.open(plan, worlds.Patient()) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        bounds = session.realised.objects["services.web/h.g2"].read_back
        assert {"50000 100000", str(32 << 20)} <= set(bounds.values()), "by the domain's own kernel"
    for role in ("clients", "pages"):
        ends = [dict(columns)["error"] for name, _, columns in sink.blocks if name == role]
        assert sum(each.size for each in ends) == REQUESTS
        assert not any(each.any() for each in ends), "every request was answered"
    assert "again.done" in {event.what for event in sink.events}
    begin = sink.counters("begin")
    assert {("services.app/h.g2", "start_ns"), ("services.web/h.g2", "start_ns")} <= set(begin)
    assert sink.artefacts["service-web-h.g2.log"].count(b"response:200") >= REQUESTS, (
        "the server tells each answer"
    )


def test_domains_forward_flow_by_flow_and_one_that_was_reset_does_again(lab: XenLab) -> None:
    guests = dict.fromkeys(GUESTS, "platform: xen, forwarding: layer3")
    plan = forwarding.plan(guests, rate_pps=20, duration_s=FRAMES // 20, drain_s=3)
    assert lab.check(plan) == []
    with lab.open(plan, worlds.Patient()) as session:
        forwarding.check_flows(forwarding.play(session, FRAMES), GUESTS, FRAMES)
        during = forwarding.check_reset(session, GUESTS, FRAMES, "xen")
    ends = {entity for entity, _ in during.counters("end")}
    assert "guests.sut.vm1.vnics.eth0.tap" not in ends, "the domain that was made anew has another port"
    assert "guests.sut.vm2.vnics.eth0.tap" in ends


def test_a_domain_that_does_not_start_or_dies_is_one_error_and_the_next_run_is_as_ever(
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
        off = Action(
            id="off", do="exec", guest="h.g2", argv=("poweroff", "-f"), after=Trigger(event="probe.started")
        )
        outcome = session.run(Trial("t1", 2, also=(off,)), worlds.MemorySink())
        assert outcome.status == "failed"
        assert any("guests.h.g2: its domain ended" in reason for reason in outcome.reasons), outcome.reasons
