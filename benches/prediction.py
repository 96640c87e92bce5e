"""Answers by simulation: how few runs a capacity takes, and how far predictions of known worlds are off.

The capacity is of the switched-network study: the most load that keeps a 99th percentile, of 86 levels. Its peer is
every level at the least number of runs. It is asked of guests that each wait for their host's wire, and of guests that
share one queue there (`.uplink`): that queue spreads the percentile, so that more runs are needed before levels beside
the limit are decided. The error is that of `virtlab validate` on a dataset simulated with a made-up profile that
validation does not see: what is left of it is the refit's own. Errors against measurements depend on the measurements.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from virtlab.campaign import CampaignObserver, run_campaign
from virtlab.experiment import load, load_text
from virtlab.experiment.overrides import find_input
from virtlab.prediction.questions.capacity import Question, ordered_levels, sizes
from virtlab.prediction.questions.limits import parse_limits
from virtlab.prediction.validation import GOAL, validate
from virtlab.results import Dataset
from virtlab.simulator import Simulator
from virtlab.simulator.profile import IDEAL_PROFILE, Parameter, Profile, Quantiles

FILE = Path(__file__).parents[1] / "experiments" / "switched-network" / "quick.yaml"
MADE_UP = Profile(
    "made-up",
    2,
    {
        "platform.namespace.send_ns": Parameter(5000),
        "platform.namespace.message_ns": Parameter(1000),
        "platform.namespace.crossing_ns": Parameter(300),
        "vswitch.linux_bridge.packet_ns": Parameter(700),
        "links.departure_ns": Parameter(2000),
    },
    {"wakeup.sleep": Quantiles((0.0, 0.9, 1.0), (15_000, 25_000, 80_000))},
)


def with_pushback(text: str, pushback: str) -> str:
    """The file's text where each host names its pushback. Seeds stay what they are, as no level changes."""
    place = "vswitch: linux_bridge}"
    if text.count(place) != 1:
        raise ValueError(f"{FILE.name} no longer has '{place}' once")
    return text.replace(place, f"vswitch: linux_bridge, pushback: {pushback}}}")


def bench() -> Iterator[dict[str, Any]]:
    """Runs per answer, time per answer, and the median errors of a refit."""
    experiment = load(FILE)
    for pushback, suffix in (("guest", ""), ("uplink", ".uplink")):
        asked = load_text(with_pushback(experiment.text, pushback), name=f"{FILE.name} with {pushback}")
        one = find_input(asked, "load")
        levels, _ = ordered_levels(one, first="0 kB", last="85 kB", step="1 kB")
        limits = parse_limits(["rtt.p99 < 2.5 ms"], asked.role_workloads(), "--until")
        begun = time.perf_counter()
        found = Question(asked, IDEAL_PROFILE, one, levels, {"switches": "1"}, limits).answer()
        seconds = time.perf_counter() - begun
        every = len(levels) * sizes(30)[0]
        yield {
            "name": f"prediction.capacity_runs{suffix}", "unit": "runs", "value": found.simulations,
            "ratio": found.simulations / every, "peer": "every level at the least number of runs",
            "largest": found.largest, "breaks": found.smallest_broken,
        }  # fmt: skip
        yield {
            "name": f"prediction.capacity_time{suffix}", "unit": "s", "value": round(seconds, 2),
            "explaining_runs": found.explaining,
        }  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="virtlab-bench-") as folder:
        place = Path(folder) / "known.results"
        with Dataset.create(
            place, experiment.text, name=experiment.name, seed=experiment.seed, backend="simulator"
        ) as dataset:
            run_campaign(experiment, dataset, Simulator(MADE_UP), CampaignObserver())
        for each in validate(Dataset.open(place)).overall:
            yield {
                "name": f"prediction.error.{each.path}", "unit": "ratio", "value": each.median, "goal": f"<= {GOAL}",
                "ratio": each.median / each.naive_median if each.naive_median else None, "peer": "nearest level",
            }  # fmt: skip
