"""Task files of every form and host files, with the answers that `rt` gives of those that are accepted."""

from __future__ import annotations

import random
import tempfile
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

from tools.fuzz.damage import CHARACTERS, NUMBERS, damaged

from virtlab.realtime.analysis import analyze
from virtlab.realtime.files import load_tasks
from virtlab.realtime.hosts import load_host, place

COUNT = 10_000
CONTENTS = {
    ".csv": b"name,period,wcet,deadline,jitter,blocking\n# three\na,8 ms,1 ms,7 ms,0 ms,\n"
    b"b,15 ms,3 ms,,,100 us\nc,35/3 ms,1 ms,,,\n",
    ".yaml": b"version: 1\ntasks:\n  - {name: a, period: 8 ms, wcet: 1 ms}\n"
    b"  - {name: b, period: 15 ms, wcet: 3 ms, vcpu: 1}\n",
    ".json": b'{"tasks": [{"name": "a", "period": "8 ms", "wcet": "1 ms"},'
    b' {"name": "b", "period": "15 ms", "wcet": "3 ms"}]}',
    ".rt.json": b'{"tasks": {"a": {"run": 1000, "timer": {"ref": "u", "period": 8000}, "instance": 2},'
    b' "b": {"phases": {"p": {"run": 3000, "timer": {"period": 15000}}}, "dl-deadline": 14000}}}',
    ".xml": b'<simulation duration="1"><tasks><task name="a" period="8" WCET="1" deadline="8" task_type="Periodic"/>'
    b'<task name="b" period="15.0" WCET="3.0"/></tasks></simulation>',
    ".host.yaml": b"version: 1\nhost: {cores: 2, scheduler: edf, switch_cost: 5 us}\noverhead: 50 us\nguests:\n"
    b"  - {name: a, tasks: [{name: t, period: 10 ms, wcet: 1 ms}], period: 4 ms, budget: 2 ms}\n"
    b"  - {name: b, tasks: [{name: t, period: 20 ms, wcet: 2 ms}]}\n",
}
WORDS = [
    *NUMBERS, *CHARACTERS, b"{", b"}", b"[", b"]", b",", b": ", b"- ", b'"', b"&a ", b"*a", b"null", b"true", b"1e-9 ns",
    b"1/3 ms", b"1/0 ms", b"0 ms", b"-1 ms", b"10 ms", b"1e60 ms", b"<!DOCTYPE x>", b"&#1;", b"<", b"NaN", b"Infinity",
    b"10000", b"instance", b"priority", b"cores: 4096", b"1/1e9 ms", b"[" * 3000, b"{\"a\":" * 3000, b"<a>" * 3000,
    b"9999999999999999/9999999999999999 ms", b"1/7 ns", b"1/11 ns", b"1/13 ns",
]  # fmt: skip


def cases(seed: int, count: int) -> Iterator[tuple[str, bytes]]:
    """Damaged files, each with the suffix that says its form."""
    for position in range(count):
        source = random.Random(f"{seed} task files {position}")
        suffix = source.choice(list(CONTENTS))
        yield suffix, damaged(source, [CONTENTS[suffix]], WORDS)


def run_case(case: tuple[str, bytes]) -> None:
    """The analysis of the tasks, or the placement of the guests."""
    suffix, content = case
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"given{suffix}"
        path.write_bytes(content)
        if suffix == ".host.yaml":
            place(load_host(path))
        else:
            analyze(load_tasks(path), period_ns=Fraction(4_000_000), budget_ns=Fraction(2_000_000))
