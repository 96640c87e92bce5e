"""What a file may say of a role that works on files: paths, sizes and threads, each mistake with its place and cure."""

from __future__ import annotations

import pytest

from virtlab.experiment import load_text
from virtlab.experiment.read.mistakes import FileMistakesError
from virtlab.planner import plan_run
from virtlab.simulator import Simulator

FILE = """
version: 1
name: t
hosts: {{h1: {{guests: {{g1: {{}}}}}}}}
roles: {{load: {{workload: files, from: h1.g1, {own}}}}}
"""
READS = "operations: read"


@pytest.mark.parametrize(
    ("own", "key", "cure"),
    [
        (f"{READS}, directory: tmp", "directory", "begin with '/', e.g. '/var/tmp'"),
        (f"{READS}, directory: /", "directory", "write it without '.', '..', '//' and '/' at its end"),
        (f"{READS}, directory: /var/tmp/../../home", "directory", "write it without '.', '..'"),
        (f"{READS}, directory: /var//tmp", "directory", "write it without '.', '..', '//'"),
        (
            "operations: {append: 1}",
            "operations.append",
            "write create, read, overwrite, delete, stat, open, list",
        ),
        (f"{READS}, threads: 1025", "threads", "write at most 1024"),
        (f"{READS}, size: 2 GiB", "size", "write less, e.g. '1 MB'"),
        (f"{READS}, direct: true, size: 10 kB", "size", "write e.g. 'size: 12288 B', or remove 'direct'"),
        (
            f"{READS}, direct: true, size: [4 KiB, 5 KiB]",
            "size",
            "write e.g. 'size: 8192 B', or remove 'direct'",
        ),
        (f"{READS}, sync: always", "sync", "none, fsync"),
        (f"{READS}, arrivals: poisson", "arrivals", "write a rate, or remove it"),
        (f"{READS}, to: h1.g1", "to", "remove 'to'"),
    ],
)
def test_what_no_directory_can_be_asked_is_one_mistake_with_its_cure(own: str, key: str, cure: str) -> None:
    with pytest.raises(FileMistakesError) as raised:
        load_text(FILE.format(own=own))
    (mistake,) = raised.value.mistakes
    assert mistake.path == f"roles.load.{key}"
    assert cure in mistake.cure


def test_a_plan_says_where_files_are_and_how_they_are_written() -> None:
    experiment = load_text(
        FILE.format(own=f"{READS}, rate: 5 request/s, threads: 3, sync: fsync, direct: true, size: 8 KiB")
    )
    role = plan_run(experiment, experiment.points()[0], 0).roles["load"]
    assert role.to is None
    assert dict(role.parameters) == {
        "directory": "/var/tmp", "operations": {"read": 1.0}, "object_bytes": 8192, "threads": 3, "rate_per_s": 5,
        "sync": "fsync", "direct": True, "duration_ns": 10_000_000_000,
    }  # fmt: skip


def test_the_simulator_refuses_it_with_a_cure() -> None:
    experiment = load_text(FILE.format(own=READS))
    (refusal,) = Simulator().check(plan_run(experiment, experiment.points()[0], 0))
    assert "what a file system does is not modelled" in refusal.reason
    assert "run the file on the testbed" in refusal.reason + refusal.cure
