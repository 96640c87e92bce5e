"""An ordinary user's libvirt daemon for one test: it looks after nothing of this machine, and ends with the test."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

DAEMON = shutil.which("libvirtd") or "/usr/sbin/libvirtd"
NOBODY = 65_534
START_TIMEOUT_S = 30
END_TIMEOUT_S = 20


def missing() -> str | None:
    """Which program is missing, or None."""
    for program, package in ((DAEMON, "libvirt-daemon"), ("setpriv", "util-linux")):
        if shutil.which(program) is None:
            return f"{program} is missing ({package})"
    return None


def as_a_user(home: Path) -> list[str]:
    """Words before a command that run it as an ordinary user at home in this folder; all in it is the user's then."""
    places = {
        "HOME": home,
        "XDG_RUNTIME_DIR": home,
        "XDG_CONFIG_HOME": home / "c",
        "XDG_CACHE_HOME": home / "k",
    }
    words = ["env", *(f"{name}={place}" for name, place in places.items())]
    if os.geteuid() != 0:
        return words
    for path in (home, *home.rglob("*")):
        os.chown(path, NOBODY, NOBODY)
    return ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups", *words]


@contextmanager
def daemon(user: Sequence[str], socket: Path, errors: Path, *options: str) -> Iterator[None]:
    """A daemon that answers at `socket` while the block runs; skips the test where it does not run."""
    with errors.open("wb") as said:
        argv = [*user, DAEMON, *options, "--timeout", "120"]
        process = subprocess.Popen(argv, stdout=said, stderr=said)
        try:
            deadline = time.monotonic() + START_TIMEOUT_S
            while not socket.exists():
                if process.poll() is not None or time.monotonic() > deadline:
                    pytest.skip("libvirtd does not run here as an ordinary user")
                time.sleep(0.1)
            yield
        finally:
            process.terminate()
            try:
                process.wait(END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
