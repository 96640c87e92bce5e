"""One testbed run at a time per machine: two of them would measure each other.

The lock is a file that every user of the machine can open: in /run/lock where that exists, else in the user's
runtime folder (then one run per user), else in the system's temporary folder. It says who holds it.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from virtlab.errors import MachineError
from virtlab.results import FileLock, Holder
from virtlab.results.dataset import now

FILE_NAME = "virtlab-machine.lock"
ASK_AGAIN_S = 0.2


def folders() -> list[Path]:
    """Where the lock may lie, best first."""
    places = [Path("/run/lock")]
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
        places.append(Path(runtime))
    return [*places, Path(tempfile.gettempdir())]


class MachineLock:
    """Held while a testbed is run. A context manager that gives it back."""

    def __init__(self, what: str, *, folder: Path | None = None) -> None:
        self._what = what
        self._candidates = [folder] if folder is not None else folders()
        self._lock: FileLock | None = None

    def _try(self) -> tuple[bool, FileLock]:
        problem: OSError | None = None
        for folder in self._candidates:
            lock = FileLock(folder / FILE_NAME, mode=0o666)
            try:
                return lock.acquire(Holder(os.getpid(), self._what, now())), lock
            except OSError as error:
                problem = error
        places = ", ".join(str(folder) for folder in self._candidates)
        raise MachineError(
            "machine lock",
            f"cannot be taken in {places} ({problem})",
            "set XDG_RUNTIME_DIR to a folder of your own",
        )

    def acquire(
        self,
        *,
        wait: bool,
        waiting: Callable[[Holder | None], None] = lambda _holder: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> bool:
        """True once held; False when cancelled while waiting. `waiting` is told once per holder.

        MachineError when another run holds it and `wait` is false, or when no place for the lock is usable.
        """
        told: Holder | None = None
        first = True
        while True:
            held, lock = self._try()
            if held:
                self._lock = lock
                return True
            holder = lock.holder()
            if not wait:
                raise MachineError(
                    "machine lock",
                    f"another testbed run holds this machine: {holder or 'unknown'}",
                    "wait for it (run without --no-wait)",
                )
            if cancelled():
                return False
            if first or holder != told:
                waiting(holder)
                told, first = holder, False
            time.sleep(ASK_AGAIN_S)

    def release(self) -> None:
        """Gives it back; harmless when not held."""
        if self._lock is not None:
            self._lock.release()
            self._lock = None

    def __enter__(self) -> MachineLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
