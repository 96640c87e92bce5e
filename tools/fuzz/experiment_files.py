"""Experiment files: as `check` reads them and lists what they execute; those that are accepted become a Plan, of the
last design point, and that a simulated world, if the simulator plays it.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

from tools.fuzz.damage import CHARACTERS, NUMBERS, damaged

from virtlab.cli.guest_commands import lines
from virtlab.experiment import load_bytes
from virtlab.plan import Unobserved
from virtlab.planner import plan_run
from virtlab.simulator import Simulator
from virtlab.testbed.build import moves

COUNT = 100_000
ROOT = Path(__file__).parents[2]
FILES = [
    *(ROOT / "experiments").glob("*/*.yaml"),
    *(ROOT / "tests/golden/experiments").rglob("*.yaml"),
    *(ROOT / "tests/fuzz/experiments").iterdir(),
]
CONTENTS = [
    path.read_bytes()
    for path in sorted(FILES)
    if path.name not in {"figures.yaml", "statements.yaml"} and path.stat().st_size < 6000
]
WORDS = [
    *NUMBERS, *CHARACTERS, b"${load}", b"${", b"}", b"{", b"[", b"]", b": ", b"- ", b"&a ", b"*a", b"!!int ", b"|\n  ",
    b">", b"#", b"null", b"~", b"true", b"off", b"<<: *a", b"---\n", b"%YAML 1.1\n", b"? ", b"0 B", b"400 Gbit/s",
    b"1500 B ip_packet", b"h1.g1", b"h1", b"{}", b"[]", b"[a, A]", b"version: 1\n", b"hosts: 99999999999\n",
    b"switches: -1\n", b"from", b"to", b"step", b"\\UFFFFFFFF", b'"\\x01"', b'"\\u202e"', b"10.0.0.0/8", b"fd00::/1",
    b"count: 1000000000", b"...", b"@", b"`", b"1e99999999 ms", b"1e30 s", b"0.1 ns", b"101 %", b"rtt", b"iperf3",
    b"pools: {cores: {cpus: 2}}", b"cpus: 100000000", b"quota", b"simulated_as: {demand: 1 s}", b"{web.address}", b"1 min",
    b"files: {a: {from: ./b}}", b"file: /etc/shadow", b"http://[::1]:9/", b"every: 1 ns", b"$.a[*]", b"(?P<rate>.*)*",
    b"active: h2.g1", b"threads: 99999999", b"demand: 30 d", b"subtasks: 100000", b"trace: load.csv", b"passive_share: 1 %",
    b"migrate", b"pre_copy", b"post_copy", b"hot", b"cold", b"network", b"h2", b"h3", b"go.failed", b"rounds_limit: 0",
    b"connections: 100000000", b"compression: xbzrle", b"auto_converge: true", b"bandwidth: 0.1 B/s",
    b"downtime_limit: 1 ns", b"cpus: 2", b"qemu", b"namespace", b"machine", b"{levels: [1, 2]}",
    b"factors:\n  run: {levels: [1]}\n", b"until: {metric: x}",
]  # fmt: skip


def cases(seed: int, count: int) -> Iterator[bytes]:
    """Damaged files of the studies and of the tests."""
    for position in range(count):
        yield damaged(random.Random(f"{seed} experiment files {position}"), CONTENTS, WORDS)


def run_case(case: bytes) -> None:
    """An accepted file must also become a Plan, whose moves the testbed judges, and a world where nothing is said
    against one.
    """
    experiment = load_bytes(case)
    points = experiment.points()
    assert points
    lines(experiment)
    plan, simulator = plan_run(experiment, points[-1], 0), Simulator()
    assert all(refusal.reason and refusal.cure for refusal in moves.refused(plan))
    if not simulator.check(plan):
        simulator.open(plan, Unobserved())
