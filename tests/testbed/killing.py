"""A program that plays runs, killed together with one of its helpers at some moment, and what of it lives on.

What belongs to a run is found by descent, not by name or environment, which virtlab gives to nothing that it starts:
while the program plays, this process is the reaper of orphans, so all that is left of a killed one descends from it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

WAIT_S = 60.0  # the kernel's own clearing up, on a busy machine
# When it is set all rounds are played, however long that takes, and as many as it says where that is more: `make kill`.
EVERY_ROUND = "VIRTLAB_TEST_KILLS"
# Otherwise a few: each pair of two worlds and three victims once, each of four ways twice.
ROUNDS = max(20, int(os.environ[EVERY_ROUND])) if os.environ.get(EVERY_ROUND) else 8
FEWER = ROUNDS if os.environ.get(EVERY_ROUND) else 6  # of what takes some seconds each time
SLOWEST = max(3, ROUNDS // 8)  # of what takes half a minute each time: only where rounds are requested
TIMEOUT_S = max(600, 15 * ROUNDS)
BUDGET_S = 10.0  # of machines that boot; `make kill` plays every round
ROUNDS_MIN = 4
BOOT_S = 3.0
_PR_SET_CHILD_SUBREAPER = 36
MACHINE_VICTIMS = ("python", "leader", "world", "machine")


def rounds(budget_s: float, least: int) -> Iterator[int]:
    """Numbers of the rounds of a test: as many as there is time for, and all when that was asked for."""
    end = time.monotonic() + budget_s
    for number in range(ROUNDS):
        if number >= least and time.monotonic() >= end and not os.environ.get(EVERY_ROUND):
            return
        yield number


@dataclass(frozen=True)
class Player:
    """A process that said `begin`; `others` were below this one before."""

    process: subprocess.Popen[bytes]
    others: set[int]
    errors: IO[bytes]

    def says(self, word: str) -> None:
        """Waits for a line of it."""
        assert self.process.stdout is not None
        heard = self.process.stdout.readline().decode().strip()
        assert heard == word, os.pread(self.errors.fileno(), 1 << 16, 0).decode(errors="replace")

    def family(self) -> set[int]:
        """It and all that it started, whoever is their parent now."""
        return descendants(os.getpid()) - self.others

    def end(self) -> None:
        """Kills it alone."""
        self.process.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()
        self.errors.close()

    def left(self, besides: Callable[[], set[int]] = set) -> set[int]:
        """What is still there of what was killed, once it had its time, `besides` what a daemon elsewhere keeps."""
        deadline = time.monotonic() + WAIT_S
        while (found := self._unended() - besides()) and time.monotonic() < deadline:
            time.sleep(0.01)
        _reap_orphans(yes=False)
        return found

    def _unended(self) -> set[int]:
        for pid in {*children(os.getpid())} - self.others:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(pid, os.WNOHANG)
        return self.family()


def play(program: str, *words: str) -> Player:
    """Starts the program, whose first argument is this folder, and waits until it begins; `words` are further ones."""
    _reap_orphans(yes=True)
    others = descendants(os.getpid())
    errors = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the player
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(Path(__file__).parent), *words],
        stdout=subprocess.PIPE,
        stderr=errors,
    )
    player = Player(process, others, errors)
    player.says("begin")
    return player


def _reap_orphans(*, yes: bool) -> None:
    """Whether what an ended process leaves behind becomes a child of this one."""
    assert ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(yes), 0, 0, 0) == 0


def kill_machines_at_any_moment(
    program: str, seed: int, victims: Sequence[str] = MACHINE_VICTIMS, *, boot_s: float = BOOT_S
) -> None:
    """Plays and kills a program that boots a machine, prints `built` when its world is there, and plays a run in it.

    Every fourth round dies in mid-run, the others within `boot_s`, while the machine boots and the world is built.
    """
    draws = random.Random(seed)
    own = held_namespaces({os.getpid()})
    for number in rounds(BUDGET_S, ROUNDS_MIN):
        player = play(program)
        built = number % 4 == 3
        if built:
            player.says("built")
            time.sleep(draws.uniform(0.0, 0.5))
        else:
            time.sleep(draws.uniform(0.2, boot_s))
        victim = victims[number % 4 if number % 8 < 4 else draws.randrange(4)]
        assert kill(player, victim, own) or not built, f"all was built, and there was no {victim}"


def kill(player: Player, victim: str, own: set[str]) -> bool:
    """Kills the victim and the player, and asserts that no process and no namespace of theirs is left.

    Whether the victim was there yet is returned. `own` are namespaces that stay.
    """
    pids = player.family()
    namespaces = held_namespaces(pids) - own
    target = chosen(victim, player.process.pid, pids)
    if target is not None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(target, signal.SIGKILL)
        time.sleep(0.05)
    player.end()
    left = player.left()
    assert left == set(), f"{victim} was killed, {[command(pid) for pid in left]} live on"
    assert still_held(namespaces) == set(), f"{victim} was killed"
    return target is not None


def chosen(kind: str, player: int, pids: set[int]) -> int | None:
    """The process to kill; None when it is not there yet."""
    words = {pid: command(pid) for pid in sorted(pids)}
    leaders = [pid for pid, line in words.items() if "virtlab-agent" in line and " leader " in line]
    signs = {
        "machine": "qemu-system",
        "runtime": " run --preserve-fds",
        "engine": " run --name virtlab-",
        "monitor": "conmon ",
        "first process": "inside --control-fd",
        "ovsdb-server": "ovsdb-server /",
        "ovs-vswitchd": "ovs-vswitchd unix:",
    }
    if kind == "leader":  # the lowest is the waiting parent outside the world, the next is its PID 1
        return leaders[0] if leaders else None
    if kind == "world":
        return leaders[1] if len(leaders) > 1 else None
    if kind in signs:
        return next((pid for pid, line in words.items() if signs[kind] in line), None)
    return player


def command(pid: int) -> str:
    """Its command line."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def descendants(pid: int) -> set[int]:
    """All processes below one, however deep."""
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        for child in children(waiting.pop()):
            if child not in found:
                found.add(child)
                waiting.append(child)
    return found


