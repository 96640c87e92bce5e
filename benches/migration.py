"""Measured migrations beside their model: total, pause and blackout of guests of 256 MB that write to their memory.

The parameters of the model come from separate runs: V and R from guests that write nothing, at each bandwidth; set-up
and re-convergence from the same, medians. The pause is a line over the bytes that are sent in it, as QEMU counts them:
state + bytes / rate. QEMU does not limit that rate, and reads once more which pages are dirty. Its two numbers come
from guests that write at other rates than those that are judged, and from some that are paused early, with more left:
the median of all slopes between two of them (Theil and Sen), and the median of what it leaves. Guests that write
nothing are left out of it: what is sent in their pause comes to pages that the destination has never touched, and so
later (`first_touch_s`). D is what the writer counted before its guest moved. Each migration has a world of its own. On
a machine that does other things meanwhile the figures say nothing: the load is told beside them.

The blackout of a client every 1 ms is explained by the longer of two: set-up, in which QEMU holds an emulated guest up,
and pause and re-convergence.

VIRTLAB_MOVES is how many guests move beside those of the parameters (24; the first 8 have every rate once). With
VIRTLAB_MOVES_KEPT=FILE each move is a line of that file, and what is there is not moved again: an interrupted bench
goes on.

Before them, and without a testbed, the CPU time in which the simulator plays a guest of 14 GB whose copy crosses links
of 1 Gbit/s as a fluid.
"""

from __future__ import annotations

import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "testbed"))
sys.path.insert(0, str(Path(__file__).parents[1] / "python"))

import machine_world as machines
import numpy as np
import testbed_world as worlds
from _skipped import skipped
from migration_world import S, moving_plan, three_hosts

from virtlab.analysis.moves import around
from virtlab.experiment import load_text
from virtlab.plan import Plan, Trial
from virtlab.planner import plan_run
from virtlab.prediction.migration import Fixed, Moved, Policy, courses
from virtlab.simulator import Simulator
from virtlab.testbed import Testbed

MEMORY_BYTES = 256 << 20
WORKING_SET_BYTES = 64 << 20
PAGE_BYTES = 4096
LIMIT_NS = 100_000_000
EVERY_NS = 1_000_000  # of the client
BANDWIDTHS = (60_000_000, 80_000_000, 100_000_000)
RATES = (
    1_000_000,
    40_000_000,
    20_000_000,
    5_000_000,
    30_000_000,
    10_000_000,
    25_000_000,
    15_000_000,
)  # first the ends
MOVES = len(RATES) * len(BANDWIDTHS)
WRITING = (7_500_000, 17_500_000, 35_000_000)  # rates of guests that give the pause, at each bandwidth
EARLY = (10_000_000, 40_000_000)  # of those that are paused after their first round
STILL = 3  # moves of a guest that writes nothing, at each bandwidth: a single one may have met other work
FLUID_CPU_S_MAX = 2.0
FLUID = """
version: 1
name: fluid
hosts: {h1: {platform: qemu, memory: 14 GB}, h2: {}, h3: {}}
topology: star
link: {rate: 1 Gbit/s}
network: {arp: live}
roles: {client: {workload: rtt, from: h3.g1, to: h1.g1, interval: 100 ms, count: 100000}}
timeline:
  - {id: load, do: start, role: client}
  - {id: go, do: migrate, guest: h1.g1, to: h2, over: network, timeout: 200 s, after: load.started + 1 s}
  - {id: end, do: stop, role: client, after: go.finished + 1 s}
windows: {measured: {from: load.started, to: end.done}}
"""
TOTAL_RATIO_MAX, PAUSE_RATIO_MAX, PAUSE_MAX_S = 0.1, 0.1, 0.01


@dataclass(frozen=True, slots=True)
class Measured:
    """One migration, in seconds, bytes and byte/s."""

    total_s: float
    pause_s: float
    setup_s: float
    sent_bytes: float
    rounds: float
    dirty_byte_per_s: float
    blackout_s: float | None
    load: float  # of the machine, afterwards
    reconvergence_s: float | None = None
    paused_bytes: float = 0.0  # of those that were sent, in the pause


