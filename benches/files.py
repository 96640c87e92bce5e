"""What operations on files cost beside a plain loop of the same system calls in C, and beside `fio` and `elbencho`:
10 kB in memory, 1, 4 and 16 threads.

Content is made, verified and counted by virtlab, and not by the loop; `fio` (engine `sync`, one file per operation)
makes and verifies content, too, and deletes nothing. So does `elbencho` (3.0.27 or later), which deletes as well. Both
of them take files in the order in which they made them, which costs less than a random order, and virtlab does so
beside them; beside the loop, whose order is random, its own is random, too. A deletion is one system call, and 97 % of
its time is the kernel's, whoever asks: so virtlab is not below `elbencho` there if the interval of the ratio reaches 1.
All take turns in one folder of a tmpfs. The figure is the median of the ratios of the rounds, in each of which one
follows the other, so that what slows a machine for a while slows both; its interval holds it with 95 %. The first
rounds are not counted. Before each contestant is a short pause: the kernel frees what was deleted a while later, in the
time of whoever is next then.

Content describes itself, and is made and compared in a processor's caches at 20 GB/s or more: at that rate comparing
takes 0.5 us of a read of 10 kB, which takes some 7 us.
"""

from __future__ import annotations

import csv
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from _skipped import skipped
from tests.testbed import probe_world as pw

from virtlab.stats.quantiles import quantile_interval

FILES = int(os.environ.get("VIRTLAB_FILES", "20000"))
FILE_BYTES = 10_000
THREADS = (1, 4, 16)
ROUNDS = {"a loop in C": 21, "fio": 21, "elbencho": 31}
WARM_UP = 3
PAUSE_S = 0.25
DEEDS = ("create", "read", "delete")
GOALS = {"a loop in C": "ratio >= 0.9", "fio": "ratio >= 1.0", "elbencho": "ratio >= 1.0"}
EQUALS = ("elbencho", "delete")  # one system call, of both
ORDERS = {"a loop in C": "random", "fio": "sequential", "elbencho": "sequential"}
MEMORY = Path("/dev/shm")
SOURCE = Path(__file__).with_name("_files.c")
CONTENT_TRIES = 5
CONTENT_GOAL = 20e9  # B/s
CONTENT = ("cargo", "run", "-q", "--profile", "shipped", "-p", "virtlab-store", "--example", "content", "--")


def bench() -> Iterator[dict[str, Any]]:
    """Figures as dicts: name, value, unit, peer, ratio, goal."""
    if shutil.which(CONTENT[0]):
        yield from _contents()
    else:
        yield skipped("files.content", "no cargo (install Rust)")
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
        peers: dict[str, Callable[[int], list[float]]] = {"a loop in C": partial(_loop, plain, place)}
        for program, rates in (("fio", _fio), ("elbencho", _elbencho)):
            if shutil.which(program):
                peers[program] = partial(rates, place)
            else:
                yield skipped(f"files.{program}", f"no {program} (install {program})")
        for threads in THREADS:
            for peer, play in peers.items():
                ours = partial(_ours, probe, world.a, place, ORDERS[peer])
                played = range(WARM_UP + ROUNDS[peer])
                rounds = [(_rested(ours, threads), _rested(play, threads)) for _ in played][WARM_UP:]
                for at, deed in enumerate(DEEDS[: len(rounds[0][1])]):
                    ratios = [own[at] / theirs[at] for own, theirs in rounds]
                    found = quantile_interval(ratios, 0.5)
                    assert found is not None
                    low, high = found.low, found.high
                    yield {
                        "name": f"files.{deed}, peer {peer}", "threads": threads, "unit": "1/s",
                        "value": round(statistics.median(own[at] for own, _ in rounds)),
                        "peer": round(statistics.median(theirs[at] for _, theirs in rounds)),
                        "ratio": round(statistics.median(ratios), 3), "ratio_low": round(low, 3),
                        "ratio_high": round(high, 3),
                        "goal": "ratio_high >= 1.0" if (peer, deed) == EQUALS else GOALS[peer],
                    }  # fmt: skip


