"""Out of a dataset: the same rows in CSV, JSON and Parquet, missing values missing."""

from __future__ import annotations

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from tests.contract.closed_form import ClosedForm
from tests.contract.small_campaign import POINTS, campaign, opened

from virtlab.cli.main import main
from virtlab.experiment.templates import template
from virtlab.results.export import write_rows


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("export") / "d"
    backend = ClosedForm(disturb=lambda _plan, n: "tainted" if n == 0 else "ok")
    with opened(path, backend) as opened_dataset:
        campaign(opened_dataset, backend, repetitions=1).run()
    return path


def virtlab(*arguments: object) -> int:
    """The command in this process; its exit code."""
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return int(ended.value.code or 0)


def test_the_list_of_runs_has_every_attempt(dataset: Path, tmp_path: Path) -> None:
    file = tmp_path / "runs.csv"
    assert virtlab("export", dataset, "--what", "runs", "-o", file) == 0
    rows = list(csv.DictReader(file.open()))
    assert len(rows) == 5
    assert [row["status"] for row in rows].count("tainted") == 1
    assert {row["switches"] for row in rows} == {levels["switches"] for levels in POINTS}


@pytest.mark.parametrize("form", ["csv", "json", "parquet"])
def test_samples_come_with_their_run_and_levels(dataset: Path, tmp_path: Path, form: str) -> None:
    file = tmp_path / f"rtt.{form}"
    assert (
        virtlab("export", dataset, "--what", "samples", "--kind", "rtt", "--stream", "probe", "-o", file) == 0
    )
    with duckdb.connect() as db:
        query = f"SELECT switches, count(*), min(rtt_ns) FROM '{file}' GROUP BY ALL ORDER BY ALL"
        rows = db.execute(query).fetchall()
    assert [(int(level), n) for level, n, _ in rows] == [(number, 50) for number in range(4)]
    assert all(least >= 244_160 * (int(level) + 1) for level, _, least in rows)


def test_samples_of_tainted_runs_come_only_when_asked(dataset: Path, tmp_path: Path) -> None:
    file = tmp_path / "rtt.csv"
    assert virtlab("export", dataset, "--what", "samples", "--kind", "rtt", "--all-runs", "-o", file) == 0
    assert {row["status"] for row in csv.DictReader(file.open())} == {"ok", "tainted"}


def test_streams_that_are_named_come_together(tmp_path: Path) -> None:
    other = (
        "  other: {workload: rtt, from: h2.g1, to: h1.g1, size: 64 B ip_packet, interval: 20 ms, count: 9}\n"
    )
    text = (
        template("demo", "demo").replace("minimum: 4", "minimum: 2").replace("roles:\n", f"roles:\n{other}")
    )
    file, dataset = tmp_path / "demo.yaml", tmp_path / "demo.results"
    file.write_text(text)
    how = ("--backend", "simulator", "--jobs", "1", "--no-report", "--dataset", dataset)
    assert virtlab("run", file, *how) in {0, 1, 4}
    counts = {}
    for streams in (("probe",), ("other",), ("probe", "other"), ()):
        options = [word for name in streams for word in ("--stream", name)]
        place = tmp_path / "rtt.csv"
        assert virtlab("export", dataset, "--what", "samples", "--kind", "rtt", *options, "-o", place) == 0
        rows = list(csv.DictReader(place.open()))
        assert {row["stream"] for row in rows} == set(streams or ("probe", "other"))
        counts[streams] = len(rows)
    assert (
        counts["probe", "other"] == counts["probe",] + counts["other",] == counts[()] > counts["probe",] > 0
    )


def test_kinds_that_are_named_go_into_a_folder_and_no_others(
    dataset: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = ("export", dataset, "--what", "samples", "--kind", "rtt", "--kind", "counter", "--kind", "rtt")
    assert virtlab(*asked, "-o", tmp_path / "some") == 0
    assert sorted(path.name for path in (tmp_path / "some").iterdir()) == ["counter.csv", "rtt.csv"]
    assert virtlab(*asked, "-o", tmp_path / "one.csv") == 2
    assert "rtt, counter are several tables" in capsys.readouterr().err


def test_several_kinds_go_into_a_folder(dataset: Path, tmp_path: Path) -> None:
    assert virtlab("export", dataset, "--what", "samples") == 2
    assert virtlab("export", dataset, "--what", "samples", "--format", "json", "-o", tmp_path / "all") == 0
    assert sorted(path.name for path in (tmp_path / "all").iterdir()) == [
        "counter.json",
        "rtt.json",
        "sent.json",
    ]


def test_values_are_one_row_per_run_and_metric(dataset: Path, tmp_path: Path) -> None:
    file = tmp_path / "values.json"
    assert virtlab("export", dataset, "-o", file) == 0
    rows = json.loads(file.read_text())
    medians = {
        row["switches"]: row["value"]
        for row in rows
        if (row["role"], row["metric"], row["statistic"]) == ("probe", "rtt", "median")
    }
    assert sorted(medians) == ["0", "1", "2", "3"]
    assert {row["unit"] for row in rows if row["metric"] == "rtt"} == {"ns"}
    absent = [row for row in rows if row["value"] is None]
    assert all(row["reason"] for row in absent)


def test_rows_keep_what_is_missing(tmp_path: Path) -> None:
    rows = [["a", None, 1.5], [None, 2, None]]
    file = tmp_path / "rows.json"
    write_rows({"name": "VARCHAR", "n": "BIGINT", "value": "DOUBLE"}, rows, file, "json")
    assert json.loads(file.read_text()) == [
        {"name": "a", "n": None, "value": 1.5},
        {"name": None, "n": 2, "value": None},
    ]
    write_rows({"name": "VARCHAR"}, [], file, "json")
    assert json.loads(file.read_text()) == []


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["--format", "parquet"], "--output FILE.parquet"),
        (["--what", "samples", "--kind", "colours"], "not a kind of sample"),
        (["--what", "samples", "--stream", "nobody"], "no samples of 'nobody'"),
        (["--what", "samples", "--stream", "probe", "--stream", "nobody"], "no samples of 'nobody'"),
        (["--what", "runs", "-o", "/proc/no/such/file.csv"], "cannot be written"),
    ],
)
def test_what_cannot_be_exported_is_told_with_its_cure(
    dataset: Path, arguments: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert virtlab("export", dataset, *arguments) == 2
    assert problem in capsys.readouterr().err


def test_an_export_can_be_piped(dataset: Path) -> None:
    command = [sys.executable, "-c", "from virtlab.cli.main import main; main()"]
    command += ["export", str(dataset), "--what", "runs"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert len(list(csv.DictReader(io.StringIO(done.stdout)))) == 5


def test_an_export_into_a_file_that_holds_something_is_appended_to_it(dataset: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-c", "from virtlab.cli.main import main; main()"]
    with (tmp_path / "all.csv").open("w") as file:
        file.write("what was there\n")
        file.flush()
        subprocess.run([*command, "export", str(dataset), "--what", "runs"], stdout=file, check=True)
    first, *rows = (tmp_path / "all.csv").read_text().splitlines()
    assert first == "what was there"
    assert len(list(csv.DictReader(rows))) == 5


def test_whoever_reads_the_beginning_of_an_export_alone_gets_it_without_a_complaint(dataset: Path) -> None:
    program = f"{sys.executable} -c 'from virtlab.cli.main import main; main()' export {dataset} | head -n 1"
    done = subprocess.run(["sh", "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("run,")
    assert done.stderr == ""
