"""Datasets: damaged, made up, and with other things in them than files, as report, export and the next run read them.

A small dataset is written once for each worker, and copied for each case; a case says what is done to which file of it.
"""

from __future__ import annotations

import atexit
import contextlib
import io
import json
import os
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from tools.fuzz.damage import CHARACTERS, NUMBERS, damaged

from virtlab.analysis import run_values
from virtlab.campaign.progress import CampaignObserver
from virtlab.campaign.trials.journal import Journal
from virtlab.experiment import load_text
from virtlab.plan import Trial
from virtlab.planner import plan_run
from virtlab.report.gather.dataset import gather
from virtlab.report.page.document import html
from virtlab.results import Dataset, RunKey, parquet
from virtlab.results.export import write_runs, write_samples
from virtlab.simulator import Simulator

COUNT = 10_000
TEXT = """\
version: 1
name: small
factors: {size: [64 B frame, 1500 B ip_packet]}
hosts: 2
topology: line
roles:
  probe: {workload: rtt, from: h1.g1, to: h2.g1, size: "${size}", interval: 10 ms, count: 20}
repeat: 2
claims: ["probe.rtt.mean grows with size"]
"""
WORDS = [
    *NUMBERS, *CHARACTERS, b"null", b"true", b"[]", b"{}", b'"', b"[[[[[[[[", b"NaN", b"-Infinity", b'"ok"', b'"failed"',
    b"PAR1", b"\x00\x00\x00\x00", b"\xff\xff\xff\xff", b"\xff" * 9, b'"seed":', b'"point":', b"../../x", b"p0000-r00-a0",
]  # fmt: skip
VALUES: list[Any] = [
    None, True, -1, 0, 2**31, 2**63, 10**400, 0.5, 1e308, "", "x", "\x1b[2J", "a\nb", "\u202e", "<script>", "9" * 5000, [],
    {}, [[]], {"a": {}}, [1, 2, 3], "../../x", float("nan"),
]  # fmt: skip


class Case(NamedTuple):
    """What is done (`how`) to the file at a place of the dataset, by random numbers of a seed."""

    how: str
    place: int
    seed: str


def cases(seed: int, count: int) -> Iterator[Case]:
    """Every way of damage in turn, most often of bytes and of JSON."""
    for position in range(count):
        source = random.Random(f"{seed} datasets {position}")
        how = source.choice([*WAYS, "octets", "octets", "octets", "json", "json", "json", "json"])
        yield Case(how, source.randrange(1 << 30), f"{seed} {position}")


def prepare() -> None:
    """Makes the dataset, and reads it, with all that is loaded for it, before memory is bounded."""
    _read(Path(shutil.copytree(_small(), _folder() / "prepared/small.results")))
    parquet.memory_most_bytes.cache_clear()


def run_case(case: Case) -> None:
    """Takes the values, writes page and exports, and opens the dataset as the next run would."""
    with tempfile.TemporaryDirectory(prefix="virtlab-fuzz-", dir=_folder()) as folder:
        path = Path(folder) / "small.results"
        shutil.copytree(_small(), path)
        source = random.Random(case.seed)
        places = sorted(one for one in path.rglob("*") if one.is_file())
        WAYS[case.how](source, places[case.place % len(places)], path)
        _read(path, page=case.place % 4 == 0)


def _read(path: Path, *, page: bool = True) -> None:
    """The page, which takes longest, is made of every fourth dataset."""
    dataset = Dataset.open(path)
    run_values(dataset)
    gathered = gather(dataset)
    if page:
        html(gathered, (), {})
    write_runs(dataset, path / "runs.csv", "csv")
    write_samples(dataset, "rtt", path / "rtt.json", "json", status=None)
    for record in dataset.runs():
        record.events()
        record.artefacts()
    with Dataset.open(path, writing=True):
        Journal.open(path, "p0000-r00-a0", {"plan": "x"})


@cache
def _folder() -> Path:
    """In memory where the machine has such a folder: no case is worth a disk's time."""
    memory = Path("/dev/shm")
    folder = tempfile.mkdtemp(prefix="virtlab-fuzz-", dir=memory if memory.is_dir() else None)
    owner = os.getpid()
    atexit.register(lambda: shutil.rmtree(folder, ignore_errors=True) if os.getpid() == owner else None)
    return Path(folder)


@cache
def _small() -> Path:
    """Two design points of two repetitions, by the simulator, with its values taken, and a journal of a search."""
    path = _folder() / "small.results"
    experiment = load_text(TEXT)
    backend = Simulator()
    with Dataset.create(path, TEXT, name="small", seed=experiment.seed, backend="simulator") as dataset:
        for point in experiment.points():
            for repetition in range(2):
                plan = plan_run(experiment, point, repetition)
                with (
                    dataset.begin_run(RunKey(point.index, repetition, 0), plan) as writer,
                    backend.open(plan, CampaignObserver()) as session,
                ):
                    outcome = session.run(Trial("t0", plan.seed), writer)
                    writer.commit(outcome, session.realised)
        run_values(dataset)
        Journal.open(path, "p0000-r00-a0", {"plan": "x"})
    (path / "report").mkdir()
    (path / "report/report.html").write_text("page")
    return path


