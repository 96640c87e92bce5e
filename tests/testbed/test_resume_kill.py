"""A real `virtlab run`, killed with SIGKILL at random moments: nothing of its worlds stays, nothing
finished is lost or made again.

What belongs to the run is found by descent, not by name: this process becomes the reaper of orphans, so every
process that the killed command leaves behind is a descendant of it, and their namespaces are known by inode.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from killing import (
    EVERY_ROUND,
    FEWER,
    TIMEOUT_S,
    abandoned_groups,
    beside,
    descendants,
    everyone,
    own_groups,
)

from virtlab.experiment import load_text
from virtlab.planner import plan_run
from virtlab.results import Dataset, RunKey

POINTS, REPETITIONS = 2, 2 * FEWER // 3
GONE_S = 60.0
NAMESPACES = ("net", "mnt", "pid", "user")
TEXT = f"""
version: 1
name: killed
seed: 3
factors: {{switches: [1, 2]}}
hosts: 2
topology: {{shape: line, switches: "${{switches}}"}}
link: {{rate: 100 Mbit/s}}
roles:
  probe: {{workload: rtt, from: h1.g1, to: h2.g1, size: 1500 B ip_packet, interval: 10 ms, count: 40}}
timing: {{warmup: 50 ms, drain: 20 ms}}
repeat: {REPETITIONS}
"""
# Guests that share processors: by affinity, which every user may, and as root by control groups as well.
POOLED = f"""
version: 1
name: killed
seed: 3
factors: {{threads: [1, 2]}}
hosts:
  h1:
    pools: {{cores: {{cpus: 1{", memory: 256 MiB" if os.geteuid() == 0 else ""}}}, others: {{cpus: 1{
    ", by: quota" if os.geteuid() == 0 else ""
}}}}}
    guests: {{app: {{count: 2, pool: cores{
    ", weight: 300" if os.geteuid() == 0 else ""
}}}, clients: {{pool: others}}}}
services:
  app: {{kind: demand_server, on: [h1.app1, h1.app2], demand: 4 ms, threads: "${{threads}}"}}
roles:
  clients: {{workload: request_response, from: h1.clients, to: app, server: round_robin, rate: 50 request/s, connections: 8,
            duration: 400 ms}}
timing: {{warmup: 50 ms, drain: 20 ms}}
collect: {{series: {{guest.cpu: 100 ms}}}}
repeat: {REPETITIONS}
"""
on_demand = pytest.mark.skipif(
    not os.environ.get(EVERY_ROUND), reason=f"minutes: set {EVERY_ROUND} (make kill)"
)
PR_SET_CHILD_SUBREAPER = 36


@pytest.fixture
def reaper() -> object:
    """Orphans of killed children become children of this process while the test runs."""
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0
    yield
    libc.prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def namespaces(pids: set[int]) -> set[str]:
    """Namespaces that these processes have and this one has not, as `net:[4026531840]`."""
    found = set()
    for pid in pids:
        for kind in NAMESPACES:
            try:
                found.add(str(Path(f"/proc/{pid}/ns/{kind}").readlink()))
            except OSError:
                continue
    return found - {str(Path(f"/proc/self/ns/{kind}").readlink()) for kind in NAMESPACES}


def listed(folder: Path) -> list[str]:
    try:
        return [entry.name for entry in folder.iterdir()]
    except OSError:
        return []  # its process ended meanwhile


def held(wanted: set[str]) -> set[str]:
    """Those of the namespaces that a process on the machine is in, holds by descriptor, or has mounted.

    Processes of tests beside this one do not count: the number of a namespace that is gone is soon another's.
    """
    found = set()
    for process in everyone() - beside():
        for folder in ("ns", "fd"):
            for name in listed(Path(f"/proc/{process}/{folder}")):
                try:
                    found.add(str(Path(f"/proc/{process}/{folder}/{name}").readlink()))
                except OSError:
                    continue  # closed meanwhile
    mounts = Path("/proc/self/mountinfo").read_text()
    return {each for each in wanted if each in found or each in mounts}


def reap() -> None:
    """Takes the exit of orphans that ended, as an init does."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def soon(what: str, left: object) -> None:
    """Waits until nothing is left; teardown in the kernel is asynchronous."""
    end = time.monotonic() + GONE_S
    while rest := left():  # type: ignore[operator]
        assert time.monotonic() < end, f"{what} left: {rest}"
        time.sleep(0.02)
        reap()


def digests(path: Path) -> dict[str, str]:
    found = {}
    for folder in sorted(path.glob("runs/p*")):
        whole = hashlib.sha256()
        for file in sorted(folder.rglob("*")):
            if file.is_file() and file.name != "values.json":  # derived, and written when first asked for
                whole.update(f"{file.relative_to(folder)}:".encode() + file.read_bytes())
        found[folder.name] = whole.hexdigest()
    return found


RUN = [sys.executable, "-c", "from virtlab.cli.main import main; main()", "run", "killed.yaml", "--no-report"]
# A notebook's cell runs inside an event loop that leaves Ctrl-C to Python, unlike that of asyncio.run.
CELL = """
import asyncio, sys
import virtlab as vl

async def cell():
    try:
        vl.run("killed.yaml", dataset="killed.results")
    except KeyboardInterrupt:
        sys.exit(130)

asyncio.new_event_loop().run_until_complete(cell())
"""


def command(place: Path, program: list[str] = RUN) -> subprocess.Popen[bytes]:
    """`virtlab run`, or another program that runs the file, as a process of its own with temporary files of its own."""
    (place / "tmp").mkdir(exist_ok=True)
    return subprocess.Popen(
        program,
        cwd=place,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "TMPDIR": str(place / "tmp"), "XDG_CONFIG_HOME": str(place / "config")},
    )


