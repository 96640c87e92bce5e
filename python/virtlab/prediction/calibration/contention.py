"""What busy neighbours cost: a process that wakes, and a frame that crosses a vNIC, while every processor has work.

Echoes between two guests are measured while k pairs of other guests flood each other, k = 0, 1, and as many as the
machine has processors. What k adds to the medians is laid to two things:

| of an echo | laid to | in the simulator |
|---|---|---|
| the process's part | `wakeup.busy`, a table | instead of the guest's own wake-ups while all processors are busy |
| the path's part | `busy.crossing_ns` | more for every crossing of a vNIC while all processors are busy |

Utilisation below full is not modelled: where a processor is free, a process wakes there as usual. What one pair
adds is reported beside, so that one sees whether that is so. A pair keeps two processors busy, its sender and its
receiver; the simulated receiver has pauses, so only as many pairs as processors are sure to keep all busy in either
world. Guests are not pinned: where they run is the kernel's choice, as in every other run. Routers that are pinned
to one are `steering`'s.

Intervals are of differences of means over runs (Welch). A run in which a process was starved is what this looks for, so
tainted runs count here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from virtlab.lazy import NDArray, np
from virtlab.prediction.calibration.designs import BUSY, PROBE
from virtlab.prediction.calibration.rows import numbers_of
from virtlab.prediction.calibration.spread import table
from virtlab.results import RunRecord
from virtlab.simulator.profile import Parameter, Profile, Quantiles
from virtlab.stats import contrast

CROSSINGS = 4  # of an echo between two guests of one host
SLEEP = "wakeup.sleep"


@dataclass(frozen=True)
class Contention:
    """What was found. `excess`: busy pairs -> what they add to medians of process and path in ns; `why` it is
    unknown.
    """

    table: Quantiles | None = None
    crossing: Parameter | None = None
    excess: Mapping[int, tuple[float, float]] | None = None
    why: str = ""

    def about(self) -> dict[str, Any]:
        """For the profile's account of its fit."""
        found: dict[str, Any] = {"busy": self.why} if self.why else {}
        for pairs, (process, path) in (self.excess or {}).items():
            found[f"busy_{pairs}_process_ns"] = round(process, 1)
            found[f"busy_{pairs}_path_ns"] = round(path, 1)
        return found


def pairs_of(record: RunRecord) -> int | None:
    """Busy pairs of guests in a run of this design; None for other runs."""
    if PROBE not in record.plan.roles or BUSY not in record.plan.point:
        return None
    return sum(name.startswith(BUSY) for name in record.plan.roles)


def contention(records: Sequence[RunRecord], base: Profile, processors: int) -> Contention:
    """From all runs of the design, beside the profile that was fitted without them."""
    found: dict[int, list[tuple[float, float]]] = {}
    spread: list[NDArray[Any]] = []
    for record in records:
        pairs = pairs_of(record)
        numbers = None if pairs is None else numbers_of(record, PROBE)
        if pairs is None or numbers is None:
            continue
        medians, deviations = numbers
        found.setdefault(pairs, []).append((medians["process"][0], medians["path"][0]))
        if pairs >= processors:
            spread.append(deviations["process"])
    full = [pairs for pairs in found if pairs >= processors]
    if SLEEP not in base.tables:
        return Contention(why="the fit has no wake-ups of guests that sleep to compare with")
    if not full or 0 not in found:
        return Contention(
            why=f"not identified: no run with {processors} busy pairs, or none without, has echoes enough"
        )
    alone = found[0]
    excess = {
        pairs: (_mean(runs, 0) - _mean(alone, 0), _mean(runs, 1) - _mean(alone, 1))
        for pairs, runs in sorted(found.items())
        if pairs
    }
    busy = [run for pairs in full for run in found[pairs]]
    wake, wake_half = difference([run[0] for run in busy], [run[0] for run in alone])
    path, path_half = difference([run[1] for run in busy], [run[1] for run in alone])
    median = max(0.0, float(np.interp(0.5, base.tables[SLEEP].probability, base.tables[SLEEP].ns)) + wake)
    drawn = table(spread, median)
    if wake_half is not None:
        drawn = Quantiles(drawn.probability, drawn.ns, max(0.0, median - wake_half), median + wake_half)
    each, half = max(0.0, path / CROSSINGS), None if path_half is None else path_half / CROSSINGS
    low = None if half is None else max(0.0, path / CROSSINGS - half)
    high = None if half is None else max(0.0, path / CROSSINGS + half)
    known = low is not None and low > 0
    why = "" if known else "not told from nothing: runs differ by as much"
    return Contention(drawn, Parameter(each, low, high, known, why), excess)


def _mean(runs: Sequence[tuple[float, float]], at: int) -> float:
    return sum(run[at] for run in runs) / len(runs)


def difference(busy: Sequence[float], alone: Sequence[float]) -> tuple[float, float | None]:
    """The difference of means over runs, and half its 95 % interval; None where a run stands alone."""
    found = contrast([np.array(busy), np.array(alone)], [1.0, -1.0])
    low, _ = found.interval(0.95)
    return found.value, None if low is None else found.value - low
