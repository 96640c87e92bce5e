"""Mapping files of `import`, with the outputs that they name beside them, to a whole dataset."""

from __future__ import annotations

import random
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tools.fuzz.damage import CHARACTERS, NUMBERS, damaged

from virtlab.imported.dataset import import_results
from virtlab.imported.mapping import read_mapping

COUNT = 10_000
GOLDEN = Path(__file__).parents[2] / "tests/golden/imported"
OUTPUTS = ["ping.txt", "iostat.json", "xentop.txt", "iperf3-tcp.json"]
STUDY = """version: 1
name: imported
factors: {load: [0 B, 30 kB]}
hosts: 2
topology: direct
link: {rate: 100 Mbit/s}
roles:
  probe: {workload: rtt, from: h1.g1, to: h2.g1, protocol: icmp, count: 5}
  load: {workload: burst_load, from: h1.g1, to: h2.g1, burst: "${load}", period: 10 ms}
"""
CONTENTS = [
    b"""version: 1
experiment: study.yaml
source: two hosts
runs:
  - levels: {load: 0 B}
    roles: {probe: ping.txt}
    series: [iostat.json]
  - levels: {load: 30 kB}
    roles: {probe: {file: ping.txt, tool: ping}}
    series: [{file: xentop.txt, host: h1}]
""",
    b"""version: 1
experiment: study.yaml
source: elsewhere
runs:
  - levels: {load: 0 B}
    roles: {probe: &a ping.txt}
  - levels: {load: 0 B}
    roles: {probe: *a}
    series: [{file: iostat.json, tool: iostat, host: h2}]
""",
]
WORDS = [
    *NUMBERS, *CHARACTERS, b"study.yaml", b"ping.txt", b"/dev/zero", b"/dev/full", b"..", b"/", b"xentop.txt", b"{}",
    b"[]", b"{", b"}", b"[", b"]", b": ", b"- ", b"&a ", b"*a", b"null", b"true", b"!!python/object:os.system ", b"<<: *a",
    b"2020-01-01", b"!!set {a}", b"!!binary x", b"? ", b"|\n  ", b"host: h9", b"tool: sar", b"load: 30000 B", b"0.0 B",
]  # fmt: skip


def cases(seed: int, count: int) -> Iterator[bytes]:
    """Damaged mapping files."""
    for position in range(count):
        yield damaged(random.Random(f"{seed} mappings {position}"), CONTENTS, WORDS)


def run_case(case: bytes) -> None:
    """The dataset of the mapping, in a folder of its own."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for output in OUTPUTS:
            shutil.copy(GOLDEN / output, folder / output)
        (folder / "study.yaml").write_text(STUDY)
        (folder / "mapping.yaml").write_bytes(case)
        import_results(read_mapping(folder / "mapping.yaml"), folder / "made.results")