@dataclass(frozen=True, slots=True)
class Kept:
    """Moves that were measured, by what was asked for; a line of `file` each."""

    file: Path | None
    found: dict[str, Measured]

    @classmethod
    def of(cls, name: str | None) -> Kept:
        """Those of a file, or none yet."""
        file = Path(name) if name else None
        lines = file.read_text(encoding="utf-8").splitlines() if file is not None and file.exists() else []
        rows = [json.loads(line) for line in lines]
        return cls(file, {row["asked"]: Measured(**row["measured"]) for row in rows})

    def move(self, bandwidth: int, dirty: int, again: int = 0, **more: int) -> Measured:
        """Measured once; `again` tells those apart that are asked for several times."""
        asked = json.dumps([bandwidth, dirty, again, more])
        if asked not in self.found:
            self.found[asked] = _move(bandwidth, dirty, **more)
            if self.file is not None:
                with self.file.open("a", encoding="utf-8") as out:
                    out.write(json.dumps({"asked": asked, "measured": asdict(self.found[asked])}) + "\n")
        return self.found[asked]


def pairs(count: int) -> list[tuple[int, int]]:
    """Bandwidth and dirty rate of so many moves: every rate once at bandwidths in turn, then at the next ones.

    >>> pairs(2)
    [(60000000, 1000000), (80000000, 40000000)]
    >>> len(set(pairs(24))), pairs(25)[24] == pairs(1)[0]
    (24, True)
    """
    return [
        (BANDWIDTHS[(at % len(RATES) + at // len(RATES)) % len(BANDWIDTHS)], RATES[at % len(RATES)])
        for at in (one % MOVES for one in range(count))
    ]


def bench() -> Iterator[dict[str, Any]]:
    """The fluid, then a line per migration, and how far the model is from all of them; or the reason that there are
    none.
    """
    yield _fluid()
    why = machines.missing()
    if why is not None:
        yield skipped("migration", why)
        return
    chosen = pairs(int(os.environ.get("VIRTLAB_MOVES", MOVES)))
    kept = Kept.of(os.environ.get("VIRTLAB_MOVES_KEPT"))
    still = {
        rate: [kept.move(rate, 0, again) for again in range(STILL)]
        for rate in sorted({rate for rate, _ in chosen})
    }
    every = [one for each in still.values() for one in each]
    slowest = min(still)
    sent_bytes = {rate: statistics.median(one.sent_bytes for one in each) for rate, each in still.items()}
    carried = {
        rate: statistics.median(
            (one.sent_bytes - one.paused_bytes) / (one.total_s - one.setup_s - one.pause_s) for one in each
        )
        for rate, each in still.items()
    }
    late_s = [one.reconvergence_s for one in every if one.reconvergence_s is not None]
    paused = [kept.move(rate, dirty) for rate in still for dirty in WRITING]
    paused += [kept.move(slowest, dirty, rounds_limit=1, downtime_limit_ns=1_000_000) for dirty in EARLY]
    state_s, in_pause = line([(one.paused_bytes, one.pause_s) for one in paused])
    fixed = Fixed(
        statistics.median(one.setup_s for one in every), state_s, statistics.median(late_s) if late_s else 0.0
    )
    yield {
        "name": "migration.parameters", "value": in_pause, "unit": "byte/s", "ratio": None,
        "peer": f"sent in the pause; {platform.release()}, load {os.getloadavg()[0]:.1f}", "goal": None,
        "setup_s": fixed.setup_s, "device_state_s": state_s, "reconvergence_s": fixed.reconvergence_s,
        "bandwidths_byte_per_s": carried,
        "first_touch_s": statistics.median(one.pause_s - state_s - one.paused_bytes / in_pause for one in every),
        "pauses": {
            name: [[one.paused_bytes, one.pause_s] for one in each] for name, each in (("still", every), ("writing", paused))
        },
    }  # fmt: skip
    totals, pauses, unexplained = [], [], []
    for at, (rate, dirty) in enumerate(chosen):
        measured = kept.move(rate, dirty, at // MOVES)
        total_s, pause_s = _modelled(sent_bytes[rate], measured, carried[rate], fixed, in_pause)
        totals.append(abs(total_s / measured.total_s - 1))
        pauses.append((abs(pause_s / measured.pause_s - 1), abs(pause_s - measured.pause_s)))
        explained_s = max(measured.setup_s, measured.pause_s + fixed.reconvergence_s)
        if measured.blackout_s is not None:
            unexplained.append(measured.blackout_s - explained_s)
        yield {
            "name": "migration.one", "value": measured.total_s, "unit": "s", "ratio": total_s / measured.total_s,
            "peer": "the model", "goal": None, "bandwidth_byte_per_s": rate,
            "dirty_byte_per_s": measured.dirty_byte_per_s, "rounds": measured.rounds, "pause_s": measured.pause_s,
            "paused_bytes": measured.paused_bytes,
            "modelled_pause_s": pause_s, "blackout_s": measured.blackout_s, "load": measured.load,
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
            "ratio": None, "peer": "set-up, or pause and re-convergence of separate runs; a client every 1 ms",
            "goal": None,
        }  # fmt: skip


def line(seen: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The pause of which nothing is sent, s, and the rate at which the rest is, byte/s, of (bytes, s): Theil and Sen's.

    >>> line([(0.0, 0.01), (1e6, 0.02), (2e6, 0.03), (4e6, 0.9)])
    (0.01, 100000000.0)
    """
    slopes = [
        (there[1] - here[1]) / (there[0] - here[0])
        for at, here in enumerate(seen)
        for there in seen[at + 1 :]
        if there[0] != here[0]
    ]
    slope = max(statistics.median(slopes), 1e-12)
    return max(statistics.median(seconds - slope * sent for sent, seconds in seen), 0.0), 1 / slope


def _fluid() -> dict[str, Any]:
    """CPU seconds of this process to play the move of 14 GB, and how long it takes in virtual time."""
    experiment = load_text(FLUID)
    plan = plan_run(experiment, experiment.points()[0], 0)
    sink = worlds.MemorySink()
    begun = time.process_time()
    with Simulator().open(plan, worlds.Patient()) as session:
        outcome = session.run(Trial("t0", 1), sink)
    cpu_s = time.process_time() - begun
    took_ns = outcome.marks["go.finished"].t_ns - outcome.marks["go.started"].t_ns
    return {
        "name": "migration.fluid", "value": cpu_s, "unit": "cpu_s", "ratio": None, "peer": "14 GB at 1 Gbit/s, simulated",
        "goal": f"<= {FLUID_CPU_S_MAX}", "virtual_s": took_ns / S,
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
    rows = _rows(sink, "memory", "memory/1")
    before = rows["end_ns"] <= began
    lasted_s = (rows["end_ns"][before] - rows["begin_ns"][before]).sum() / S
    replies = _rows(sink, "probe", "rtt/1")
    answered, ended = replies["sent_ns"] + replies["rtt_ns"], outcome.marks["go.finished"].t_ns
    gaps = around(
        answered, began, ended, next(event.t_ns for event in sink.events if event.what == "go.resumed")
    )
    return Measured(
        total_s=found["migration_time"] / S, pause_s=found["pause"] / S, setup_s=found["migration_setup"] / S,
        sent_bytes=found["migration_sent"], paused_bytes=found["migration_sent_paused"], rounds=found["migration_rounds"],
        dirty_byte_per_s=float(rows["written_pages"][before].sum()) * PAGE_BYTES / lasted_s,
        blackout_s=(gaps.longest[1] - gaps.longest[0]) / S if gaps is not None else None, load=os.getloadavg()[0],
        reconvergence_s=(gaps.of_pause[1] - gaps.resumed_ns) / S
        if gaps is not None and gaps.of_pause is not None and gaps.resumed_ns is not None else None,
    )  # fmt: skip


def _rows(sink: worlds.MemorySink, stream: str, schema: str) -> Mapping[str, Any]:
    found = [columns for name, kind, columns in sink.blocks if (name, kind) == (stream, schema)]
    return {name: np.concatenate([np.asarray(each[name]) for each in found]) for name in found[0]}


if __name__ == "__main__":
    for figure in bench():
        print(json.dumps(figure), flush=True)
