"""How faithful and how fast the soft switch is: echoes, lateness, UDP at the wire, frame rates.

Computed times are sums of serialisations at 100 Mbit/s (`crates/virtlab-fabric/tests/closed_form.rs`).
`ratio` is value over `peer`; `goal` is the bound that the project set itself. The
switch has a CPU of its own, and as root SCHED_FIFO, as in a testbed. What ping itself needs: the echo over a
plain veth pair stands beside.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.testbed import probe_world
from tests.testbed import switch_world as worlds

RATE = 100_000_000
COMPUTED_NS = {1: 488_320, 2: 732_480}
COMPUTED_64_NS = 4 * 5_760
COMPUTED_44_FRAGMENTS_NS = 11_051_840
MTU_PAYLOAD = 1472  # of UDP or ICMP in an IPv4 packet of 1500 B

# Frames without a protocol as fast as possible, 32 a call: frame bytes, seconds, destination and source.
BLAST = """
import ctypes, socket, sys, time
length, seconds = int(sys.argv[1]), float(sys.argv[2])
end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
end.setsockopt(263, 20, 1)  # SOL_PACKET, PACKET_QDISC_BYPASS
end.bind(("eth0", 0))
addresses = [bytes.fromhex(text.replace(":", "")) for text in sys.argv[3:5]]
head = addresses[0] + addresses[1] + bytes([0x88, 0xB5])
data = ctypes.create_string_buffer(head.ljust(length, bytes(1)), length)
class Vector(ctypes.Structure):
    _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]
class Header(ctypes.Structure):
    _fields_ = [("name", ctypes.c_void_p), ("namelen", ctypes.c_uint), ("vectors", ctypes.POINTER(Vector)),
                ("count", ctypes.c_size_t), ("control", ctypes.c_void_p), ("controllen", ctypes.c_size_t),
                ("flags", ctypes.c_int), ("sent", ctypes.c_uint)]
libc = ctypes.CDLL(None, use_errno=True)
vector = Vector(ctypes.cast(data, ctypes.c_void_p), length)
headers = (Header * 32)(*[Header(None, 0, ctypes.pointer(vector), 1, None, 0, 0, 0) for _ in range(32)])
sent, until = 0, time.monotonic() + seconds
while time.monotonic() < until:
    sent += max(libc.sendmmsg(end.fileno(), headers, 32, 0), 0)
