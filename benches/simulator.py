"""The simulator's speed: hosts on one switch, each sending at half of its link, statistics on (`virtlab bench star`).

Goals: 3.5 million delivered packets per CPU second for 32 hosts and 3 million for 128, Poisson arrivals; 17 MiB of memory.
With constant arrivals every one-way delay must be exact: the bench fails when it is not.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from virtlab.simulator.yardstick import star

SECONDS = 4
DELAY_NS = 244_160
GOALS = {32: 3_500_000, 128: 3_000_000}
ARRIVALS: tuple[Literal["poisson", "constant"], ...] = ("poisson", "constant")


def bench() -> Iterator[dict[str, Any]]:
    """Delivered packets per CPU second on one thread, for two sizes and both kinds of arrivals."""
    for hosts, goal in GOALS.items():
        for arrivals in ARRIVALS:
            found = star(hosts, arrivals, SECONDS * 10**9)
            if arrivals == "constant" and set(found["delay_ns"].values()) != {DELAY_NS}:
                raise AssertionError(f"one-way delays {found['delay_ns']} ns, not {DELAY_NS} ns alone")
            value = found["packets_per_cpu_s"]
            yield {"name": "simulator.star", "unit": "packets/cpu_s", "value": value, "goal": goal, **found}
