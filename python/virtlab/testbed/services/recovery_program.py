"""What counts the copies that come back to a node that was wiped or away: a program beside the servers, by the
system's Python.

It is a file of the service, and needs nothing of virtlab. It is told what the node held, and looks for that in its
folder: a file that was lost is there again once it has blocks for all of its octets; an object that is a folder, once a
file is in it, as new as others have it. What others note as pending is there again once that note is gone. The node's
own servers are asked nothing. It looks so rarely that it takes a twentieth of a processor at most, and tells numbers by
the names that virtlab's own store has for them.
"""

from __future__ import annotations

import json
import signal
import stat
import sys
import time
from pathlib import Path
from typing import Any

NUMBERS = "virtlab: recovery "
RECOVERED = "virtlab: what was lost is there again"
LOOK_S = 0.02
REST = 19  # times as long as a look took
TELL_S = 1.0
BLOCK_BYTES = 512
SHARES = {"recovery_half_ns": 0.5, "recovery_most_ns": 0.9}


def say(line: str) -> None:
    """Into the output of the service, in one piece."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def returned_bytes(path: Path, lost_bytes: int, wanted: str = "") -> int | None:
    """Octets of what is there again; None where it is not, not as a whole, or older than what is `wanted`."""
    try:
        state = path.lstat()
        if stat.S_ISDIR(state.st_mode):
            newest = max(path.iterdir(), default=None)  # a name begins with the time of its writing
            return newest.stat().st_size if newest is not None and newest.name >= wanted else None
    except OSError:
        return None
    whole = state.st_blocks * BLOCK_BYTES >= state.st_size
    return state.st_size if whole and (state.st_size > 0 or lost_bytes == 0) else None


class Recovery:
    """How far it is: what is missing still, and the times that were reached, counted from the loss."""

    def __init__(self, loss: dict[str, Any]) -> None:
        self.began_s: float = loss["began_s"]  # of the machine's monotonic clock
        self.left = {Path(path): size for path, size in loss["missing"].items()}  # octets of each
        self.awaited = [Path(path) for path in loss["beside"]]  # what is waited for, and not counted
        self.signs = [Path(path) for path in loss["signs"]]  # the first of them says that the loss is known
        self.newest: dict[str, str] = loss.get(
            "newest", {}
        )  # of objects that an older file does not make whole
        self.pending: bool = loss.get("pending", False)  # what is missing are notes, which go
        self.over = Path(loss["over"]) if loss["over"] else None  # a file: what is not there now was deleted
        self.missing, self.made, self.bytes = len(self.left), 0, 0
        self.times: dict[str, int] = {}

    def look(self) -> None:
        """Counts what has come."""
        over = self.over is not None and self.over.exists()
        known = any(path.exists() for path in self.signs)
        for path, lost_bytes in [*self.left.items()]:
            if self.pending:
                came = None if path.exists() else lost_bytes
            else:
                came = returned_bytes(path, lost_bytes, self.newest.get(str(path), ""))
            if came is not None:
                del self.left[path]
                self.made, self.bytes = self.made + 1, self.bytes + came
            elif over and not path.exists():
                del self.left[path]
                self.missing -= 1
        self.awaited = [path for path in self.awaited if not path.exists()]
        now_ns = round((time.monotonic() - self.began_s) * 1e9)
        if known or not self.left or (self.pending and self.made):
            self.signs = []
            self.times.setdefault("recovery_known_ns", now_ns)
        if "recovery_known_ns" not in self.times:
            return  # what is there again was written by clients
        if self.made:
            self.times.setdefault("recovery_first_ns", now_ns)
        for name, share in SHARES.items():
            if not self.left or (self.made and self.made >= share * self.missing):
                self.times.setdefault(name, now_ns)
        if not self.left:
            self.times.setdefault("recovery_whole_ns", now_ns)

    def numbers(self) -> dict[str, int]:
        """What is told."""
        counted = {
            "recovery_missing": self.missing,
            "recovery_made": self.made,
            "recovery_bytes": self.bytes,
        }
        return counted | self.times

    @property
    def done(self) -> bool:
        """Whether nothing is waited for any more."""
        return not self.left and not self.awaited


def main() -> None:
    """Looks until all is there again, or until it is asked to end: then it looks once more."""
    ended: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: ended.append(number))
    recovery = Recovery(json.loads(Path(sys.argv[1]).read_text()))
    said: dict[str, int] = {}
    said_s, times = 0.0, -1
    while True:
        began_s, last = time.monotonic(), bool(ended)
        recovery.look()
        if last or recovery.done:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # it ends now, as it was asked to
        numbers, now_s = recovery.numbers(), time.monotonic()
        if len(recovery.times) > times or (numbers != said and (last or now_s > said_s + TELL_S)):
            say(NUMBERS + json.dumps(numbers, separators=(",", ":")))
            said, said_s, times = numbers, now_s, len(recovery.times)
        if recovery.done:
            say(RECOVERED)
        if last or recovery.done:
            return
        rest_s = max(LOOK_S, REST * (time.monotonic() - began_s))
        while rest_s > 0 and not ended:
            time.sleep(min(rest_s, LOOK_S))
            rest_s -= LOOK_S


if __name__ == "__main__":
    main()
