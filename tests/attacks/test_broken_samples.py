"""Samples that are broken, made up or far too many are one line with file and cure, and take no memory to find out."""

from __future__ import annotations

import json
import random
import resource
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import duckdb
import pytest
from tests.unit.report.report_specimen import write_dataset

from virtlab.analysis import run_values
from virtlab.errors import DatasetError, MachineError
from virtlab.report.gather.dataset import gather
from virtlab.results import Dataset, parquet
from virtlab.results.export import write_samples

RUN = "runs/p0001-r00-a0"
FILE = f"{RUN}/samples/probe.rtt-1.parquet"
COLUMNS = ("seq", "flow", "intended_ns", "sent_ns", "received_ns", "rtt_ns", "path_rtt_ns")


@pytest.fixture(scope="module")
def received(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("received") / "specimen.results"
    write_dataset(path, runs=2, samples=20).close()
    return path


@pytest.fixture
def copied(received: Path, tmp_path: Path) -> Path:
    return shutil.copytree(received, tmp_path / "specimen.results")


def values(path: Path) -> None:
    run_values(Dataset.open(path))


def report(path: Path) -> None:
    gather(Dataset.open(path))


def export(path: Path) -> None:
    write_samples(Dataset.open(path), "rtt", path / "rtt.csv", "csv", status=None)


def written(path: Path, rows: int, **columns: str) -> None:
    """A file of the right columns, but for those given."""
    types = dict.fromkeys(COLUMNS, "BIGINT") | {"flow": "INTEGER"}
    fields = (columns.get(name, f"CAST(7 AS {kind})") + f" AS {name}" for name, kind in types.items())
    duckdb.connect().execute(
        f"COPY (SELECT {', '.join(fields)} FROM range({rows})) TO '{path}' (FORMAT parquet)"
    )


def tell_rows(dataset: Path, rows: int) -> None:
    run = json.loads((dataset / RUN / "run.json").read_bytes())
    run["rows"]["probe.rtt-1"] = rows
    (dataset / RUN / "run.json").write_text(json.dumps(run))


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-20])


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def of_zeros(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def of_text(path: Path) -> None:
    written(path, 20, rtt_ns="'a text'")


def with_a_gap(path: Path) -> None:
    written(path, 20, rtt_ns="CAST(CASE WHEN range = 3 THEN NULL ELSE 7 END AS BIGINT)")


def with_more_rows(path: Path) -> None:
    written(path, 21)


def with_fewer_rows(path: Path) -> None:
    written(path, 19)


def of_another_kind(path: Path) -> None:
    path.write_bytes(path.with_name("probe.sent-1.parquet").read_bytes())


@pytest.mark.slow
@pytest.mark.parametrize("reader", [values, report, export])
@pytest.mark.parametrize("how", [cut, emptied, of_zeros, of_text, with_more_rows, with_fewer_rows])
def test_broken_samples_are_one_line(
    copied: Path, how: Callable[[Path], None], reader: Callable[[Path], None]
) -> None:
    how(copied / FILE)
    with pytest.raises(DatasetError) as told:
        reader(copied)
    assert FILE in told.value.where
    assert told.value.cure.startswith("move that run's folder away")
    assert "\n" not in str(told.value)


@pytest.mark.slow
@pytest.mark.parametrize("reader", [values, report])
def test_samples_of_another_kind_are_not_taken_for_older_ones(
    copied: Path, reader: Callable[[Path], None]
) -> None:
    of_another_kind(copied / FILE)
    with pytest.raises(DatasetError, match=r"has other columns than samples of rtt/1"):
        reader(copied)


@pytest.mark.slow
def test_a_whole_number_is_never_missing(copied: Path) -> None:
    with_a_gap(copied / FILE)
    with pytest.raises(DatasetError, match="column rtt_ns is not of its type"):
        values(copied)


@pytest.mark.slow
@pytest.mark.parametrize("reader", [values, report, export])
def test_samples_that_are_not_there_are_not_taken_for_none(
    copied: Path, reader: Callable[[Path], None]
) -> None:
    (copied / FILE).unlink()
    with pytest.raises(DatasetError, match=r"probe.rtt-1.parquet: the samples are missing"):
        reader(copied)


@pytest.mark.slow
@pytest.mark.parametrize("reader", [report, export])
def test_samples_of_which_the_run_tells_nothing_are_refused(
    copied: Path, reader: Callable[[Path], None]
) -> None:
    written(copied / RUN / "samples/other.rtt-1.parquet", 3)
    with pytest.raises(DatasetError, match=r"other.rtt-1.parquet: the run's record tells of no such samples"):
        reader(copied)


@pytest.mark.slow
def test_a_small_file_of_many_rows_takes_no_memory(copied: Path) -> None:
    written(copied / FILE, 20_000_000)
    assert (copied / FILE).stat().st_size < 1 << 20
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for reader in (values, export):
        with pytest.raises(DatasetError, match=r"holds (more|20000000) rows, run.json tells of 20;"):
            reader(copied)
    grown_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown_kib < 200 << 10  # 1.1 GB as numbers


@pytest.mark.slow
def test_rows_that_memory_does_not_hold_are_refused_before_they_are_read(copied: Path) -> None:
    tell_rows(copied, 10**12)
    with pytest.raises(MachineError, match=r"1,000,000,000,000 rows take .* GiB of memory"):
        values(copied)


@pytest.mark.slow
def test_a_query_that_needs_more_than_half_of_the_memory_ends_and_spills_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file may be anybody's, so DuckDB has that bound, too, and no folder of its own to write to."""
    monkeypatch.setattr(parquet, "memory_most_bytes", lambda: 64 << 20)
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "many.parquet", 20_000_000)
    sort = f"SELECT row_number() OVER (ORDER BY hash(rtt_ns), seq) FROM {parquet.rows_of(['many.parquet'])}"
    with parquet.connect() as database, pytest.raises(parquet.failures(), match=r"Out of Memory"):
        database.execute(sort).fetchnumpy()
    assert [path.name for path in tmp_path.iterdir()] == ["many.parquet"]


