"""What an operation on an object of 10 kB costs the client of a store that is asked over HTTP: requests of Swift, and
those of S3, which are signed.

The server (`_objects.c`) keeps objects in memory and does nothing else, so that what is seen is the client: its threads
make content, send requests, read answers and compare each octet. 16 threads create so many objects (`VIRTLAB_OBJECTS`,
10,000), read as many and delete them, over loopback, several rounds of each, and the figure is the median of the
processor time of an operation. What a system call does for the other end of a loopback counts, too. 256 threads then
play all kinds of operations at once, and the figure is the share of them that was done; it is 1 only if none failed,
was late, or brought other content than it ought to.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from _skipped import skipped
from tests.testbed import probe_world as pw

OBJECTS = int(os.environ.get("VIRTLAB_OBJECTS", "10000"))
OBJECT_BYTES = 10_000
THREADS, MANY_THREADS = 16, 256
ROUNDS = 5
TIMEOUT_NS = 10_000_000_000
PORT = 7080
LOOPBACK = "127.0.0.1"
SOURCE = Path(__file__).with_name("_objects.c")
KEYS = {"access_key": "test:tester", "secret_key": "testing", "region": "us-east-1"}
INTERFACES: dict[str, dict[str, Any]] = {  # the container, what signs requests, and how a PUT is answered
    "swift": {"asked": {"path": "/v1/AUTH_virtlab/bench", "keys": None}, "stored": 201},
    "s3": {"asked": {"path": "/bench", "keys": KEYS}, "stored": 200},
}
DEEDS = ("create", "read", "delete")
EVERY_DEED = {"create": 2.0, "read": 2.0, "overwrite": 1.0, "stat": 1.0, "delete": 1.0}


def bench() -> Iterator[dict[str, Any]]:
    """Figures as dicts: name, value, unit, goal."""
    why_not = pw.missing() or (None if shutil.which("cc") else "no C compiler (cc)")
    if why_not is not None:
        yield skipped("objects", why_not)
        return
    with pw.two_guests() as world, tempfile.TemporaryDirectory() as folder:
        server = f"{folder}/server"
        subprocess.run(["cc", "-O2", "-o", server, str(SOURCE)], check=True)
        probe = world.probe(world.a)
        for interface, facts in INTERFACES.items():
            with _served(world.a.argv(server, str(PORT), str(facts["stored"]))):
                yield from _costs(probe, interface)
                yield _many(probe, interface)


def _costs(probe: pw.Probe, interface: str) -> Iterator[dict[str, Any]]:
    """Of each kind of operation: processor time of the client."""
    rounds = []
    for _ in range(ROUNDS):
        played = _played(probe, interface, THREADS, [{deed: 1.0} for deed in DEEDS])
        for counted in played:
            assert counted["done_operations"] == counted["operations"] == OBJECTS, counted
        rounds.append([counted["client_worked_ns"] / OBJECTS / 1e6 for counted in played])
    for deed, found in zip(DEEDS, zip(*rounds, strict=True), strict=True):
        yield {
            "name": f"objects.{deed}, interface {interface}", "threads": THREADS, "unit": "cpu_ms per operation",
            "value": round(statistics.median(found), 4), "best": round(min(found), 4), "goal": "<= 0.1",
        }  # fmt: skip


def _many(probe: pw.Probe, interface: str) -> dict[str, Any]:
    """All kinds of operations by many threads: how many of them were done."""
    (counted,) = _played(probe, interface, MANY_THREADS, [EVERY_DEED])
    operations = counted["operations"]
    return {
        "name": f"objects.all kinds, interface {interface}", "threads": MANY_THREADS, "unit": "done operations, ratio",
        "value": counted["done_operations"] / operations, "goal": ">= 1", "operations": operations,
        **{key: counted[key] for key in ("failed_operations", "timed_out_operations", "wrong_operations")},
        **{key: counted[key] for key in ("lost_objects", "stale_objects")},
        "cpu_ms": round(counted["client_worked_ns"] / operations / 1e6, 4),
    }  # fmt: skip


def _played(
    probe: pw.Probe, interface: str, threads: int, mixes: Sequence[dict[str, float]]
) -> list[dict[str, int]]:
    """Counters of roles of one folder, one after the other; when they are collected, what is left is read once more."""
    end = {"vnic": "lo", "mac": "00:00:00:00:00:00", "mtu_bytes": 65_536, "address": LOOPBACK}
    asked = {**INTERFACES[interface]["asked"], "proxies": [LOOPBACK], "timeout_ns": TIMEOUT_NS}
    roles = [f"r{number}" for number in range(len(mixes))]
    for role, operations in zip(roles, mixes, strict=True):
        own = {
            "service": interface, "folder": "bench", "operations": operations, "count": OBJECTS, "threads": threads,
            "object_bytes": OBJECT_BYTES, "swift": asked,
        }  # fmt: skip
        ends = {"local": end, "peer": {**end, "port": PORT}}
        probe.ask("arm", role=role, workload="objects", side="client", seed=7, parameters=own, **ends)
    for role in roles:
        probe.ask("start", role=role)
        probe.wait_event("finished", role)
    counters = [dict(probe.collect(role).counters) for role in roles]
    for role in roles:
        probe.ask("disarm", role=role)
    return counters


@contextmanager
def _served(argv: list[str]) -> Iterator[None]:
    """A server while it runs."""
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as server:
        try:
            assert server.stdout is not None
            assert server.stdout.readline() == b"ready\n"
            yield
        finally:
            server.terminate()
