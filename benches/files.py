"""What operations on files cost beside a plain loop of the same system calls in C: 10 kB in memory, 1 and 4 threads.

Content is made, verified and counted by virtlab, and not by the loop. Both take turns in one folder of a tmpfs, several
rounds of each, and medians of their rates are compared.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from _skipped import skipped
from tests.testbed import probe_world as pw

FILES = int(os.environ.get("VIRTLAB_FILES", "20000"))
FILE_BYTES = 10_000
THREADS = (1, 4)
ROUNDS = 7
DEEDS = ("create", "read", "delete")
MEMORY = Path("/dev/shm")
SOURCE = Path(__file__).with_name("_files.c")


def bench() -> Iterator[dict[str, Any]]:
    """Figures as dicts: name, value, unit, peer, ratio, goal."""
    why_not = pw.missing() or (None if shutil.which("cc") else "no C compiler (cc)")
    why_not = why_not or (None if os.access(MEMORY, os.W_OK) else f"{MEMORY} cannot be written")
    if why_not is not None:
        yield skipped("files", why_not)
        return
    with pw.two_guests() as world, tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        plain = f"{folder}/plain"
        subprocess.run(["cc", "-O2", "-pthread", "-o", plain, str(SOURCE)], check=True)
        place = Path(folder) / "files"
        place.mkdir()
        probe = world.probe(world.a)
        for threads in THREADS:
            seen: dict[str, list[list[float]]] = {"ours": [], "peer": []}
            for _ in range(ROUNDS):
                seen["peer"].append(_loop(plain, place, threads))
                seen["ours"].append(_ours(probe, world.a, place, threads))
            for at, deed in enumerate(DEEDS):
                ours, peer = (statistics.median(one[at] for one in seen[whose]) for whose in ("ours", "peer"))
                yield {
                    "name": f"files.{deed}, peer a loop in C", "threads": threads, "value": round(ours), "unit": "1/s",
                    "peer": round(peer), "ratio": round(ours / peer, 3), "goal": "ratio >= 0.9",
                }  # fmt: skip


def _loop(plain: str, place: Path, threads: int) -> list[float]:
    """Operations per second of the plain loop, by deed."""
    words = [plain, str(place), str(FILES), str(FILE_BYTES), str(threads)]
    told = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()
    return [FILES / int(took_ns) * 1e9 for took_ns in told]


def _ours(probe: pw.Probe, guest: pw.Guest, place: Path, threads: int) -> list[float]:
    """The same of roles of one folder, from the first operation that began until the last one that ended."""
    found = []
    for deed in DEEDS:
        own = {
            "directory": str(place), "folder": "same", "operations": {deed: 1}, "count": FILES, "threads": threads,
            "object_bytes": FILE_BYTES,
        }  # fmt: skip
        ends = {"local": guest.end(), "peer": guest.end()}
        probe.ask("arm", role=deed, workload="files", side="client", seed=7, parameters=own, **ends)
    for deed in DEEDS:
        probe.ask("start", role=deed)
        probe.wait_event("finished", deed)
    for deed in DEEDS:
        samples = probe.collect(deed)
        assert samples.counters["done_operations"] == FILES, samples.counters
        rows = samples.columns["operation/1"]
        found.append(FILES / float(rows["finished_ns"].max() - rows["sent_ns"].min()) * 1e9)
    for deed in DEEDS:
        probe.ask("disarm", role=deed)
    return found
