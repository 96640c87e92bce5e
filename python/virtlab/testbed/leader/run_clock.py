"""The run's clock: CLOCK_MONOTONIC_RAW of this machine, which all its agents share."""

from __future__ import annotations

import time


def raw_ns() -> int:
    """Now."""
    return time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
