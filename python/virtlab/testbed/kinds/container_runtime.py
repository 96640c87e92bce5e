"""What runs containers on this machine: an OCI runtime (runc, else crun), or podman; $VIRTLAB_RUNTIME names one of
them.

runc and crun take the bundle that we make. podman makes its own, by its user's configuration (`engine`), and calls
one of the two. docker runs containers in a daemon outside the private world, which would not end with it; so it is
used for root file systems only (`virtlab image add`).
"""

from __future__ import annotations

import os
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache

from virtlab.testbed.leader.environment import of_program

OCI = ("runc", "crun")
PODMAN = "podman"
RUNTIMES = (*OCI, PODMAN)
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

    @property
    def is_engine(self) -> bool:
        """Whether it makes bundles by itself."""
        return self.name not in OCI

    def run(self, state: str, bundle: str, container: str, *, descriptors: int, rootless: bool) -> list[str]:
        """The command that runs a container in the foreground, with so many descriptors from 3 on."""
        argv = [self.path, "--root", state]
        if self.name == "crun":
            argv.append(f"--cgroup-manager={'disabled' if rootless else 'cgroupfs'}")
        how = [] if self.pivots else ["--no-pivot"]
        return [
            *argv, "run", *how, f"--preserve-fds={descriptors}", "--no-new-keyring", f"--bundle={bundle}", container,
        ]  # fmt: skip


def find(wanted: str | None = None, *, among: tuple[str, ...] = RUNTIMES) -> Runtime | None:
    """The runtime of that name, else the one that is used here; None if none exists. `among`: those that would do."""
    for name in _names(wanted, among):
        path = shutil.which(name)
        if path is not None:
            return Runtime(name, path)
    return None


@cache
def version(path: str) -> str:
    """The first line of what it says of itself."""
    done = subprocess.run(
        [path, "--version"],
        capture_output=True,
        text=True,
        timeout=10,
        check=False,
        stdin=subprocess.DEVNULL,
        env=of_program(),
    )
    return done.stdout.partition("\n")[0].strip() or path


def missing(wanted: str | None = None) -> str | None:
    """Why no container can be run here (by that runtime); None when one can."""
    if find(wanted) is not None:
        return None
    if _unknown(wanted):
        return f"${FORCED} is '{os.environ[FORCED]}', which is not a runtime"
    names = _names(wanted, RUNTIMES)
    return f"{' and '.join(names)} {'is' if len(names) == 1 else 'are'} missing"


def cure(wanted: str | None = None) -> str:
    """The remedy, where no runtime can be used."""
    if _unknown(wanted):
        return f"unset {FORCED}, or set it to {', '.join(RUNTIMES[:-1])} or {RUNTIMES[-1]}"
    return CURE if wanted is None else f"install {wanted}, or write another 'runtime'"


def _names(wanted: str | None, among: tuple[str, ...]) -> tuple[str, ...]:
    """Those that are looked for, the first that is there counts."""
    if _unknown(wanted):
        return ()
    forced = wanted or os.environ.get(FORCED)
    if forced in among:
        return (str(forced),)
    return () if wanted is not None else tuple(name for name in among if name in OCI)


def _unknown(wanted: str | None) -> bool:
    """Whether the environment decides, and names an unknown runtime."""
    return not wanted and (os.environ.get(FORCED) or RUNTIMES[0]) not in RUNTIMES