def children(pid: int) -> list[int]:
    """Processes that one started, or that were left to it."""
    found: list[int] = []
    for task in _entries(Path(f"/proc/{pid}/task")):
        with contextlib.suppress(OSError):  # it ended meanwhile
            found += [int(child) for child in (task / "children").read_text().split()]
    return found


def held_namespaces(pids: set[int]) -> set[str]:
    """Network namespaces that processes stand in or hold by a descriptor, as 'net:[inode]'."""
    found = set()
    for pid in pids:
        for path in (Path(f"/proc/{pid}/ns/net"), *_entries(Path(f"/proc/{pid}/fd"))):
            try:
                target = str(path.readlink())
            except OSError:
                continue
            if target.startswith("net:["):
                found.add(target)
    return found


def still_held(namespaces: set[str]) -> set[str]:
    """Those that somebody still holds when their ends have had their time. A number that is free is soon another's."""
    deadline = time.monotonic() + WAIT_S
    while (held := held_namespaces(everyone() - beside()) & namespaces) and time.monotonic() < deadline:
        time.sleep(0.02)
    return held


def beside() -> set[int]:
    """Processes of tests that run beside this one, below the same parent: none of them is left of what was killed
    here.
    """
    return descendants(os.getppid()) - descendants(os.getpid()) - {os.getpid()}


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def everyone() -> set[int]:
    """All processes that are seen here."""
    return {int(path.name) for path in Path("/proc").iterdir() if path.name.isdigit()}


def surroundings() -> tuple[set[str], list[str]]:
    """Interfaces of this namespace, and mounts: but for those that tests of other workers, which run meanwhile, have in
    their own folders.
    """
    own = f"/popen-{os.environ.get('PYTEST_XDIST_WORKER')}/"
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8").splitlines()
    return {path.name for path in Path("/sys/class/net").iterdir()}, sorted(
        line.split(" - ")[0].split(" ", 3)[3] for line in mounts if "/popen-gw" not in line or own in line
    )


def abandoned_groups(before: set[str]) -> set[str]:
    """Control groups of testbeds that were not there before and that nobody is in: other tests may have some
    meanwhile.
    """
    deadline = time.monotonic() + WAIT_S
    left = own_groups() - before
    while left and time.monotonic() < deadline:
        left = {group for group in left & own_groups() if not _inhabited(Path(group))}
        time.sleep(0.1)
    return left


def _inhabited(group: Path) -> bool:
    try:
        return any(path.read_text() for path in group.rglob("tasks")) or any(
            path.read_text() for path in group.rglob("cgroup.procs")
        )
    except OSError:
        return False  # it is being removed


def own_groups() -> set[str]:
    """Control groups of testbeds."""
    root = Path("/sys/fs/cgroup")
    return {
        str(path) for pattern in ("virtlab-*", "*/virtlab-*", "*/*/virtlab-*") for path in root.glob(pattern)
    }
