"""What being pinned to a processor costs a router: steering frames there, and waiting there behind others' frames.

Echoes over one router are measured, whose processor is the sender's (`pin: none`) or always the same one (`pin: one`),
alone and beside a paced stream that it forwards as well.

| of an echo's path | laid to | in the simulator |
|---|---|---|
| pinned less not pinned, alone | two times `steer_ns` | a frame that comes to a pinned guest while it has nothing to do |
| pinned, loaded less alone | nothing of its own | frames take turns on their processor, each for what forwarding costs |

If the model is right, the second row needs no cost of its own. It is therefore compared with a simulation: what the
same load adds there, with the profile, is reported beside what it added. Intervals are of differences of means over
runs (Welch); a steered frame can be faster than one that is not, where it is then forwarded on a processor that was
idle: that is reported, and the cost is zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from virtlab.errors import ExperimentError
from virtlab.plan import Plan
from virtlab.prediction.calibration.contention import difference
from virtlab.prediction.calibration.designs import BESIDE, PIN, PROBE
from virtlab.prediction.calibration.rows import numbers_of, played
from virtlab.results import RunRecord
from virtlab.simulator.profile import Parameter, Profile

STEER = "platform.namespace.steer_ns"
STEERS = 2  # of an echo over one router
NOTHING = "not distinguishable from zero: runs differ by as much"


@dataclass(frozen=True)
class Steering:
    """What was found: `added_ns` to an echo's path by being pinned; `loaded_ns` by a load there, and as the model
    has it.
    """

    cost: Parameter | None = None
    added_ns: float | None = None
    loaded_ns: float | None = None
    modelled_ns: float | None = None
    why: str = ""

    def about(self) -> dict[str, Any]:
        """For the profile's account of its fit."""
        found: dict[str, Any] = {"pinned": self.why} if self.why else {}
        for name, value in (
            ("pinned_path_ns", self.added_ns),
            ("pinned_loaded_path_ns", self.loaded_ns),
            ("pinned_loaded_model_ns", self.modelled_ns),
        ):
            if value is not None:
                found[name] = round(value, 1)
        return found


def steering(records: Sequence[RunRecord], profile: Profile) -> Steering:
    """From all runs of the design; `profile` is what was fitted without them."""
    found: dict[tuple[str, str], list[float]] = {}
    plans: dict[tuple[str, str], Plan] = {}
    for record in records:
        point = record.plan.point
        numbers = numbers_of(record, PROBE) if BESIDE in point and PROBE in record.plan.roles else None
        if numbers is not None:
            key = (str(point[PIN]), str(point[BESIDE]))
            found.setdefault(key, []).append(numbers[0]["path"][0])
            plans.setdefault(key, record.plan)
    pinned, free = found.get(("one", "alone"), []), found.get(("none", "alone"), [])
    if not pinned or not free:
        return Steering(
            why="not identified: no run over a pinned router, or none over one that is not, has echoes enough"
        )
    added, half = difference(pinned, free)
    each = max(0.0, added / STEERS)
    low = None if half is None else max(0.0, (added - half) / STEERS)
    high = None if half is None else max(0.0, (added + half) / STEERS)
    known = low is not None and low > 0
    cost = Parameter(each, low, high, known, "" if known else NOTHING)
    loaded = found.get(("one", "loaded"), [])
    if not loaded:
        return Steering(cost, added)
    whole = Profile(profile.name, profile.processors, {**profile.parameters, STEER: cost}, profile.tables)
    try:
        model = [played(plans["one", beside], whole, PROBE)["path"][0] for beside in ("loaded", "alone")]
    except (ExperimentError, KeyError):
        return Steering(cost, added, difference(loaded, pinned)[0])
    return Steering(cost, added, difference(loaded, pinned)[0], model[0] - model[1])
