"""Threads of processes of a world, looked at from outside: where the kernel lets each of them run.

A world has process numbers of its own, which are what its leader says. The kernel tells both numbers of each process to
those outside.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")


def ours(leader: int, proc: Path = PROC) -> dict[int, int]:
    """Number in its world -> our number, of all that a world's leader has started; `leader`: our child, which waits for
    the first process of that world.
    """
    families: dict[int, list[list[int]]] = {}  # by parent: the numbers of each process, ours first
    for folder in proc.iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError):
                parent, numbers = _relations((folder / "status").read_text("utf-8", errors="replace"))
                families.setdefault(parent, []).append(numbers)
    first = [numbers[0] for numbers in families.get(leader, ()) if numbers[1:2] == [1]]
    return {numbers[1]: numbers[0] for each in first for numbers in families.get(each, ()) if numbers[1:]}


def _relations(status: str) -> tuple[int, list[int]]:
    """A process's parent, and its own numbers from here inwards."""
    fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
    return int(fields.get("PPid", 0)), [int(number) for number in fields.get("NSpid", "").split()]


def masks(process: int, proc: Path = PROC) -> Iterator[tuple[str, frozenset[int]]]:
    """Each thread of a process that is there: its name, and the processors on which it may run."""
    threads: list[Path] = []
    with contextlib.suppress(OSError):
        threads = list((proc / str(process) / "task").iterdir())
    for thread in threads:
        with contextlib.suppress(OSError):  # it has ended
            yield (
                (thread / "comm").read_text("utf-8", errors="replace").strip(),
                frozenset(os.sched_getaffinity(int(thread.name))),
            )
