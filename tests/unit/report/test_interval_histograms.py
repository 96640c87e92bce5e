"""Times of a dataset as HdrHistogram's log: by run, role, part, thread and interval, to three digits."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.report.test_report_over_time import STORE, as_row

import virtlab as vl
from virtlab.cli.main import main
from virtlab.experiment import load_text
from virtlab.outputs.histogram_log import values
from virtlab.outputs.interval_histogram import place_of, write_line

HDR_RESOLUTION = 1e-3  # three digits


class Text(list[str]):
    """A file that is written to, as lines."""

    def write(self, text: str) -> int:
        self.append(text)
        return len(text)


@given(st.dictionaries(st.integers(0, 2**50), st.integers(1, 10_000), min_size=1, max_size=30))
def test_a_line_is_read_as_what_was_counted(times: dict[int, int]) -> None:
    places: Counter[int] = Counter()
    for time, count in times.items():
        places[place_of(time)] += count
    out = Text()
    write_line(out, "a/b", 1.5, 2.0, max(times), sorted(places.items()))  # type: ignore[arg-type]
    (line,) = out
    assert line.startswith(f"Tag=a/b,1.500000,2.000000,{max(times) / 1e6:.6f},")
    found = values(line, "a/b")
    assert sum(found.values()) == sum(times.values())
    every = sorted(time for time, count in times.items() for _ in range(count))
    read = sorted(time for time, count in found.items() for _ in range(count))
    assert read == pytest.approx(every, rel=HDR_RESOLUTION, abs=1e-9)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> vl.Results:
    folder = tmp_path_factory.mktemp("histograms") / "operations.results"
    text = STORE.replace("count: 300", "count: 300, threads: 3")
    return vl.run(load_text(text), dataset=folder, backend="simulator")


def export(results: vl.Results, *arguments: str) -> int:
    with pytest.raises(SystemExit) as ended:
        main(["export", str(results.path), "--what", "histograms", *arguments])
    return int(ended.value.code or 0)


def lines(path: Path) -> list[dict[str, Any]]:
    """Lines of a log by their fields."""
    read = [line.split(",") for line in path.read_text().splitlines() if line.startswith("Tag=")]
    return [
        {"tag": tag.removeprefix("Tag="), "begin": float(begin), "length": float(length), "max_ms": float(largest)}
        for tag, begin, length, largest, _ in read
    ]  # fmt: skip


def test_each_part_of_each_role_is_a_line_of_a_run(results: vl.Results, tmp_path: Path) -> None:
    path = tmp_path / "a.hlog"
    assert export(results, "--output", str(path)) == 0
    rows = as_row(results.samples("operation"))
    run = rows[0]["run"]
    told = {line["tag"]: line for line in lines(path)}
    parts = (
        "",
        ".create",
        ".read",
        ".1kB",
        ".20kB",
        ".create_1kB",
        ".create_20kB",
        ".read_1kB",
        ".read_20kB",
    )
    assert set(told) == {f"{run}/{role}{part}/operation_time" for role in ("one", "other") for part in parts}
    mine = [row["finished_ns"] - row["intended_ns"] for row in rows if row["stream"] == "one"]
    tag = f"{run}/one/operation_time"
    found = values(path.read_text(), tag)
    read = sorted(time for time, count in found.items() for _ in range(count))
    assert read == pytest.approx(sorted(mine), rel=HDR_RESOLUTION)
    assert told[tag]["max_ms"] == pytest.approx(max(mine) / 1e6, abs=1e-6)


def test_intervals_and_threads_hold_each_operation_once(results: vl.Results, tmp_path: Path) -> None:
    path = tmp_path / "a.hlog"
    assert export(results, "--stream", "one", "--interval", "200 us", "--threads", "-o", str(path)) == 0
    rows = [row for row in as_row(results.samples("operation")) if row["stream"] == "one"]
    low = min(row["intended_ns"] for row in as_row(results.samples("operation")))
    held = Counter((row["thread"], (row["intended_ns"] - low) // 200_000) for row in rows)
    logged: Counter[tuple[int, int]] = Counter()
    for line, text in zip(lines(path), path.read_text().splitlines()[2:], strict=True):
        thread = int(line["tag"].rpartition("/thread-")[2])
        assert line["length"] == pytest.approx(0.0002)
        logged[thread, round(line["begin"] / 0.0002)] += sum(values(text, "*").values())
    assert logged == held
    assert len({thread for thread, _ in held}) == 3
    assert len({interval for _, interval in held}) > 3


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--stream", "three"), "the dataset has no times of 'three'"),
        (("--interval", "20"), "'20' has no unit"),
        (("--interval", "0 s"), "is not above zero"),
        (("--format", "csv"), "is not for histograms"),
    ],
)
def test_what_cannot_be_written_is_one_line(
    results: vl.Results, tmp_path: Path, arguments: tuple[str, ...], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:  # fmt: skip
    path = tmp_path / "a.hlog"
    assert export(results, *arguments, "--output", str(path)) == 2
    said = capsys.readouterr().err.splitlines()
    assert len(said) == 1
    assert expected in said[0]
    assert not path.exists()


def test_options_of_histograms_are_for_them_alone(
    results: vl.Results, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["export", str(results.path), "--interval", "1 s"])
    assert ended.value.code == 2
    assert "--interval is of histograms alone" in capsys.readouterr().err.replace(": ", " ")