def _contents() -> Iterator[dict[str, Any]]:
    """How fast content of a file is made, and compared, by one processor: the best of some tries."""
    words = [*CONTENT, str(FILE_BYTES), "300000"]
    told = [
        subprocess.run(words, check=True, capture_output=True, text=True).stdout for _ in range(CONTENT_TRIES)
    ]
    rates = [[float(rate) for rate in each.split()] for each in told]
    for name, of_all in zip(("made", "compared"), zip(*rates, strict=True), strict=True):
        yield {
            "name": f"files.content {name}", "unit": "B/s", "value": round(max(of_all)),
            "goal": f">= {CONTENT_GOAL:.0f}",
        }  # fmt: skip


def _rested(play: Callable[[int], list[float]], threads: int) -> list[float]:
    """Operations per second of one that begins after a pause."""
    time.sleep(PAUSE_S)
    return play(threads)


def _loop(plain: str, place: Path, threads: int) -> list[float]:
    """Operations per second of the plain loop, by deed."""
    words = [plain, str(place), str(FILES), str(FILE_BYTES), str(threads)]
    told = subprocess.run(words, check=True, capture_output=True, text=True).stdout.split()
    return [FILES / int(took_ns) * 1e9 for took_ns in told]


def _fio(place: Path, threads: int) -> list[float]:
    """The same of `fio`, which verifies what it reads: creations and reads. A file of its state stays where it ran."""
    own = place / "fio"
    own.mkdir()
    words = [
        "fio", "--name=files", f"--directory={own}", "--ioengine=sync", f"--bs={FILE_BYTES}",
        f"--filesize={FILE_BYTES}", f"--nrfiles={FILES // threads}", "--openfiles=1", "--file_service_type=sequential",
        "--fallocate=none", f"--numjobs={threads}", "--thread", "--group_reporting", "--verify=xxhash",
        "--output-format=json",
    ]  # fmt: skip
    rates = []
    for deed, more in (("write", ["--create_on_open=1", "--do_verify=0"]), ("read", [])):
        told = subprocess.run(
            [*words, f"--rw={deed}", *more], check=True, capture_output=True, text=True, cwd=own
        ).stdout
        (job,) = json.loads(told[told.index("{") :])["jobs"]
        assert job["error"] == 0, job["error"]
        assert job[deed]["total_ios"] == FILES, job[deed]["total_ios"]
        rates.append(float(job[deed]["iops"]))
    shutil.rmtree(own)
    return rates


def _elbencho(place: Path, threads: int) -> list[float]:
    """The same of `elbencho`, which verifies what it reads, too, until its last thread is done."""
    own = place / "elbencho"
    (own / "files").mkdir(parents=True)
    words = ["elbencho", "--nolive", f"--threads={threads}", "--dirs=0", f"--files={FILES // threads}"]
    words += [f"--size={FILE_BYTES}", f"--block={FILE_BYTES}", "--verify=1"]
    # Where no file is named for a kind of results, recent ones write it elsewhere.
    words += [f"--{kind}file={own / kind}" for kind in ("res", "csv", "json")]
    for deed in ("write", "read", "delfiles"):
        # It refuses a folder whose path begins with /dev.
        subprocess.run([*words, f"--{deed}", "files"], check=True, capture_output=True, cwd=own)
    with (own / "csv").open(newline="", encoding="utf-8") as table:
        rows = {row["operation"]: row for row in csv.DictReader(table)}
    shutil.rmtree(own)
    found = [rows[phase] for phase in ("WRITE", "READ", "RMFILES")]
    assert all(int(row["entries [last]"]) == FILES for row in found), found
    return [float(row["entries/s [last]"]) for row in found]


def _ours(probe: pw.Probe, guest: pw.Guest, place: Path, order: str, threads: int) -> list[float]:
    """The same of roles of one folder, from the first operation that began until the last one that ended."""
    found = []
    for deed in DEEDS:
        own = {
            "directory": str(place), "folder": "same", "operations": {deed: 1}, "count": FILES, "threads": threads,
            "object_bytes": FILE_BYTES, "order": order,
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
