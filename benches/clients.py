"""What a request costs the client of `request_response`: beside plain loops of system calls in C, and beside wrk.

Both take turns at the same server over loopback, on as many connections, several rounds of each, and medians are
compared. Costs are requests per second of the client's own processor time, so that the server's share of the machine
does not count.
"""

from __future__ import annotations

import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from _skipped import skipped
from tests.testbed import probe_world as pw

ROUNDS = 5
SECOND_NS = 1_000_000_000
CONNECTIONS = 16
WINDOW = 256  # over UDP: requests under way, so that many are due at a time
PORT = 7070
LOOPBACK = "127.0.0.1"
SOURCE = Path(__file__).with_name("_client.c")
NGINX = """
daemon off; worker_processes 1; pid {folder}/pid; error_log {folder}/errors;
events {{ worker_connections 1024; }}
http {{
  access_log off; keepalive_requests 1000000000; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/fastcgi; uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi;
  server {{ listen 127.0.0.1:{port}; location / {{ return 200 "{body}"; }} }}
}}
"""


def bench() -> Iterator[dict[str, Any]]:
    """Figures as dicts: name, value, unit, and where a peer ran: peer, ratio, goal."""
    why_not = pw.missing()
    if why_not is not None:
        yield skipped("clients", why_not)
        return
    with pw.two_guests() as world:
        if shutil.which("cc"):
            yield from beside_loops(world)
        else:
            yield from (skipped(f"clients.{name}", "no C compiler (cc)") for name in ("tcp", "udp"))
        absent = [name for name in ("nginx", "wrk") if shutil.which(name) is None]
        yield from [skipped("clients.http", f"no {' and no '.join(absent)}")] if absent else over_http(world)


def beside_loops(world: pw.World) -> Iterator[dict[str, Any]]:
    """One request per call over TCP, each connection in turns; over UDP those that are due together in one call."""
    with tempfile.TemporaryDirectory() as folder:
        plain = f"{folder}/client"
        subprocess.run(["cc", "-O2", "-o", plain, str(SOURCE)], check=True)
        with served(world.a.argv(plain, "serve", str(PORT))):
            turns = in_turns(world, plain, "ask", CONNECTIONS)
            yield compared("clients.tcp, peer a loop in C", turns, "ratio >= 0.85")
        with served(world.a.argv(plain, "serve_udp", str(PORT))):
            turns = in_turns(world, plain, "ask_udp", WINDOW, protocol="udp")
            yield compared("clients.udp by the batch, peer a loop in C", turns, ">= 200000")


def in_turns(
    world: pw.World, plain: str, command: str, connections: int, **parameters: Any
) -> dict[str, Callable[[], float]]:
    """Our client and the plain one, each for a second on as many connections."""
    probe = world.probe(world.a)

    def peer() -> float:
        pairs, took_ns = world.a.run(plain, command, str(PORT), str(connections), "1").split()
        return int(pairs) / int(took_ns) * SECOND_NS

    def ours() -> float:
        return per_second(asked(probe, request_bytes=16, connections=connections, **parameters))

    return {"ours": ours, "peer": peer}


def over_http(world: pw.World) -> Iterator[dict[str, Any]]:
    """GET of 1 KiB on connections that are kept, each in turns, against the same nginx."""
    with tempfile.TemporaryDirectory() as folder:
        conf = Path(folder) / "nginx.conf"
        conf.write_text(NGINX.format(folder=folder, port=PORT, body="r" * 1024))
        server = world.a.argv("nginx", "-p", folder, "-c", str(conf))
        with served(server, ready=False):
            probe = world.probe(world.a)

            def peer() -> float:
                before = resource.getrusage(resource.RUSAGE_CHILDREN)
                told = world.a.run(
                    "wrk", "-t", "1", "-c", str(CONNECTIONS), "-d", "1", f"http://{LOOPBACK}:{PORT}/"
                )
                after = resource.getrusage(resource.RUSAGE_CHILDREN)
                took_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
                [line] = [line for line in told.splitlines() if " requests in " in line]
                return int(line.split()[0]) / took_s

            def ours() -> float:
                return per_second(asked(probe, protocol="http", connections=CONNECTIONS))

            yield compared(
                "clients.http, peer wrk at the same nginx", {"ours": ours, "peer": peer}, "ratio >= 0.9"
            )


def compared(name: str, turns: dict[str, Callable[[], float]], goal: str) -> dict[str, Any]:
    """Each in turn, round after round, so that a slow minute of the machine meets both."""
    seen: dict[str, list[float]] = {whose: [] for whose in turns}
    for _ in range(ROUNDS):
        for whose, turn in turns.items():
            seen[whose].append(turn())
    ours, peer = (statistics.median(seen[whose]) for whose in ("ours", "peer"))
    return {
        "name": name, "value": round(ours), "unit": "request/s of a processor", "peer": round(peer),
        "ratio": round(ours / peer, 3), "goal": goal,
    }  # fmt: skip


def per_second(count: dict[str, int]) -> float:
    """Answered requests per second of the client's processor time."""
    assert count["answered_requests"] > 0.99 * count["requests"], json.dumps(count)
    return count["answered_requests"] / count["client_cpu_ns"] * SECOND_NS


def asked(probe: pw.Probe, **parameters: Any) -> dict[str, int]:
    """Counters of a client that asked the server for a second."""
    own = {"duration_ns": SECOND_NS, "service": "peer", **parameters}
    end = {"vnic": "lo", "mac": "00:00:00:00:00:00", "mtu_bytes": 65_536, "address": LOOPBACK}
    common = {"role": "r", "workload": "request_response", "seed": 7, "parameters": own}
    probe.ask("arm", side="client", local=end, peer={**end, "port": PORT}, **common)
    try:
        probe.ask("start", role="r")
        probe.wait_event("finished", "r")
        return dict(probe.collect("r").counters)
    finally:
        probe.ask("disarm", role="r")


@contextmanager
def served(argv: list[str], *, ready: bool = True) -> Iterator[None]:
    """A server while it runs; `ready`: it says so."""
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            if ready:
                assert server.stdout.readline() == b"ready\n"
            else:
                import time

                time.sleep(1.0)
            yield
        finally:
            server.terminate()
