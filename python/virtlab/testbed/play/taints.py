"""What makes a run's numbers unfit: reasons to repeat it (tainted), and reasons that no repetition cures (failed)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from virtlab.agents.replies import Clocks
from virtlab.testbed.build.pools import TOGETHER

LATE_SHARE_MAX = 0.005  # of frames that left the soft switch more than 200 us after their computed departure
LATE_MAX_MS = 20  # of any frame: that is more than any discipline or link of it takes
STALL_NS = 20_000_000  # a process in the way of packets that did not run for so long
REALTIME_STEP_NS = 1_000_000


def switch_taints(stats: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """(tainted, failed) from the soft switch's `stats` over a run."""
    tainted, failed = [], []
    lateness = stats.get("lateness", {})
    share = float(lateness.get("late_share", 0.0))
    if lateness.get("count") and share > LATE_SHARE_MAX:
        p99 = int(lateness.get("p99_ns", 0)) / 1000
        tainted.append(
            f"soft switch: {share:.2%} of frames left more than 200 us late (p99 {p99:.0f} us, limit {LATE_SHARE_MAX:.1%})"
        )
    if stats.get("standstills"):
        longest_ms = int(stats.get("standstill_max_ns", 0)) / 1e6
        tainted.append(
            f"soft switch: starved: it stood still {stats['standstills']} times for 20 ms or longer, "
            f"at most {longest_ms:.0f} ms"
        )
    longest_ms = int(lateness.get("max_ns", 0)) / 1e6
    if longest_ms >= LATE_MAX_MS:
        tainted.append(f"soft switch: a frame left {longest_ms:.0f} ms late (limit {LATE_MAX_MS} ms)")
    if stats.get("clock_steps"):
        tainted.append(f"soft switch: the realtime clock stepped {stats['clock_steps']} times")
    for port, counters in stats.get("ports", {}).items():
        if counters.get("ring_drops"):
            tainted.append(
                f"soft switch: {counters['ring_drops']} frames dropped by the ring of {port}: it was too slow"
            )
        if counters.get("oversize"):
            failed.append(
                f"links: {counters['oversize']} frames above the MTU came in at {port}; turn segmentation offloads off"
            )
        if counters.get("bad_checksum"):
            failed.append(
                f"links: {counters['bad_checksum']} frames without a finished checksum came in at {port}; "
                "turn the sender's checksum offload off"
            )
    return tainted, failed


def disk_taints(disks: Sequence[Mapping[str, Any]]) -> list[str]:
    """The taints of disks that the leader serves, over a run: a thread that stood still took time that no model has."""
    told = []
    for disk in disks:
        if disk["standstills"]:
            name = str(disk["name"]).removeprefix(TOGETHER)
            longest_ms = int(disk["standstill_max_ns"]) / 1e6
            told.append(
                f"{name}: starved: what serves it stood still {disk['standstills']} times for 20 ms or longer, "
                f"at most {longest_ms:.0f} ms"
            )
    return told


def clock_taint(before: Clocks, after: Clocks) -> list[str]:
    """Whether CLOCK_REALTIME, which kernel packet stamps are of, moved against CLOCK_MONOTONIC_RAW during the run."""
    step = (after["realtime_ns"] - before["realtime_ns"]) - (after["raw_ns"] - before["raw_ns"])
    # A disciplined clock runs up to 500 ppm off the raw one; what is beyond that is a step.
    allowed = REALTIME_STEP_NS + (after["raw_ns"] - before["raw_ns"]) * 500 // 1_000_000
    if abs(step) > allowed:
        return [f"clock: CLOCK_REALTIME stepped by {step / 1e6:.1f} ms against CLOCK_MONOTONIC_RAW"]
    return []