print(sent)
"""


def _blast(world: worlds.World, name: str, frame_bytes: int, seconds: float) -> subprocess.Popen[str]:
    """Frames of `frame_bytes` without FCS from one host to the other; prints how many were sent."""
    other = worlds.HOSTS["h2" if name == "h1" else "h1"][1]
    length = str(frame_bytes)
    command = worlds.python_inside(world, name, BLAST, length, str(seconds), other, worlds.HOSTS[name][1])
    return subprocess.Popen(list(command), stdout=subprocess.PIPE, text=True)


def _raw_stream(stack: ExitStack, world: worlds.World) -> tuple[int, int, float]:
    """64 B frames from h1 to h2 as fast as the probe can for a second: sent, received, seconds."""
    ends = {}
    for name in worlds.HOSTS:
        ours, theirs = socket.socketpair()
        command = world.inside(name, str(worlds.AGENT), "probe", "--control-fd", str(theirs.fileno()))
        process = subprocess.Popen(command, pass_fds=(theirs.fileno(),))
        theirs.close()
        stack.callback(process.wait, 10)
        stack.callback(ours.close)
        ends[name] = probe_world.Probe(process, ours)
    at = {name: {"vnic": "eth0", "mac": mac} for name, (_, mac) in worlds.HOSTS.items()}
    common = {"role": "r", "workload": "raw_stream", "parameters": {"frame_bytes": 64, "duration_ns": 10**9}}
    ends["h2"].ask("arm", side="server", local=at["h2"], peer=at["h1"], **common)
    ends["h1"].ask("arm", side="client", local=at["h1"], peer=at["h2"], **common)
    ends["h2"].ask("start", role="r")
    ends["h1"].ask("start", role="r")
    ends["h1"].wait_event("finished", "r")
    time.sleep(0.2)  # what waits in queues
    ends["h2"].ask("stop", role="r")
    near, far = ends["h1"].collect("r").counters, ends["h2"].collect("r").counters
    return near["sent_packets"], far["received_packets"], near["sending_ns"] / 1e9


def _figure(name: str, value: float, unit: str, peer: float | None, goal: str, **more: Any) -> dict[str, Any]:
    ratio = None if not peer else round(value / peer, 4)
    return {
        "name": f"switch.{name}",
        "value": round(value, 3),
        "unit": unit,
        "ratio": ratio,
        "peer": peer,
        "goal": goal,
        **more,
    }


def _cpu() -> int | None:
    """A CPU to keep the switch on, where there is more than one."""
    cpus = sorted(os.sched_getaffinity(0))
    return cpus[-1] if len(cpus) > 1 else None


def _started(
    cpu: int | None,
    stack: ExitStack,
    switches: int,
    *,
    spin: str = "auto",
    rate: int = RATE,
    pushback: int | None = RATE,
    **configure: Any,
) -> tuple[worlds.World, worlds.Conversation, dict[str, Any]]:
    world = stack.enter_context(worlds.world())
    ports = worlds.two_hosts(world, rate_bit_per_s=pushback)
    switch = world.switch(cpu=cpu)
    if os.geteuid() == 0 and spin != "always":
        configure["fifo_priority"] = 20
    told = switch.ask(
        "configure", ports=ports, spin=spin, **{**worlds.line_layout(switches, rate), **configure}
    )
    switch.ask("start")
    return world, switch, told


def _echoes(cpu: int | None) -> Iterator[dict[str, Any]]:
    """1500 B echoes across one and two switches, interleaved; their lateness."""
    with ExitStack() as stack:
        setups = {switches: _started(cpu, stack, switches) for switches in (1, 2)}
        plain = stack.enter_context(worlds.world())
        worlds.two_hosts_without_switch(plain)
        plain_ns: list[int] = []
        rtts: dict[int, list[int]] = {1: [], 2: []}
        for _ in range(4):
            for switches, (world, _, _) in setups.items():
                rtts[switches] += worlds.ping_rtts_ns(
                    world, count=100, interval_s=0.01, payload_bytes=MTU_PAYLOAD
                )
            plain_ns += worlds.ping_rtts_ns(plain, count=100, interval_s=0.01, payload_bytes=MTU_PAYLOAD)
        medians = {switches: statistics.median(values) for switches, values in rtts.items()}
        excess_us = {switches: (medians[switches] - COMPUTED_NS[switches]) / 1000 for switches in medians}
        for switches in (1, 2):
            yield _figure(
                f"echo_1500_across_{switches}",
                medians[switches] / 1000,
                "us",
                COMPUTED_NS[switches] / 1000,
                f"<= {COMPUTED_NS[switches] / 1000 + 80}",
                excess_us=round(excess_us[switches], 1),
                plain_veth_echo_us=statistics.median(plain_ns) / 1000,
            )
        yield _figure("echo_excess_of_two_over_one", excess_us[2] - excess_us[1], "us", None, "-20 .. 20")
        stats = setups[2][1].ask("stats")
        yield from _lateness("idle", stats)


def _lateness(name: str, stats: dict[str, Any]) -> Iterator[dict[str, Any]]:
    late, overshoot = stats["lateness"], stats["sleep_overshoot_p99_ns"] / 1000
    yield _figure(f"lateness_p50_{name}", late["p50_ns"] / 1000, "us", None, "<= 2")
    yield _figure(
        f"lateness_p99_{name}",
        late["p99_ns"] / 1000,
        "us",
        overshoot,
        "<= 100 or ratio <= 1.5",  # the peer: its own sleep overshoot, p99
        late_share=late["late_share"],
        late_arrivals=stats["late_arrivals"],
    )


def _loaded(cpu: int | None) -> Iterator[dict[str, Any]]:
    """Lateness while both directions carry 80 % of the wire."""
    seconds = 4.0
    with ExitStack() as stack:
        world, switch, _ = _started(cpu, stack, 2, pushback=RATE * 8 // 10)
        before = time.monotonic()
        senders = [_blast(world, name, 1514, seconds) for name in worlds.HOSTS]
        for sender in senders:
            sender.communicate(timeout=60)
        elapsed = time.monotonic() - before
        stats = switch.ask("stats")
        yield from _lateness("80_percent_both_ways", stats)
        yield _figure(
            "cpu_80_percent_both_ways", stats["cpu_ns"] / elapsed / 1e7, "% of a core", None, "< 100"
        )


def _flood(cpu: int | None) -> Iterator[dict[str, Any]]:
    """UDP as fast as possible against the vNIC's pushback: loss and share of the wire, by iperf3."""
    if shutil.which("iperf3") is None:
        yield {"name": "switch.udp_flood", "missing": "iperf3"}
        return
    with ExitStack() as stack:
        world, switch, _ = _started(cpu, stack, 1)
        server = subprocess.Popen(world.inside("h2", "iperf3", "-s", "-1"), stdout=subprocess.DEVNULL)
        time.sleep(0.5)
        address = worlds.HOSTS["h2"][0]
        text = world.run("h1", f"iperf3 -u -b 0 -l {MTU_PAYLOAD} -t 5 -c {address} -J")
        server.wait(timeout=30)
        end = json.loads(text)["end"]
        received = end.get("sum_received") or end["sum"]
        wire = received["bits_per_second"] / (RATE * MTU_PAYLOAD / 1538)
        stats = switch.ask("stats")
        drops = sum(way["drops"] for link in stats["links"].values() for way in link.values())
        ring_drops = sum(port["ring_drops"] for port in stats["ports"].values())
        yield _figure("udp_flood_share_of_wire", wire * 100, "%", None, "98 .. 100.2")
        yield _figure(
            "udp_flood_loss",
            end["sum"]["lost_packets"],
            "packets",
            None,
            "<= 0",
            switch_drops=drops,
            ring_drops=ring_drops,
        )


