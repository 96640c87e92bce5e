"""`figures.yaml`: every mistake is found without running anything; published numbers find their places."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.report_specimen import experiment_text, write_dataset

from virtlab.errors import ExperimentError
from virtlab.report import check_figures, overlay, write_report
from virtlab.report.drawing import figures_of
from virtlab.report.figures import read_figures
from virtlab.report.gather import gather

GOOD = """\
source: a study
figures:
  - {figure: Figure 1, shows: delay, experiment: specimen.yaml, plots: [probe-rtt-p95-by-streams-per-switches-load]}
  - {figure: Table 1, shows: prices, why_not: nothing is measured}
  - {figure: Table 2, shows: values, experiment: specimen.yaml, plots: [table-of-probe-rtt, topology, ecdf-of-probe-rtt]}
"""
TABLE = """\
study,location,switches,load_bytes,metric,unit,value,qualifier
s,5.1,1,30000,rtt_mean,ms,1.5,about
s,5.2,1 or 2,0,rtt_mean,ms,0.5,range_low
s,5.2,1 or 2,0,rtt_mean,ms,0.7,range_high
s,5.3,2,12345,rtt_mean,ms,9,exact
s,5.4,2,,rtt_mean,ms,8,exact
"""


def written(folder: Path, text: str) -> Path:
    (folder / "specimen.yaml").write_text(experiment_text())
    (folder / "figures.yaml").write_text(text)
    return folder / "figures.yaml"


def test_a_good_file_has_no_problem(tmp_path: Path) -> None:
    assert check_figures(written(tmp_path, GOOD)) == []


def test_a_plot_that_will_not_be_is_told_with_the_nearest_that_will(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD.replace("p95-by-streams", "p95-by-stream"))
    (problem,) = check_figures(path)
    assert str(problem) == (
        "Figure 1: no report of specimen.yaml holds 'probe-rtt-p95-by-stream-per-switches-load'; "
        "the nearest is 'probe-rtt-p95-by-streams-per-switches-load'"
    )


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("{figure: F, shows: x}", "has neither plots nor a why_not"),
        (
            "{figure: F, shows: x, plots: [topology], why_not: y, experiment: specimen.yaml}",
            "has plots and a why_not",
        ),
        ("{figure: F, why_not: y}", "does not say what it shows"),
        ("{figure: F, shows: x, plots: [topology]}", "names no experiment"),
    ],
)
def test_an_entry_is_whole(tmp_path: Path, entry: str, says: str) -> None:
    problems = check_figures(written(tmp_path, f"figures:\n  - {entry}\n"))
    assert says in [problem.what for problem in problems]


@pytest.mark.parametrize(
    "text", ["", "figures: 3", "figures: [3]", "figures: [{figure: F, plot: x}]", "a: [", "\x00"]
)
def test_what_is_no_such_file_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ExperimentError):
        read_figures(written(tmp_path, text))


def test_published_numbers_lie_over_the_plots_they_speak_of(tmp_path: Path) -> None:
    (tmp_path / "published").mkdir()
    (tmp_path / "published" / "study.csv").write_text(TABLE)
    overlay = """\
published:
  - {file: study.csv, metric: rtt_mean, path: probe.rtt.mean, columns: {switches: switches, load_bytes: load}}
"""
    figures = written(tmp_path, GOOD + overlay)
    dataset = write_dataset(tmp_path / "specimen.results", runs=16, samples=60)
    data = gather(dataset, figures_file=figures)
    result = next(one for one in data.results if one.quantity.path == "probe.rtt.mean")
    numbers = {
        (one.point.get("switches"), one.point.get("load"), one.low, one.high) for one in result.published
    }
    assert numbers == {
        ("1", "30 kB", 1.5e6, 1.5e6),
        ("1", "0 B", 0.5e6, 0.7e6),
        ("2", "0 B", 0.5e6, 0.7e6),
        ("2", None, 8e6, 8e6),
    }
    figure = next(
        one for one in figures_of(data) if one.name == "probe-rtt-mean-by-load-per-switches-streams"
    )
    places = {(row["level"], row["colour"]) for row in figure.spec["data"]["values"] if "source" in row}
    assert places == {
        ("30 kB", "1"),
        ("0 B", "1"),
        ("0 B", "2"),
    }  # the number without a load has no place on this axis

    page = write_report(dataset, figures_file=figures).read_text(encoding="utf-8")
    assert "probe-rtt-p95-by-streams-per-switches-load" in page
    assert "nothing is measured" in page
    kept = dataset.report_folder / "source"
    assert (kept / "figures.yaml").read_bytes() == figures.read_bytes()
    assert (kept / "published" / "study.csv").read_text() == TABLE


@pytest.mark.parametrize(
    ("cell", "level", "column", "same"),
    [
        ("FQ-CODEL", "fq_codel", "qdisc", True),
        ("Linux bridge", "linux_bridge", "vswitch", True),
        ("CODEL", "fq_codel", "qdisc", False),
        ("30000", "30 kB", "load_bytes", True),
    ],
)
def test_a_cell_is_a_level_however_its_words_are_joined(
    cell: str, level: str, column: str, same: bool
) -> None:
    assert overlay._same(cell, level, column) is same
