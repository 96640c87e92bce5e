"""Busy neighbours: processes that do nothing but use a processor, as long as a block of code runs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def hogs(count: int) -> Iterator[None]:
    """So many of them; they end with the block, and with this process."""
    watch = "import os, sys\nparent = os.getppid()\nwhile os.getppid() == parent:\n    sum(range(100_000))\n"
    running = [subprocess.Popen([sys.executable, "-c", watch]) for _ in range(count)]
    try:
        yield
    finally:
        for one in running:
            one.kill()
        for one in running:
            one.wait()
