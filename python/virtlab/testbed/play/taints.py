"""What makes a run's numbers unfit: reasons to repeat it (tainted), and reasons that no repetition cures (failed)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from virtlab.agents.replies import STARVED, Clocks
from virtlab.testbed.build.pools import TOGETHER
from virtlab.testbed.play.reasons import Reason

SOFT_SWITCH = "soft switch"
LATE_SHARE_MAX = 0.005  # of frames that left the soft switch more than 200 us after their computed departure
LATE_MAX_MS = 20  # of any frame: that is more than any discipline or link of it takes
STALL_NS = 20_000_000  # a process in the way of packets that did not run for so long
REALTIME_STEP_NS = 1_000_000


def switch_taints(stats: Mapping[str, Any]) -> tuple[list[Reason], list[Reason]]:
    """(tainted, failed) from the soft switch's `stats` over a run."""
    tainted, failed = [], []
    lateness = stats.get("lateness", {})
    share = float(lateness.get("late_share", 0.0))
    if lateness.get("count") and share > LATE_SHARE_MAX:
        p99 = int(lateness.get("p99_ns", 0)) / 1000
        tainted.append(
            Reason(
                SOFT_SWITCH,
                f"{share:.2%} of frames left more than 200 us late (p99 {p99:.0f} us, limit {LATE_SHARE_MAX:.1%})",
            )
        )
    if stats.get("standstills"):
        longest_ns = int(stats.get("standstill_max_ns", 0))
        tainted.append(stood_still(SOFT_SWITCH, "it", stats["standstills"], longest_ns))
    longest_ms = int(lateness.get("max_ns", 0)) / 1e6
    if longest_ms >= LATE_MAX_MS:
        tainted.append(Reason(SOFT_SWITCH, f"a frame left {longest_ms:.0f} ms late (limit {LATE_MAX_MS} ms)"))
    if stats.get("clock_steps"):
        tainted.append(Reason(SOFT_SWITCH, f"the realtime clock stepped {stats['clock_steps']} times"))
    for port, counters in stats.get("ports", {}).items():
        if counters.get("ring_drops"):
            tainted.append(
                Reason(
                    SOFT_SWITCH,
                    f"{counters['ring_drops']} frames dropped by the ring of {port}: it was too slow",
                )
            )
        if counters.get("oversize"):
            failed.append(
                Reason(
                    "links",
                    f"{counters['oversize']} frames above the MTU came in at {port}; turn segmentation offloads off",
                )
            )
        if counters.get("bad_checksum"):
            failed.append(
                Reason(
                    "links",
                    f"{counters['bad_checksum']} frames without a finished checksum came in at {port}; "
                    "turn the sender's checksum offload off",
                )
            )
    return tainted, failed


def disk_taints(disks: Sequence[Mapping[str, Any]]) -> list[Reason]:
    """The taints of disks that the leader serves, over a run: a thread that stood still took time that no model has."""
    return [
        stood_still(
            str(disk["name"]).removeprefix(TOGETHER),
            "what serves it",
            disk["standstills"],
            disk["standstill_max_ns"],
        )
        for disk in disks
        if disk["standstills"]
    ]


def stood_still(where: str, who: str, times: int, longest_ns: int) -> Reason:
    """What does work for others was kept from it."""
    longest_ms = int(longest_ns) / 1e6
    return Reason(
        where, f"{who} stood still {times} times for 20 ms or longer, at most {longest_ms:.0f} ms", STARVED
    )


def clock_taint(before: Clocks, after: Clocks) -> list[Reason]:
    """Whether CLOCK_REALTIME, which kernel packet stamps are of, moved against CLOCK_MONOTONIC_RAW during the run."""
    step = (after["realtime_ns"] - before["realtime_ns"]) - (after["raw_ns"] - before["raw_ns"])
    # A disciplined clock runs up to 500 ppm off the raw one; what is beyond that is a step.
    allowed = REALTIME_STEP_NS + (after["raw_ns"] - before["raw_ns"]) * 500 // 1_000_000
    if abs(step) > allowed:
        return [Reason("clock", f"CLOCK_REALTIME stepped by {step / 1e6:.1f} ms against CLOCK_MONOTONIC_RAW")]
    return []
