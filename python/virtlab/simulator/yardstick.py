"""How fast the simulator's core is: hosts on one switch, each sending at half of its link, statistics on.

100 Mbit/s, queues of 100 packets, 1500 B IP packets of 123.04 us each. `constant`: host i to host i + 1 every
246.08 us, first at i * 246.08 us / N; no two hosts share a link, so every one-way delay is two serialisations,
244.16 us. `poisson`: exponential gaps of that mean, each packet to one of the other hosts at random.

CPU time is this thread's while it plays. Memory is what the core adds: the peak of the process's resident set while the
world is built and played, less what it held before; the interpreter's own share is several times that.
"""

from __future__ import annotations

import ctypes
import time
from pathlib import Path
from typing import Any, Literal

from virtlab.errors import ExperimentError

EVENTS_AT_ONCE = 500_000  # between two looks at the signals


def _status_bytes(field: str) -> int:
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{field}:"):
            return int(line.split()[1]) * 1024
    return 0


def _give_back() -> None:
    """Has the allocator return what is free, so that the core cannot grow into it unseen. glibc alone can."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def star(
    hosts: int, arrivals: Literal["constant", "poisson"], duration_ns: int, seed: int = 1
) -> dict[str, Any]:
    """Plays a star for so much virtual time.

    `packets` delivered, `undelivered` (dropped by full queues), `events`, `cpu_s`, `packets_per_cpu_s`,
    `peak_rss_bytes` of the core, `delay_ns`: least, quantiles (to 1/64), largest. ExperimentError for fewer than
    two hosts.
    """
    from virtlab._native import Star

    _give_back()
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak begins again: proc(5)
    before_bytes = _status_bytes("VmRSS")
    try:
        world = Star(hosts, arrivals == "poisson", duration_ns, seed)
    except ValueError as error:
        path, reason, cure = error.args[0][0]
        raise ExperimentError(path, reason, cure) from error
    begun = time.thread_time()
    while not world.play(EVENTS_AT_ONCE):
        pass
    cpu_s = time.thread_time() - begun
    peak_bytes = _status_bytes("VmHWM") - before_bytes
    found: dict[str, Any] = world.figures()
    return {
        "hosts": hosts,
        "arrivals": arrivals,
        "packets": found["packets"],
        "undelivered": found["undelivered"],
        "events": found["events"],
        "cpu_s": round(cpu_s, 4),
        "packets_per_cpu_s": round(found["packets"] / cpu_s),
        "peak_rss_bytes": peak_bytes,
        "delay_ns": found["delay_ns"],
    }
