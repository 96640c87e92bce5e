"""The OCI runtime of this machine: runc, else crun; $VIRTLAB_RUNTIME names one of them.

Both take the same bundle. podman and docker run containers by one of these two, but through daemons or shims of their own,
which would not end with the private world; so they are asked for root file systems only (`virtlab image add`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache

RUNTIMES = ("runc", "crun")
FORCED = "VIRTLAB_RUNTIME"
CURE = "install runc (or crun)"


@dataclass(frozen=True, slots=True)
class Runtime:
    """A runtime: its name, and where it is."""

    name: str
    path: str
    pivots: bool = (
        True  # False where the root file system is the kernel's first one, which cannot be put away
    )

    def run(self, state: str, bundle: str, container: str, *, descriptors: int, rootless: bool) -> list[str]:
        """The command that runs a container in the foreground, with so many descriptors from 3 on."""
        argv = [self.path, "--root", state]
        if self.name == "crun":
            argv.append(f"--cgroup-manager={'disabled' if rootless else 'cgroupfs'}")
        how = [] if self.pivots else ["--no-pivot"]
        return [
            *argv, "run", *how, f"--preserve-fds={descriptors}", "--no-new-keyring", f"--bundle={bundle}", container,
        ]  # fmt: skip


def find() -> Runtime | None:
    """The runtime that is used here; None when there is none."""
    forced = os.environ.get(FORCED)
    for name in (forced,) if forced in RUNTIMES else RUNTIMES:
        path = shutil.which(name)
        if path is not None:
            return Runtime(name, path)
    return None


@cache
def version(path: str) -> str:
    """The first line of what it says of itself."""
    done = subprocess.run(
        [path, "--version"], capture_output=True, text=True, timeout=10, check=False, stdin=subprocess.DEVNULL
    )
    return done.stdout.partition("\n")[0].strip() or path


def missing() -> str | None:
    """Why no container can be run here; None when one can."""
    if find() is not None:
        return None
    forced = os.environ.get(FORCED)
    names = forced if forced in RUNTIMES else " and ".join(RUNTIMES)
    return f"{names} {'is' if forced in RUNTIMES else 'are'} missing"