@pytest.mark.slow
def test_bits_turned_over_give_a_value_or_one_line(copied: Path) -> None:
    whole = (copied / FILE).read_bytes()
    source = random.Random(7)
    for _ in range(100):
        changed = bytearray(whole)
        for _ in range(source.choice([1, 1, 3])):
            changed[source.randrange(len(changed))] ^= 1 << source.randrange(8)
        (copied / FILE).write_bytes(changed)
        with suppress(DatasetError):
            Dataset.open(copied).run("p0001-r00-a0").samples("probe", "rtt/1")


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["rtt_ns=5", "specimen[12]*?"])
def test_the_name_of_a_folder_is_no_pattern_and_no_sample(
    folder: str, received: Path, tmp_path: Path
) -> None:
    """DuckDB reads `rtt_ns=5` as a column's values, and letters of a shell's patterns as names of other datasets."""
    plain = shutil.copytree(received, tmp_path / "specimen1")
    named = shutil.copytree(received, tmp_path / folder / "specimen.results")
    for path in (plain, named):
        for values_file in path.glob("runs/*/values.json"):
            values_file.unlink()
        export(path)
    assert run_values(Dataset.open(named)) == run_values(Dataset.open(plain))
    rows = [sorted((path / "rtt.csv").read_text().splitlines()) for path in (named, plain)]
    assert rows[0] == rows[1]


@pytest.mark.slow
def test_an_export_of_samples_of_another_kind_is_no_table_without_values(copied: Path) -> None:
    file = copied / FILE
    duckdb.connect().execute(f"COPY (SELECT 7 AS other FROM range(20)) TO '{file}' (FORMAT parquet)")
    with pytest.raises(DatasetError, match="has other columns than samples of rtt/1"):
        export(copied)
    written(file, 20, rtt_ns="'long'")
    with pytest.raises(DatasetError, match="column rtt_ns is not of its type"):
        export(copied)
