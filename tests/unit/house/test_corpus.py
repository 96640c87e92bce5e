"""Datasets that an earlier virtlab wrote: each is read, reported, exported and resumed as it was then.

`golden/corpus/NAME/dataset` is a dataset of version 1 as it lay on disk, complete, half-finished, or killed in the
middle of a search; `expected.json` beside it is what the virtlab that wrote it answered: the exit codes, the keys of
`--json`, the verdict of each claim, every value of every run, and the reasons why runs were tainted. Both are frozen: a
change that needs them written again has lost somebody's results.
"""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from virtlab.cli.main import main
from virtlab.results import Dataset

CORPUS = Path(__file__).parents[2] / "golden/corpus"
NAMES = sorted(path.name for path in CORPUS.iterdir())
HALF = "traffic-simulator-half"


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of one's own, without the settings of whoever runs the tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    for name in ("BACKEND", "PROFILE", "RESULTS", "WAIT", "REPORT", "ANONYMISE"):
        monkeypatch.delenv(f"VIRTLAB_{name}", raising=False)
    return tmp_path


def keys_of(value: Any, path: str = "") -> set[str]:
    """Paths of all keys of a JSON value, without the places in lists."""
    if isinstance(value, dict):
        return {
            found
            for key, inner in value.items()
            for found in {f"{path}.{key}", *keys_of(inner, f"{path}.{key}")}
        }
    return {found for inner in value for found in keys_of(inner, path)} if isinstance(value, list) else set()


def shape(text: str) -> list[str]:
    """The keys of what `--json` printed; what a file names (levels, metrics, roles) is not among them."""
    told = json.loads(text)
    return sorted(key for name in told for key in {name, *keys_of(told[name], name)} if "factors." not in key)


def to_twelve_digits(rows: Iterable[str]) -> set[str]:
    """Numbers without their last digits: in which order many are added depends on how wide the processor adds."""
    return {re.sub(r"\d+\.\d+(?:e[+-]?\d+)?", lambda number: f"{float(number[0]):.12g}", row) for row in rows}


def copy_of(name: str, place: Path) -> Path:
    """A copy that may be written."""
    return Path(shutil.copytree(CORPUS / name / "dataset", place / f"{name}.results"))


