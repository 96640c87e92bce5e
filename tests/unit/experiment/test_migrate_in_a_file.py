"""`migrate` as a file says it, and as the Plan has it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from virtlab.errors import ExperimentError
from virtlab.experiment import load
from virtlab.planner import plan_run

FILE = """\
version: 1
name: move
title: A guest moves
hosts:
  h1: {platform: qemu}
  h2: {}
  h3: {}
topology: star
link: {rate: 100 Mbit/s}
network: {arp: live}
roles:
  probe: {workload: rtt, from: h3.g1, to: h1.g1, size: 1000 B ip_packet, interval: 5 ms, count: 5000}
timeline:
  - {id: load, do: start, role: probe}
  - {id: go, do: migrate, MOVE, after: load.started + 1 s}
  - {id: end, do: stop, role: probe, after: {any: [go.finished, go.cancelled]}}
windows: {measured: {from: load.started, to: end.done}}
repeat: {minimum: 2}
"""


def loaded(folder: Path, move: str) -> Any:
    path = folder / "move.yaml"
    path.write_text(FILE.replace("MOVE", move))
    return load(path)


@pytest.mark.slow
def test_every_key_is_in_the_plan(tmp_path: Path) -> None:
    move = (
        "guest: h1.g1, to: h2, mode: pre_copy, over: machine, bandwidth: 240 Mbit/s, downtime_limit: 100 ms"
    )
    more = "rounds_limit: 9, auto_converge: true, compression: zlib, connections: 4"
    experiment = loaded(tmp_path, f"{move}, {more}, timeout: 30 s, on_timeout: cancel")
    action = plan_run(experiment, experiment.points()[0], 0).timeline[1]
    assert (action.do, action.guest, action.to, action.mode, action.over) == (
        "migrate", "h1.g1", "h2", "pre_copy", "machine",
    )  # fmt: skip
    assert (action.bandwidth_byte_per_s, action.downtime_limit_ns) == (30_000_000, 100_000_000)
    assert (action.rounds_limit, action.auto_converge, action.compression, action.connections) == (
        9,
        True,
        "zlib",
        4,
    )
    assert (action.timeout_ns, action.on_timeout) == (30_000_000_000, "cancel")
    asked = loaded(
        tmp_path,
        f"{move.replace('pre_copy', 'post_copy')}, recover_after: 2 s, timeout: 30 s, on_timeout: fail",
    )
    assert plan_run(asked, asked.points()[0], 0).timeline[1].recover_after_ns == 2_000_000_000


@pytest.mark.parametrize(
    ("move", "words"),
    [
        ("guest: h1.g1", "'to' is missing"),
        ("guest: h1.g1, to: h7", "there is no host 'h7'"),
        ("guest: h9.g1, to: h2", "there is no guest 'h9.g1'"),
        ("guest: h1.g1, to: h2, mode: warm", "warm"),
        ("guest: h1.g1, to: h2, over: air", "air"),
        ("guest: h1.g1, to: h2, bandwidth: 30 MB", "MB"),
        ("guest: h1.g1, to: h2, bandwidth: 0 B/s", "at least 1 B/s"),
        ("guest: h1.g1, to: h2, downtime_limit: 0 ms", "downtime_limit"),
        ("guest: h1.g1, to: h2, rounds_limit: 0", "rounds_limit"),
        ("guest: h1.g1, to: h2, auto_converge: perhaps", "perhaps"),
        ("guest: h1.g1, to: h2, compression: rar", "rar"),
        ("guest: h1.g1, to: h2, stop: 3", "unknown key 'stop'"),
    ],
)
def test_a_mistake_is_told_at_its_place(tmp_path: Path, move: str, words: str) -> None:
    with pytest.raises(ExperimentError) as caught:
        loaded(tmp_path, f"{move}, timeout: 30 s")
    assert words in "\n".join(caught.value.lines())
