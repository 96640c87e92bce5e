"""One testbed run at a time per machine: two of them would measure each other.

Root's lock is a file in a folder where only root writes; every user can open it to read, which is enough to lock
it. An ordinary user makes one in the folder that all users share, /run/lock (where that is missing or another has
spoilt it: in the user's runtime folder, then in the temporary folder, and that user's runs exclude each other
alone). A run holds both of those that exist, in this order, so root and all users exclude each other. No process
writes into a file of another user, follows a link, or shows what another wrote: in that case the kernel says which
process holds the lock.

What this cannot prevent: a user who may open the lock can hold it for ever. `--no-wait` names the process.
"""

from __future__ import annotations

import os
import stat
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from virtlab.errors import MachineError
from virtlab.results import FileLock, Holder
from virtlab.results.dataset import now

ROOT_FOLDER = Path("/run/virtlab")
SHARED_FOLDER = Path("/run/lock")
FILE_NAME = "virtlab-machine.lock"
ASK_AGAIN_S = 0.2


def places() -> list[tuple[Path, bool]]:
    """Folders of the lock, in the order in which they are taken, and whether this user makes it there (in the
    first).
    """
    root = os.geteuid() == 0
    more = [Path(runtime)] if (runtime := os.environ.get("XDG_RUNTIME_DIR")) else []
    own = [(folder, True) for folder in (*more, Path(tempfile.gettempdir()))]
    return [(ROOT_FOLDER, root), (SHARED_FOLDER, not root), *own]


class MachineLock:
    """Held while a testbed is run. A context manager that gives it back."""

    def __init__(self, purpose: str, *, folder: Path | None = None) -> None:
        self._purpose = purpose
        self._places = [(folder, True)] if folder is not None else places()
        self._locks: list[FileLock] = []

    def _try(self) -> FileLock | None:
        """None once all are held that have to be; else the one that another holds, and then none is held."""
        holder = Holder(os.getpid(), self._purpose, now())
        problem: OSError | None = None
        made = False
        for folder, make in self._places:
            if make and made:
                continue
            lock = FileLock(folder / FILE_NAME, make=make)
            try:
                if make and folder == ROOT_FOLDER:
                    _make_root_folder()
                free = lock.acquire(holder)
            except OSError as error:
                problem = problem or (error if make else None)
                continue
            if not free:
                self.release()
                return lock
            self._locks.append(lock)
            made = made or make
        if made:
            return None
        self.release()
        where = ", ".join(str(folder) for folder, make in self._places if make)
        raise MachineError(
            "machine lock",
            f"cannot be taken in {where} ({problem})",
            "set XDG_RUNTIME_DIR to a folder of your own",
        )

    def acquire(
        self,
        *,
        wait: bool,
        waiting: Callable[[Holder | None], None] = lambda _holder: None,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> bool:
        """True once held; False when cancelled while waiting. `waiting` is called once per holder.

        MachineError when another run holds it and `wait` is false, or when no place for the lock is usable.
        """
        told: Holder | None = None
        first = True
        while True:
            lock = self._try()
            if lock is None:
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
        while self._locks:
            self._locks.pop().release()

    def __enter__(self) -> MachineLock:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


def _make_root_folder() -> None:
    """OSError where somebody else could put files there."""
    ROOT_FOLDER.mkdir(exist_ok=True)
    state = ROOT_FOLDER.lstat()
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != 0 or state.st_mode & 0o022:
        raise PermissionError(f"{ROOT_FOLDER} is not root's alone")
    ROOT_FOLDER.chmod(0o755)  # whatever the umask: others are to see the lock