def virtlab(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    """The command in this process: its exit code and what it printed."""
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main([str(argument) for argument in arguments])
    return int(ended.value.code or 0), capsys.readouterr().out


def values_of(dataset: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """Every value of every run, as exported, without the words that say why one is missing."""
    output = dataset.with_suffix(".csv")
    code, _ = virtlab(capsys, "export", dataset, "--what", "values", "--output", output)
    assert code == 0
    rows = csv.DictReader(output.read_text().splitlines())
    return sorted(",".join(cell for column, cell in row.items() if column != "reason") for row in rows)


def observed(dataset: Path, capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    """What virtlab says of a dataset."""
    with Dataset.open(dataset) as opened:
        runs = {
            record.name: {
                "status": record.status,
                "reasons": list(record.reasons),
                "plan_identity": record.plan.identity(),
            }
            for record in opened.runs()
        }
    code, text = virtlab(capsys, "report", dataset, "--json", "--figures", "none")
    told = json.loads(text)
    return {
        "runs": runs,
        "report": {
            "exit": code,
            "keys": shape(text),
            "verdicts": {each["id"]: each["verdict"] for each in told["verdicts"]},
            "estimates": sorted(",".join(map(str, each.values())) for each in told["estimates"]),
        },
        "values": values_of(dataset, capsys),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_dataset_says_what_it_said_when_it_was_written(
    name: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = json.loads((CORPUS / name / "expected.json").read_text())
    found = json.loads(json.dumps(observed(copy_of(name, place), capsys)))
    assert found["runs"] == expected["runs"]
    # A metric that is new adds values, and takes none away.
    assert not to_twelve_digits(expected["values"]) - to_twelve_digits(found["values"])
    for part in ("exit", "verdicts"):
        assert found["report"][part] == expected["report"][part]
    assert not set(expected["report"]["keys"]) - set(found["report"]["keys"])
    assert not to_twelve_digits(expected["report"]["estimates"]) - to_twelve_digits(
        found["report"]["estimates"]
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in NAMES if "simulator" in name])
def test_a_dataset_resumed_without_a_run_ends_as_it_did(
    name: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = json.loads((CORPUS / name / "expected.json").read_text())["resumed"]
    dataset = copy_of(name, place)
    code, text = virtlab(capsys, *resume(dataset), "--max-runs", 0, "--json")
    assert code == expected["exit"]
    assert not set(expected["keys"]) - set(shape(text))


def resume(dataset: Path) -> list[object]:
    """The command that resumes a simulated dataset."""
    options = ["--backend", "simulator", "--dataset", dataset, "--jobs", "1", "--no-report"]
    return ["run", dataset / "experiment.yaml", *options]


@pytest.mark.slow
def test_half_a_dataset_is_finished_with_the_values_of_a_whole_one(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dataset = copy_of(HALF, place)
    kept = values_of(dataset, capsys)
    assert kept
    code, text = virtlab(capsys, *resume(dataset), "--json")
    whole = json.loads((CORPUS / HALF.removesuffix("-half") / "expected.json").read_text())
    assert code == whole["resumed"]["exit"]
    assert json.loads(text)["runs_made"] == 2
    finished = to_twelve_digits(values_of(dataset, capsys))
    assert not to_twelve_digits(whole["values"]) - finished
    assert to_twelve_digits(kept) < finished


SEARCH = "search-simulator"


def who_queues(dataset: Path) -> dict[str, set[str]]:
    """Run -> where frames wait on its hosts."""
    with Dataset.open(dataset) as opened:
        return {
            record.name: {host.pushback for host in record.plan.world.hosts.values()}
            for record in opened.runs()
        }


@pytest.mark.slow
def test_a_run_that_is_added_queues_as_those_before_it(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The file says nothing of it, and hosts without a word share a queue today: not in a dataset of before."""
    dataset = copy_of(SEARCH, place)
    taken = "p0001-r01-a0"
    before = json.loads((dataset / "runs" / taken / "run.json").read_text())["plan_identity"]
    shutil.rmtree(dataset / "runs" / taken)
    code, text = virtlab(capsys, *resume(dataset), "--json")
    assert code == json.loads((CORPUS / SEARCH / "expected.json").read_text())["resumed"]["exit"]
    assert json.loads(text)["runs_made"] == 1
    assert set(who_queues(dataset)) >= {taken}
    assert set(map(frozenset, who_queues(dataset).values())) == {frozenset({"guest"})}
    assert json.loads((dataset / "runs" / taken / "run.json").read_text())["plan_identity"] == before


@pytest.mark.slow
def test_runs_of_who_queues_elsewhere_are_never_pooled(
    place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A dataset of today's default and one of before, of one file: neither takes a run of the other."""
    before = copy_of(SEARCH, place)
    today = place / "today.results"
    (place / "file.yaml").write_text((before / "experiment.yaml").read_text())
    options = ["--backend", "simulator", "--jobs", "1", "--no-report"]
    virtlab(capsys, "run", place / "file.yaml", "--dataset", today, *options)
    assert set(map(frozenset, who_queues(today).values())) == {frozenset({"uplink"})}
    _, text = virtlab(capsys, "compare", before, today)
    assert "The pushback was guest, now uplink." in " ".join(text.split())
    shutil.rmtree(today / "runs/p0001-r01-a0")
    shutil.copytree(before / "runs/p0001-r01-a0", today / "runs/p0001-r01-a0")
    kept = (today / "runs/p0001-r01-a0/plan.json").read_bytes()
    code, _ = virtlab(capsys, *resume(today))
    assert code == 2  # it was planned differently
    assert (today / "runs/p0001-r01-a0/plan.json").read_bytes() == kept