def _short_frames(cpu: int | None) -> Iterator[dict[str, Any]]:
    """64 B frames a second through one switch of 10 Gbit/s, offered by `raw_stream`, and by it without a switch in
    between; the echo of such a frame when it always spins."""
    for kind, goal in (("fifo", 250_000), ("fq_codel", 200_000), ("pie", 200_000)):
        values: dict[str, list[float]] = {"passed": [], "plain": [], "offered": [], "per_cpu": []}
        ring_drops = queue_drops = 0
        for _ in range(3):
            with ExitStack() as stack:
                queue = {"kind": kind, "limit_packets": 10_000}
                layout = worlds.line_layout(1, 10_000_000_000)
                for link in layout["links"].values():
                    link["queue"] = {"ab": queue, "ba": queue}
                world, switch, _ = _started(cpu, stack, 1, pushback=None, links=layout["links"])
                sent, received, seconds = _raw_stream(stack, world)
                stats = switch.ask("stats")
                values["passed"].append(received / seconds)
                values["offered"].append(sent / seconds)
                values["per_cpu"].append(received / (stats["cpu_ns"] / 1e9))
                ring_drops += stats["ports"]["h1.up"]["ring_drops"]
                queue_drops += sum(way["drops"] for link in stats["links"].values() for way in link.values())
            with ExitStack() as stack:
                world = stack.enter_context(worlds.world())
                worlds.two_hosts_without_switch(world)
                _, received, seconds = _raw_stream(stack, world)
                values["plain"].append(received / seconds)
        median = {name: statistics.median(each) for name, each in values.items()}
        yield _figure(
            f"frames_64_per_second_{kind}",
            median["passed"],
            "frames/s",
            median["plain"],
            f">= {goal}",  # the peer: raw_stream without a switch
            offered=round(median["offered"]),
            ring_drops=ring_drops,
            queue_drops=queue_drops,
            frames_per_second_of_cpu=round(median["per_cpu"]),
        )
    with ExitStack() as stack:
        world, _, _ = _started(cpu, stack, 1, spin="always")
        rtts = worlds.ping_rtts_ns(world, count=400, interval_s=0.005, payload_bytes=18)
        value, computed = statistics.median(rtts) / 1000, COMPUTED_64_NS / 1000
        yield _figure(
            "echo_64_spin_always",
            value,
            "us",
            computed,
            f"<= {computed + 80}",
            excess_us=round(value - computed, 1),
        )


def _fragments(cpu: int | None) -> Iterator[dict[str, Any]]:
    """65,000 B echo: 44 fragments in a pipeline."""
    with ExitStack() as stack:
        world, _, _ = _started(cpu, stack, 1, pushback=None)
        rtts = worlds.ping_rtts_ns(world, count=60, interval_s=0.05, payload_bytes=65_000)
        yield _figure(
            "echo_44_fragments",
            statistics.median(rtts) / 1000,
            "us",
            COMPUTED_44_FRAGMENTS_NS / 1000,
            "ratio 0.97 .. 1.03",
        )


def _idle(cpu: int | None) -> Iterator[dict[str, Any]]:
    """CPU at 50 echoes a second, and when no frame flows."""
    with ExitStack() as stack:
        world, switch, _ = _started(cpu, stack, 1)
        time.sleep(0.5)
        for name, goal in (("50_echoes_per_second", "<= 2"), ("no_frame", "<= 0")):
            switch.ask("reset")
            before = time.monotonic()
            if name == "no_frame":
                time.sleep(3)
            else:
                worlds.ping_rtts_ns(world, count=150, interval_s=0.02, payload_bytes=MTU_PAYLOAD)
            elapsed = time.monotonic() - before
            used = switch.ask("stats")["cpu_ns"] / elapsed / 1e7
            yield _figure(f"cpu_{name}", used, "% of a core", None, goal)


def bench() -> Iterator[dict[str, Any]]:
    """All figures of the soft switch."""
    if (why := worlds.missing()) is not None:
        yield {"name": "switch", "missing": why}
        return
    before = os.sched_getaffinity(0)
    if (own := _cpu()) is not None:
        os.sched_setaffinity(0, before - {own})  # inherited by every command started here
    try:
        for part in (_echoes, _loaded, _flood, _short_frames, _fragments, _idle):
            yield from part(own)
    finally:
        os.sched_setaffinity(0, before)
