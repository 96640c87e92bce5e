"""How much the probe sees, and how little it adds: packet rates beside iperf3, round trips beside sockperf.

Two guests on one bridge, 64 B frames. Ours and the peer take turns, several rounds of each, and the medians are
compared: `ratio` is value over `peer`, `goal` says what the project set itself. A missing peer is said, not guessed.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from tests.testbed import probe_world as pw

ROUNDS = 5
SECOND_NS = 1_000_000_000
ROUND_TRIPS = 10_000
SMALLEST_PAYLOAD_BYTES = 18  # of UDP over IPv4 in a frame of 64 B
RTT_PAYLOAD_BYTES = 64


def bench() -> Iterator[dict[str, Any]]:
    """Figures as dicts: name, value, unit, and where a peer ran: peer, ratio, goal."""
    why_not = pw.missing()
    if why_not is not None:
        yield {"name": "probe", "value": None, "unit": None, "missing": why_not}
        return
    with pw.two_guests() as world:
        yield from packet_rates(world)
        yield from round_trips(world)
        yield from requests(world)


def packet_rates(world: pw.World) -> Iterator[dict[str, Any]]:
    """Frames per second that arrive, and the share that does not."""
    ours = flood(world)
    turns: dict[str, Callable[[], tuple[float, float]]] = {
        "raw_stream": lambda: ours("raw_stream"),
        "raw_stream of 2 threads": lambda: ours("raw_stream", flows=2, threads=2),
        "udp_stream": lambda: ours("udp_stream"),
    }
    if shutil.which("iperf3"):
        turns["iperf3"] = lambda: iperf3(world)
        turns["iperf3 -w 4M"] = lambda: iperf3(world, "-w", "4M")
    seen = interleaved(turns)
    rate = {name: statistics.median(rate for rate, _ in values) for name, values in seen.items()}
    lost = {name: statistics.median(lost for _, lost in values) for name, values in seen.items()}
    for name, peer, goal in (
        ("raw_stream", "iperf3", "ratio >= 3"),
        ("raw_stream", "iperf3 -w 4M", "ratio >= 2"),
        ("raw_stream of 2 threads", "iperf3", "ratio >= 3"),
        ("raw_stream of 2 threads", "iperf3 -w 4M", "ratio >= 2"),
        ("udp_stream", "iperf3", "ratio >= 1.3"),
    ):
        figure = {
            "name": f"{name}.received, peer {peer} -u -b 0",
            "value": round(rate[name]),
            "unit": "packet/s",
        }
        if peer in rate:
            figure |= {"peer": round(rate[peer]), "ratio": round(rate[name] / rate[peer], 3), "goal": goal}
        else:
            figure |= {"missing": "iperf3 is not installed"}
        yield figure
    for name in ("raw_stream", "raw_stream of 2 threads", "udp_stream"):
        figure = {"name": f"{name}.loss", "value": lost[name], "unit": "ratio"}
        yield figure | ({"goal": "<= 0.001"} if name == "udp_stream" else {}) | {"peer": lost.get("iperf3")}


def flood(world: pw.World) -> Callable[..., tuple[float, float]]:
    """Frames of 64 B for a second, as fast as can be: packets per second that arrive, and the share that does not."""
    client, server = world.probe(world.a), world.probe(world.b)

    def ours(workload: str, **more: int) -> tuple[float, float]:
        near, far = pw.play(client, server, workload, world, frame_bytes=64, duration_ns=SECOND_NS, **more)
        assert far is not None
        sent, received = near.counters["sent_packets"], far.counters["received_packets"]
        return received * SECOND_NS / near.counters["sending_ns"], 1 - received / sent

    return ours


def round_trips(world: pw.World) -> Iterator[dict[str, Any]]:
    """Median round trip of small datagrams, one at a time: receivers that sleep, and receivers that spin.

    Both meters have their ends on CPUs of their own: on one and the same, a wake-up costs half as much, and
    the scheduler's choice would be what is compared.
    """
    cpus = sorted(os.sched_getaffinity(0))
    pins = [("taskset", "-c", str(cpu)) if shutil.which("taskset") else () for cpu in (cpus[0], cpus[-1])]
    ends = world.probe(world.a, *pins[0]), world.probe(world.b, *pins[1])

    def ours(idle: str) -> float:
        near, _ = pw.play(
            *ends, "rtt", world, protocol="udp", payload_bytes=RTT_PAYLOAD_BYTES, interval_ns=0,
            count=ROUND_TRIPS, idle=idle,
        )  # fmt: skip
        return float(np.median(near.columns["rtt/1"]["rtt_ns"]))

    turns: dict[str, Callable[[], float]] = {
        "blocking": lambda: ours("sleep"),
        "spinning": lambda: ours("poll"),
    }
    if shutil.which("sockperf"):
        turns["sockperf"] = lambda: sockperf(world, *pins)
    seen = {name: statistics.median(values) for name, values in interleaved(turns).items()}
    for name, goal in (("blocking", "ratio 0.9 .. 1.15"), ("spinning", "ratio <= 0.2")):
        figure: dict[str, Any] = {"name": f"rtt.{name}.p50", "value": round(seen[name]), "unit": "ns"}
        if "sockperf" in seen:
            figure |= {
                "peer": round(seen["sockperf"]),
                "ratio": round(seen[name] / seen["sockperf"], 3),
                "goal": goal,
            }
        else:
            figure |= {"missing": "sockperf is not installed"}
        yield figure


HTTP_SERVER = """
import http.server
class Answers(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    wbufsize = -1
    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Length", "1024")
        self.end_headers()
        self.wfile.write(b"r" * 1024)
    def log_message(self, *_):
        pass
server = http.server.ThreadingHTTPServer(("10.0.0.2", 8080), Answers)
print("ready", flush=True)
server.serve_forever()
"""
HTTP_CLIENT = """
import http.client, time
connection = http.client.HTTPConnection("10.0.0.2", 8080)
end, count = time.monotonic() + 1, 0
while time.monotonic() < end:
    connection.request("GET", "/")
    assert len(connection.getresponse().read()) == 1024
    count += 1
print(count)
"""


def requests(world: pw.World) -> Iterator[dict[str, Any]]:
    """GET requests per second on one connection that is kept, of 1 KiB each; the peer is Python's http.client and
    server.
    """
    ends = world.probe(world.a), world.probe(world.b)

    def ours() -> float:
        near, _ = pw.play(*ends, "http_get", world, duration_ns=SECOND_NS)
        return float(near.counters["transactions"])

    def peer() -> float:
        return float(world.a.run(sys.executable, "-c", HTTP_CLIENT))

    with subprocess.Popen(world.b.argv(sys.executable, "-c", HTTP_SERVER), stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n"
            seen = interleaved({"ours": ours, "peer": peer})
        finally:
            server.kill()
    rate = {name: statistics.median(values) for name, values in seen.items()}
    yield {
        "name": "http_get.transactions, peer Python's http.client and http.server", "value": round(rate["ours"]),
        "unit": "request/s", "peer": round(rate["peer"]), "ratio": round(rate["ours"] / rate["peer"], 2),
        "goal": "ratio >= 2",
    }  # fmt: skip


def interleaved(turns: dict[str, Callable[[], Any]]) -> dict[str, list[Any]]:
    """Each in turn, round after round, so that a slow minute of the machine meets all of them."""
    seen: dict[str, list[Any]] = {name: [] for name in turns}
    for _ in range(ROUNDS):
        for name, turn in turns.items():
            seen[name].append(turn())
    return seen


def iperf3(world: pw.World, *more: str) -> tuple[float, float]:
    """Packets per second that iperf3 received of its own flood, and its loss."""
    server = subprocess.Popen(
        world.b.argv("iperf3", "-s", "-1"), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    flood = [
        "iperf3",
        "-c",
        "10.0.0.2",
        "-u",
        "-b",
        "0",
        "-l",
        str(SMALLEST_PAYLOAD_BYTES),
        "-t",
        "1",
        "-J",
        *more,
    ]
    try:
        for _ in range(100):
            done = subprocess.run(
                world.a.argv(*flood), capture_output=True, text=True, check=False, timeout=60
            )
            told = json.loads(done.stdout)
            if "error" not in told:
                break
            time.sleep(0.02)
        total = told["end"]["sum"]
        received = total["packets"] - total["lost_packets"]
        return received / total["seconds"], total["lost_packets"] / total["packets"]
    finally:
        server.terminate()
        server.wait()


def trafgen(world: pw.World) -> float:
    """Frames per second that trafgen sends from one CPU, without number or stamp, to the receiver's address."""
    octets = ", ".join(f"0x{octet}" for mac in (world.b.mac, world.a.mac) for octet in mac.split(":"))
    with tempfile.NamedTemporaryFile("w", suffix=".cfg") as config:
        config.write(f"{{ {octets}, 0x88, 0xB5, fill(0x00, 46) }}\n")
        config.flush()
        flood = ["trafgen", "--dev", "eth0", "--conf", config.name, "--cpus", "1"]
        done = subprocess.run(
            world.a.argv("timeout", "-s", "INT", "1", *flood),
            capture_output=True,
            text=True,
            check=False,
            timeout=30,
        )
    found = re.search(r"(\d+) sec, (\d+) usec on CPU\d+ \((\d+) packets\)", done.stdout)
    assert found is not None, done.stdout + done.stderr
    seconds, microseconds, packets = (int(group) for group in found.groups())
    return packets / (seconds + microseconds / 1e6)


def sockperf(world: pw.World, near: tuple[str, ...] = (), far: tuple[str, ...] = ()) -> float:
    """Median round trip of sockperf's ping-pong, in ns."""
    server = subprocess.Popen(
        world.b.argv(*far, "sockperf", "server", "-i", "10.0.0.2"), stdout=subprocess.DEVNULL
    )
    try:
        time.sleep(0.3)
        told = world.a.run(
            *near,
            "sockperf",
            "ping-pong",
            "-i",
            "10.0.0.2",
            "-m",
            str(RTT_PAYLOAD_BYTES),
            "-t",
            "1",
            "--full-rtt",
        )
        found = re.search(r"percentile 50\.0+ *= *([0-9.]+)", told)
        assert found is not None, told
        return float(found.group(1)) * 1000
    finally:
        server.terminate()
        server.wait()
