"""A device whose throughput is known: a switch port that HTB holds to a rate, found by a search for each frame size.

A frame of b bytes (header to checksum) takes b + 20 octet times, preamble and gap counted, so R lets R / (8 (b + 20))
of them through a second, whatever HTB's burst. Over that, a trial of T loses nothing while its excess fits into the
port's queue Q and burst, so the answer lies between the rate and (Q + burst) / T above it. The search's width comes on
top. Where a share l may be lost, all that is 1 / (1 - l) as much.

A machine that stalls loses frames at any load, in its sender or at the port, whose tokens are not kept beyond the
burst: so an answer that is too low is made again, with a longer queue and a share that may be lost, and one that is too
high never passes.
"""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
import testbed_world as worlds

from virtlab.analysis import run_values
from virtlab.campaign import open_dataset, run_campaign
from virtlab.experiment import load_text
from virtlab.metrics import MetricPath
from virtlab.results import Dataset
from virtlab.stats import mean_interval
from virtlab.testbed import Testbed

pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))

RATE_BIT_PER_S = 4_000_000
GAP_BYTES = 20
QUEUE_BYTES = 8_000  # 16 ms of the rate
ATTEMPTS = (
    (1, 0.0),
    (1, 0.0),
    (2, 0.005),
    (4, 0.01),
    (8, 0.02),
    (16, 0.05),
)  # so many such queues, and what may be lost
BURST_BYTES = 2 * 1538
TRIAL_S = 1.0
WIDTH = 0.02


def file(frame_bytes: int, exact_pps: float, queues: int = 1, loss: float = 0.0) -> str:
    limit_bytes = queues * QUEUE_BYTES
    return textwrap.dedent(f"""
        version: 1
        name: shaped-port
        hosts: 2
        topology: {{shape: line, switches: 1}}
        link: {{rate: 100 Mbit/s, realise: shaping}}
        links: {{s1-h2: {{rate: {RATE_BIT_PER_S} bit/s, queue: {{kind: fifo, limit: {limit_bytes} B, by: kernel}}}}}}
        roles:
          load: {{workload: raw_stream, from: h1.g1, to: h2.g1, size: {frame_bytes} B frame}}
        search:
          variable: load.rate
          low: {int(0.7 * exact_pps)} packet/s
          high: {int(1.4 * exact_pps)} packet/s
          method: bisection
          goals: [{{loss: {100 * loss:g} %, trial: {round(1000 * TRIAL_S)} ms, width: {100 * WIDTH:g} %}}]
          warmup: 200 ms
        timing: {{warmup: 0 s, pause: 0 s, drain: {100 + 8000 * limit_bytes // RATE_BIT_PER_S} ms}}
        collect: {{series: {{}}}}
        repeat: 1
    """)


def bounds(text: str, folder: Path) -> tuple[float, float] | None:
    """Lower and upper bound in frames per second; None when the machine left no run to trust."""
    experiment, backend = load_text(text), Testbed()
    able = backend.capabilities()
    with open_dataset(folder, text, name=experiment.name, seed=experiment.seed, backend=able) as dataset:
        run_campaign(experiment, dataset, backend)
    made = Dataset.open(folder)
    if not made.runs("ok"):
        return None
    table = run_values(made)
    low, high = (table.values(MetricPath("load", "ndr_rate", end)) for end in ("lower", "upper"))
    return (float(low[0]), float(high[0])) if len(low) and len(high) else None


@pytest.mark.parametrize("frame_bytes", [64, 128, 512, 1024, 1518])
def test_the_rate_of_a_shaped_port_is_found_within_the_width(frame_bytes: int, tmp_path: Path) -> None:
    exact = RATE_BIT_PER_S / (8 * (frame_bytes + GAP_BYTES))
    found: list[tuple[float, float]] = []
    for attempt, (queues, loss) in enumerate(ATTEMPTS):
        waiting = queues * QUEUE_BYTES / (frame_bytes - 4) + BURST_BYTES / (frame_bytes + GAP_BYTES) + 1
        one = bounds(file(frame_bytes, exact, queues, loss), tmp_path / str(attempt))
        if one is None:
            continue
        low, high = one
        found.append(one)
        assert high - low <= WIDTH * high + 1
        assert low <= (exact + waiting / TRIAL_S) / (1 - loss), "more came through than the port lets"
        if high >= exact:
            return
    if len(found) < len(ATTEMPTS):
        pytest.skip(
            "the machine starved the sender: it spoilt whole runs, so what is left of them proves nothing"
        )
    raise AssertionError(f"{exact:.0f} frames/s lie above every answer: {found}")


def test_searches_are_repeated_until_what_they_found_is_known_as_closely_as_asked(tmp_path: Path) -> None:
    exact = RATE_BIT_PER_S / (8 * (512 + GAP_BYTES))
    until = "repeat: {minimum: 2, maximum: 4, until: {metric: load.ndr_rate.found, relative_interval: 60 %}}"
    text = file(512, exact).replace("repeat: 1", until).replace("trial: 1000 ms", "trial: 200 ms")
    text = text.replace("width: 2 %", "width: 10 %")
    experiment, backend = load_text(text), Testbed()
    able = backend.capabilities()
    with open_dataset(
        tmp_path / "d", text, name=experiment.name, seed=experiment.seed, backend=able
    ) as dataset:
        run_campaign(experiment, dataset, backend)
    found = [
        float(value)
        for value in run_values(Dataset.open(tmp_path / "d")).values(MetricPath("load", "ndr_rate", "found"))
    ]
    if len(found) < 2:
        pytest.skip("the machine starved the sender in every attempt")
    assert len(found) <= 4
    interval = mean_interval(found, metric="ndr_rate", unit="1/s")
    assert interval is not None
    assert len(found) == 4 or (interval.relative_half_width or 0.0) <= 0.6
    room = (QUEUE_BYTES / 508 + BURST_BYTES / (512 + GAP_BYTES) + 1) / 0.2
    assert max(found) <= exact + room, "more came through than the port lets"
