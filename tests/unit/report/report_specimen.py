"""A dataset to report on, written through the real writer: Plans of a real experiment file, samples drawn
from a seed.

Delays follow what the file's factors would do (a frame's serialisation per link, a load that queues), so
plots look like plots; the numbers mean nothing. `hostile` puts markup into every name that a guest or an
author could choose.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from virtlab.experiment import load_text
from virtlab.plan import Mark, Outcome, Plan, Realised, RealisedObject
from virtlab.planner import plan_run
from virtlab.results import Dataset, RunKey

SCRIPT = "<script>alert(1)</script>"

FILE = """\
# Two hosts, a line of switches, a probe beside a bursty load.
version: 1
name: specimen
title: {title}
factors:
  switches: [1, 2]
  load: [0 B, 10 kB, 30 kB, 65 kB]
  streams: [1, 2]
hosts: 2
topology: {{shape: line, switches: "${{switches}}"}}
link: {{rate: 100 Mbit/s}}
roles:
  probe: {{workload: rtt, from: h1.g1, to: h2.g1, size: 1500 B ip_packet, interval: 10 ms, count: {count}}}
  stream: {{workload: udp_stream, from: h1.g1, to: h2.g1, size: 1472 B payload, duration: 1 s}}
  load: {{workload: burst_load, from: h1.g1, to: h2.g1, burst: "${{load}}", period: 10 ms, streams: "${{streams}}"}}
repeat: {repeat}
claims:
  - id: second-switch
    text: "probe.rtt.median: switches 1 < 2"
  - id: loss
    text: "stream.loss.ratio <= 0.1 %"
  - id: growth
    text: "probe.rtt.mean grows with load"
"""


def experiment_text(*, title: str = "A probe beside a load", count: int = 200, repeat: int = 3) -> str:
    """The experiment file of the specimen."""
    return FILE.format(title=title, count=count, repeat=repeat)


def write_dataset(
    path: Path,
    *,
    text: str | None = None,
    samples: int = 200,
    runs: int | None = None,
    hostile: bool = False,
    without: frozenset[int] = frozenset(),
    streams: bool = True,
    realisation: Any = lambda run: "soft_switch",
) -> Dataset:
    """A finished dataset: one run per point and repetition, in one order; points in `without` are never run.

    The first run is made twice: its first attempt is tainted. `runs` bounds their number, `realisation` gives
    the links' of each run, `streams` False keeps round trips only. The dataset is closed for writing.
    """
    text = text or experiment_text(title=f"'Bold {SCRIPT}'" if hostile else "A probe beside a load")
    experiment = load_text(text)
    pairs = [(point, r) for r in range(experiment.repeat.minimum) for point in experiment.points()]
    pairs = [pair for pair in pairs if pair[0].index not in without][:runs]
    with Dataset.create(
        path, text, name="specimen", seed=7, fingerprint={"kernel": "6.1 specimen"}
    ) as dataset:
        for number, (point, repetition) in enumerate(pairs):
            plan = plan_run(experiment, point, repetition)
            if number == 0:
                reason = f"late frames {SCRIPT}" if hostile else "3 % of the frames left late"
                first = RunKey(point.index, repetition, 0)
                _run(dataset, first, plan, samples, "tainted", (reason,), "soft_switch", streams=streams)
            key = RunKey(point.index, repetition, int(number == 0))
            _run(dataset, key, plan, samples, "ok", (), realisation(number), streams=streams)
    return Dataset.open(path)


def _run(
    dataset: Dataset,
    key: RunKey,
    plan: Plan,
    count: int,
    status: Any,
    reasons: tuple[str, ...],
    links: str,
    *,
    streams: bool,
) -> None:
    generator = np.random.default_rng([key.point, key.repetition, key.attempt])
    point = plan.point
    load_bytes = float(point["load"].split()[0]) * (1000 if "kB" in point["load"] else 1)
    scale = generator.normal(1.0, 0.01)
    base = 1e3 * (
        122.08 * 2 * (int(point["switches"]) + 1) + 60 + load_bytes / 125 * int(point["streams"]) ** 0.3
    )
    rtt = (base * scale * np.exp(generator.normal(0, 0.05, count))).astype(np.int64)
    seq = np.arange(count, dtype=np.int64)
    flow = np.zeros(count, dtype=np.int32)
    sent = 10**9 + seq * 10_000_000
    end = int(sent[-1]) + 10**9
    marks = {"warm.started": Mark(0), "measured.from": Mark(10**9)}
    for action in plan.timeline:
        marks[f"{action.id}.started"] = Mark(10**9)
        marks[f"{action.id}.finished"] = Mark(end)
    with dataset.begin_run(key, plan) as writer:
        writer.block(
            "probe",
            "rtt/1",
            {"seq": seq, "flow": flow, "intended_ns": sent, "sent_ns": sent + 900, "received_ns": sent + rtt,
             "rtt_ns": rtt, "path_rtt_ns": rtt - 30_000},
        )  # fmt: skip
        writer.block(
            "probe",
            "sent/1",
            {"seq": seq, "flow": flow, "intended_ns": sent, "sent_ns": sent + 900,
             "payload_bytes": np.full(count, 1472, dtype=np.int32)},
        )  # fmt: skip
        if streams:
            _stream(writer, generator, load_bytes / 6.5e6, rtt // 2)
        link = {"rate_bit_per_s": 100_000_000}
        realised = Realised(
            {
                **{f"links.{name}": RealisedObject(link, link, link, links) for name in plan.world.links},
                "guests.h1.g1.vnics.eth0": RealisedObject(
                    {"mtu_bytes": 1500},
                    {"mtu_bytes": 1500, "tx": "off"},
                    {"mtu_bytes": 1500, "tx": "on"},
                    "netlink",
                ),
            },
            {"agent": "specimen"},
        )
        writer.commit(
            Outcome(status, reasons, marks=marks, windows={"measured": (10**9, end)}), realised, {"build": 1}
        )


def _stream(writer: Any, generator: np.random.Generator, loss_ratio: float, owd: Any) -> None:
    kept = np.flatnonzero(generator.random(owd.size) >= loss_ratio)
    leaves = 10**9 + kept * 123_000
    writer.block(
        "stream",
        "packet/1",
        {"seq": kept, "flow": np.zeros(kept.size, dtype=np.int32), "sent_ns": leaves,
         "received_ns": leaves + owd[kept], "user_ns": leaves + owd[kept] + 20_000,
         "payload_bytes": np.full(kept.size, 1472, dtype=np.int32)},
    )  # fmt: skip