def _octets(source: random.Random, path: Path, _: Path) -> None:
    path.write_bytes(damaged(source, [path.read_bytes()], WORDS))


def _json(source: random.Random, path: Path, root: Path) -> None:
    """A value of a JSON file in place of another, or one more, or one less."""
    run = source.choice(sorted((root / "runs").iterdir()))
    path = source.choice(
        [run / "run.json", run / "run.json", run / "plan.json", run / "values.json", root / "manifest.json"]
    )
    values = json.loads(path.read_bytes())
    for _ in range(source.choice([1, 1, 2])):
        inner: Any = values
        while True:
            keys = list(inner) if isinstance(inner, dict) else list(range(len(inner)))
            if not keys:
                break
            key = source.choice(keys)
            if isinstance(inner[key], (dict, list)) and inner[key] and source.random() < 0.7:
                inner = inner[key]
                continue
            if source.random() < 0.2:
                del inner[key]
            else:
                inner[key] = source.choice(VALUES)
            break
    with contextlib.suppress(ValueError):
        path.write_text(json.dumps(values))


def _removed(source: random.Random, path: Path, root: Path) -> None:
    shutil.rmtree(path.parent) if source.random() < 0.2 and path.parent != root else path.unlink()


def _exchanged(source: random.Random, path: Path, root: Path) -> None:
    others = sorted(one for one in root.rglob("*") if one.is_file())
    path.write_bytes(source.choice(others).read_bytes())


def _copied_run(source: random.Random, _: Path, root: Path) -> None:
    run = source.choice(sorted((root / "runs").iterdir()))
    name = source.choice(
        [
            "p0000-r02-a0",
            "p0000-r00-a1",
            "p0001-r7-a0",
            "p\u0660\u0660\u0660\u0660-r05-a0",
            "p99999999999-r00-a0",
            "x",
            ".x",
        ]
    )
    new = Path(shutil.copytree(run, root / "runs" / name))
    if source.random() < 0.7:
        values = json.loads((new / "run.json").read_bytes())
        values |= {"run": name, "repetition": source.choice([0, 2, 7]), "attempt": source.choice([0, 1])}
        (new / "run.json").write_text(json.dumps(values))


def _renamed(source: random.Random, path: Path, _: Path) -> None:
    names = [
        "x",
        ".x",
        "x.parquet",
        "*.rtt-1.parquet",
        "'.rtt-1.parquet",
        "a b.rtt-1.parquet",
        ".parquet",
        "x" * 250,
    ]
    path.rename(path.with_name(source.choice(names)))


def _other_kind(source: random.Random, path: Path, _: Path) -> None:
    if source.random() < 0.5:
        path.unlink()
    else:
        path = path.with_name("other")
    kind = source.randrange(4)
    if kind == 0:
        path.symlink_to(source.choice(["/etc/hostname", "/dev/zero", ".", "nowhere"]))
    elif kind == 1:
        os.mkfifo(path)
    elif kind == 2:
        path.mkdir()
    else:
        inner = path
        for _ in range(40):
            inner = inner / "x"
        inner.mkdir(parents=True)


def _large(source: random.Random, path: Path, _: Path) -> None:
    with path.open("r+b") as file:
        file.truncate(source.choice([1 << 20, 1 << 34, 1 << 42]))


def _parquet(source: random.Random, _: Path, root: Path) -> None:
    """A right file of wrong columns, types or rows; sometimes the run's record tells of as many."""
    import duckdb

    run = source.choice(sorted((root / "runs").iterdir()))
    path = source.choice(sorted((run / "samples").iterdir()))
    with duckdb.connect() as db:
        columns = [row[0] for row in db.execute(f"DESCRIBE SELECT * FROM '{path}'").fetchall()]
        odd = source.choice(columns)
        value = source.choice(
            ["NULL", "'x'", "9223372036854775807", "-9223372036854775808", "[1]", "'nan'::DOUBLE", "-1"]
        )
        fields = ", ".join(f"{value if one == odd else one} AS {one}" for one in columns)
        rows = source.choice([20, 20, 20, 0, 1, 1000, 300_000])
        select = f"SELECT {fields} FROM (SELECT * FROM '{path}' LIMIT 1) CROSS JOIN range({rows})"
        new = path.with_name(".new")
        db.execute(f"COPY ({select}) TO '{new}' (FORMAT parquet)")
    new.rename(path)
    values = json.loads((run / "run.json").read_bytes())
    values["rows"][path.stem] = source.choice([rows, rows, 10**9, 10**18])
    (run / "run.json").write_text(json.dumps(values))


def _journal(source: random.Random, _: Path, root: Path) -> None:
    path = root / "journal/p0000-r00-a0.jsonl"
    text = io.BytesIO(path.read_bytes()).getvalue()
    path.write_bytes(text + source.choice([*WORDS, b"{}\n", b"3\n", b"[" * 90_000 + b"\n", b'{"id": "t0"}\n', b'{"id'])
                     + source.choice([b"", b"\n"]))  # fmt: skip


WAYS: dict[str, Callable[[random.Random, Path, Path], None]] = {
    "octets": _octets, "json": _json, "removed": _removed, "exchanged": _exchanged, "copied run": _copied_run,
    "renamed": _renamed, "other kind": _other_kind, "large": _large, "parquet": _parquet, "journal": _journal,
}  # fmt: skip
