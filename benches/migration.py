"""Measured migrations beside their model: total, pause and blackout of guests of 256 MB that write to their memory.

The parameters of the model come from separate runs: V and R from guests that write nothing, at each bandwidth; the time
for the state of devices and the re-convergence from the same; and from one that is paused early how fast QEMU sends what
is left, which it does not limit. D is what the writer counted before its guest moved. Each migration has a world of its
own. On a machine that does other things meanwhile the figures say nothing: the load is told beside them.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "testbed"))
sys.path.insert(0, str(Path(__file__).parents[1] / "python"))

import machine_world as machines
import numpy as np
import testbed_world as worlds
from _skipped import skipped
from migration_world import S, moving_plan, three_hosts

from virtlab.analysis.moves import blackout
from virtlab.plan import Plan, Trial
from virtlab.prediction.migration import Fixed, Moved, Policy, courses
from virtlab.testbed import Testbed

MEMORY_BYTES = 256 << 20
WORKING_SET_BYTES = 64 << 20
PAGE_BYTES = 4096
LIMIT_NS = 100_000_000
EVERY_NS = 1_000_000  # of the client
BANDWIDTHS = (60_000_000, 80_000_000, 100_000_000)
RATES = (1_000_000, 5_000_000, 10_000_000, 15_000_000, 20_000_000, 25_000_000, 30_000_000, 40_000_000)
TOTAL_RATIO_MAX, PAUSE_RATIO_MAX, PAUSE_MAX_S = 0.1, 0.1, 0.01


@dataclass(frozen=True, slots=True)
class Measured:
    """One migration, in seconds, bytes and byte/s."""

    total_s: float
    pause_s: float
    setup_s: float
    sent_bytes: float
    before_pause_s: float  # from the request until it is paused
    rounds: float
    dirty_byte_per_s: float
    blackout_s: float | None


def bench() -> Iterator[dict[str, Any]]:
    """A line per migration, then how far the model is from all of them; or the reason that there are none."""
    why = machines.missing()
    if why is not None:
        yield skipped("migration", why)
        return
    still = {rate: _move(rate, 0) for rate in BANDWIDTHS}
    carried = {
        rate: one.sent_bytes / (one.total_s - one.setup_s - one.pause_s) for rate, one in still.items()
    }
    state_s = statistics.median(one.pause_s for one in still.values())
    late_s = [one.blackout_s - one.pause_s for one in still.values() if one.blackout_s is not None]
    fixed = Fixed(
        statistics.median(one.setup_s for one in still.values()),
        state_s,
        statistics.median(late_s) if late_s else 0.0,
    )
    cut = _move(BANDWIDTHS[0], RATES[-1], rounds_limit=1, downtime_limit_ns=1_000_000)
    left = cut.sent_bytes - carried[BANDWIDTHS[0]] * (cut.before_pause_s - cut.setup_s)
    in_pause = left / max(cut.pause_s - state_s, 1e-3)
    yield {
        "name": "migration.parameters", "value": in_pause, "unit": "byte/s", "ratio": None,
        "peer": f"sent in the pause; {platform.release()}, load {os.getloadavg()[0]:.1f}", "goal": None,
        "setup_s": fixed.setup_s, "device_state_s": state_s, "reconvergence_s": fixed.reconvergence_s,
        "bandwidths_byte_per_s": carried,
    }  # fmt: skip
    totals, pauses, unexplained = [], [], []
    for rate in BANDWIDTHS:
        for dirty in RATES:
            measured = _move(rate, dirty)
            total_s, pause_s = _modelled(still[rate].sent_bytes, measured, carried[rate], fixed, in_pause)
            totals.append(abs(total_s / measured.total_s - 1))
            pauses.append((abs(pause_s / measured.pause_s - 1), abs(pause_s - measured.pause_s)))
            explained_s = measured.pause_s + fixed.reconvergence_s
            if measured.blackout_s is not None:
                unexplained.append(measured.blackout_s - explained_s)
            yield {
                "name": "migration.one", "value": measured.total_s, "unit": "s", "ratio": total_s / measured.total_s,
                "peer": "the model", "goal": None, "bandwidth_byte_per_s": rate,
                "dirty_byte_per_s": measured.dirty_byte_per_s, "rounds": measured.rounds, "pause_s": measured.pause_s,
                "modelled_pause_s": pause_s, "blackout_s": measured.blackout_s, "load": os.getloadavg()[0],
            }  # fmt: skip
    yield {
        "name": "migration.total_error", "value": statistics.median(totals), "unit": "ratio", "ratio": None,
        "peer": f"the model, median of {len(totals)}", "goal": f"<= {TOTAL_RATIO_MAX}",
    }  # fmt: skip
    yield {
        "name": "migration.pause_error", "value": statistics.median(seconds for _, seconds in pauses), "unit": "s",
        "ratio": statistics.median(ratio for ratio, _ in pauses), "peer": f"the model, median of {len(pauses)}",
        "goal": f"<= {PAUSE_MAX_S} or ratio <= {PAUSE_RATIO_MAX}",
    }  # fmt: skip
    if unexplained:
        yield {
            "name": "migration.blackout_unexplained", "value": statistics.median(unexplained), "unit": "s",
            "ratio": None, "peer": "pause and re-convergence of separate runs; a client every 1 ms", "goal": None,
        }  # fmt: skip


def _modelled(
    memory: float, measured: Measured, carried: float, fixed: Fixed, in_pause: float
) -> tuple[float, float]:
    """Total and pause by the model, s. Its pause sends at R what QEMU sends as fast as it can."""
    guest = Moved(memory, measured.dirty_byte_per_s, WORKING_SET_BYTES, replace(fixed, reconvergence_s=0.0))
    (course,) = courses([guest], carried, Policy(rule="qemu", downtime_limit_s=LIMIT_NS / S))
    pause_s = fixed.device_state_s + (course.pause_s - fixed.device_state_s) * carried / in_pause
    return course.total_s - course.pause_s + pause_s, pause_s


def _move(bandwidth: int, dirty: int, **more: Any) -> Measured:
    plan = moving_plan(
        rate_byte_per_s=bandwidth, world=three_hosts(memory_bytes=MEMORY_BYTES),
        dirty={"rate_byte_per_s": dirty, "working_set_bytes": WORKING_SET_BYTES},
        **{"downtime_limit_ns": LIMIT_NS, **more},
    )  # fmt: skip
    values = plan.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    values["roles"]["probe"] |= {"interval_ns": EVERY_NS, "count": 100_000, "ip_packet_bytes": 84}
    sink = worlds.MemorySink()
    with Testbed().open(Plan.model_validate(values), worlds.Patient()) as session:
        outcome = session.run(Trial("t0", 1), sink)
    if "go.finished" not in outcome.marks:
        raise RuntimeError(f"the guest did not move: {outcome.reasons}")
    found = {
        str(metric): float(value)
        for stream, _, columns in sink.blocks
        if stream == "migration"
        for metric, value in zip(columns["metric"], columns["value"], strict=True)
    }
    began = outcome.marks["go.started"].t_ns
    paused = next(event.t_ns for event in sink.events if event.what == "go.paused")
    rows = _rows(sink, "memory", "memory/1")
    before = rows["end_ns"] <= began
    lasted_s = (rows["end_ns"][before] - rows["begin_ns"][before]).sum() / S
    replies = _rows(sink, "probe", "rtt/1")
    gap = blackout(replies["sent_ns"] + replies["rtt_ns"], began, outcome.marks["go.finished"].t_ns)
    return Measured(
        total_s=found["migration_time"] / S, pause_s=found["pause"] / S, setup_s=found["migration_setup"] / S,
        sent_bytes=found["migration_sent"], before_pause_s=(paused - began) / S, rounds=found["migration_rounds"],
        dirty_byte_per_s=float(rows["written_pages"][before].sum()) * PAGE_BYTES / lasted_s,
        blackout_s=(gap[1] - gap[0]) / S if gap is not None else None,
    )  # fmt: skip


def _rows(sink: worlds.MemorySink, stream: str, schema: str) -> Mapping[str, Any]:
    found = [columns for name, kind, columns in sink.blocks if (name, kind) == (stream, schema)]
    return {name: np.concatenate([np.asarray(each[name]) for each in found]) for name in found[0]}


if __name__ == "__main__":
    for figure in bench():
        print(json.dumps(figure), flush=True)