def needs_testbed(text: str = TEXT) -> None:
    from virtlab.testbed import Testbed

    experiment = load_text(text)
    refusals = Testbed().check(plan_run(experiment, experiment.points()[1], 0))
    if refusals:
        pytest.skip(f"this machine cannot build it: {refusals[0].reason}")


@pytest.mark.slow
@pytest.mark.timeout(4 * TIMEOUT_S)  # it waits while another testbed run holds the machine
@pytest.mark.usefixtures("reaper")
@pytest.mark.parametrize(
    "text", [pytest.param(TEXT, id="links"), pytest.param(POOLED, id="pools", marks=on_demand)]
)
def test_kills_leave_nothing_behind_and_lose_nothing(tmp_path: Path, text: str) -> None:
    needs_testbed(text)
    (tmp_path / "killed.yaml").write_text(text)
    groups = own_groups()
    dataset = tmp_path / "killed.results"
    links = sorted(path.name for path in Path("/sys/class/net").iterdir())
    mounts = Path("/proc/self/mountinfo").read_text().splitlines()
    others = descendants(os.getpid())
    draws = random.Random(20)
    finished: dict[str, str] = {}
    worlds_killed = 0
    for kill in range(FEWER):
        process = command(tmp_path)
        seen: set[str] = set()
        among_runs = (
            kill % 5 != 0
        )  # the others die while they start: files read, machine tried out, dataset opened
        begun = time.monotonic()
        while (
            among_runs
            and not list(dataset.glob(f"runs/.partial-*-{process.pid}-*"))
            and process.poll() is None
        ):
            assert time.monotonic() < begun + 600, "no run began"
            time.sleep(0.01)
        end = time.monotonic() + draws.uniform(0.0, 1.2)
        while time.monotonic() < end and process.poll() is None:
            seen |= namespaces(descendants(process.pid))
            time.sleep(0.01)
        meets = kill % 5 in (
            1,
            2,
            3,
        )  # these wait for a world, however long its making takes; others may find none
        while meets and process.poll() is None and not namespaces(descendants(process.pid)):
            time.sleep(0.01)
        seen |= namespaces(descendants(process.pid))
        worlds_killed += process.poll() is None and bool(namespaces(descendants(process.pid)))
        process.send_signal(signal.SIGKILL)
        process.wait()
        soon("processes", lambda: descendants(os.getpid()) - others)
        soon("namespaces", lambda seen=seen: held(seen))
        now = digests(dataset)
        assert {name: now.get(name) for name in finished} == finished, (
            f"a finished run changed at kill {kill}"
        )
        finished = now
    assert worlds_killed >= FEWER // 2, (
        f"only {worlds_killed} of {FEWER} kills met a built world: they say nothing"
    )
    last = command(tmp_path)
    assert last.wait(timeout=1200) in {
        0,
        4,
    }  # 4: the machine was too busy for some run, said so and kept its attempts
    soon("processes", lambda: descendants(os.getpid()) - others)
    now = digests(dataset)
    assert {name: now[name] for name in finished} == finished
    _every_run_once(dataset)
    assert sorted(path.name for path in Path("/sys/class/net").iterdir()) == links
    assert Path("/proc/self/mountinfo").read_text().splitlines() == mounts
    assert abandoned_groups(groups) == set()
    assert list((dataset / "runs").glob(".partial-*")) == []
    assert [path for path in (tmp_path / "tmp").rglob("*") if path.is_socket() or path.is_dir()] == []


@pytest.mark.timeout(1500)  # as above
@pytest.mark.usefixtures("reaper")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_takes_the_world_down_and_ends_in_130(tmp_path: Path, number: signal.Signals) -> None:
    _signalled_in_a_world(tmp_path, number, RUN)


@pytest.mark.timeout(1500)  # as above
@pytest.mark.usefixtures("reaper")
def test_ctrl_c_in_the_cell_of_a_notebook_takes_the_world_down(tmp_path: Path) -> None:
    _signalled_in_a_world(tmp_path, signal.SIGINT, [sys.executable, "-c", CELL])


def _signalled_in_a_world(place: Path, number: signal.Signals, program: list[str]) -> None:
    """The program ends with 130 by a signal that comes while it has a world, and nothing of that is left."""
    needs_testbed()
    (place / "killed.yaml").write_text(TEXT)
    others = descendants(os.getpid())
    process = command(place, program)
    seen: set[str] = set()
    end = time.monotonic() + 1200
    while not seen and process.poll() is None and time.monotonic() < end:
        if list((place / "killed.results/runs").glob(".partial-*")):  # not yet while the machine is tried out
            seen |= namespaces(descendants(process.pid))
        time.sleep(0.01)
    assert seen, "no world was built"
    process.send_signal(number)
    assert process.wait(timeout=200) == 130
    soon("processes", lambda: descendants(os.getpid()) - others)
    soon("namespaces", lambda: held(seen))
    assert list((place / "killed.results/runs").glob(".partial-*")) == []


def _every_run_once(path: Path) -> None:
    """Each repetition has one good run, after which nothing was tried; or all its attempts, none good."""
    statuses = {record.key: record.status for record in Dataset.open(path).runs()}
    good = [0] * POINTS
    for point in range(POINTS):
        for repetition in range(2 * REPETITIONS):  # spare ones replace those that stayed tainted
            tries = []
            while (key := RunKey(point, repetition, len(tries))) in statuses:
                tries.append(statuses.pop(key))
            assert "ok" not in tries[:-1], tries
            assert not tries or tries[-1] == "ok" or len(tries) == 3, tries
            good[point] += "ok" in tries
    assert statuses == {}
    assert max(good) <= REPETITIONS
