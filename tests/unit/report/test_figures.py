"""Every study says where each figure of its source is reproduced: the named plots exist, and no figure is left out."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest
import typer
from tests.shipped import shipped
from tests.study_figures import DECLINED_MAX, check_marks, check_rows, figure_rows
from tools.figures import check_figures

from virtlab.cli.main import app
from virtlab.report.gather.dataset import declared_factors
from virtlab.report.gather.sources.published import overlays
from virtlab.report.gather.sources.source_figures import read_figures

ROOT = Path(__file__).parents[3]
TABLE = ROOT / "published" / "figures.csv"
STUDIES = sorted((ROOT / "experiments").glob("*/figures.yaml"))
OWED = {  # sources whose studies are still to be built
    "thesis-introduction",
}


def test_there_is_a_study() -> None:
    assert "switched-network" in [path.parent.name for path in STUDIES]


@pytest.mark.slow
@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.parent.name)
def test_every_plot_that_a_study_names_will_be_drawn(path: Path) -> None:
    assert [str(problem) for problem in check_figures(path)] == []


@pytest.mark.slow
@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.parent.name)
def test_every_figure_and_table_of_the_source_has_one_entry(path: Path) -> None:
    assert [str(problem) for problem in check_rows(path, TABLE)] == []
    declined = [entry.figure for entry in read_figures(path).entries if entry.why_not]
    assert len(declined) <= DECLINED_MAX


@pytest.mark.slow
def test_every_source_has_a_study_or_is_owed(capsys: pytest.CaptureFixture[str]) -> None:
    counted = Counter(row["source"] for row in figure_rows(TABLE))
    owed = set(counted) - {read_figures(path).rows for path in STUDIES}
    listed = ", ".join(f"{name} {counted[name]}" for name in sorted(owed))
    with capsys.disabled():
        sys.stdout.write(f"\nfigures owed to other studies: {listed}\n")
    assert owed == OWED


@pytest.mark.slow
@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.parent.name)
def test_every_number_that_a_figure_prints_lies_on_its_plot_or_the_study_says_why_not(path: Path) -> None:
    assert [str(problem) for problem in check_marks(path, TABLE)] == []


def test_a_printed_number_on_no_plot_and_a_reason_for_nothing_are_mistakes(tmp_path: Path) -> None:
    table = tmp_path / "figures.csv"
    table.write_text('source,number,values_in\na,Fig 1,"a.csv: rtt (mean), loss; b.csv: bulk"\n')
    path = tmp_path / "figures.yaml"
    path.write_text(
        "rows: a\nfigures:\n  - {figure: Fig 1, shows: x, experiment: e.yaml, plots: [probe-rtt-mean-by-load]}\n"
        "published:\n  - {file: a.csv, metric: rtt, path: probe.rtt.mean}\n"
        "  - {file: b.csv, metric: 'bulk: forth', path: bulk.goodput.mean}\nnot_marked: {other: why}\n"
    )
    assert [str(problem).partition(";")[0] for problem in check_marks(path, table)] == [
        "Fig 1: 'loss' of a.csv lies on none of its plots",
        "Fig 1: 'bulk' of b.csv lies on none of its plots",
        "not_marked: no figure of a holds 'other'",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.parent.name)
def test_every_entry_of_published_numbers_lies_on_a_plot_of_some_file(path: Path) -> None:
    figures = read_figures(path)
    files = (
        sorted({name for entry in figures.entries for name in entry.experiments}) if figures.published else []
    )
    drawn: set[str] = set()
    for name in files:
        factors = declared_factors(shipped(path.parent / name))
        for one in figures.published:
            if overlays([], [one], ROOT / "published", factors).get(one.path):
                drawn.add(repr(one))
    assert [one for one in figures.published if repr(one) not in drawn] == []


@pytest.mark.slow
def test_a_number_lies_at_its_platform_where_the_file_has_platforms() -> None:
    figures = read_figures(ROOT / "experiments" / "virtual-routers" / "figures.yaml")
    factors = declared_factors(shipped(ROOT / "experiments" / "virtual-routers" / "hypervisors.yaml"))
    found = overlays([], figures.published, ROOT / "published", factors)["small.rtt.min"]
    assert {(one.point["hypervisor"], one.low) for one in found} == {("vmware", 390_000), ("hyperv", 600_000)}


@pytest.mark.slow
@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.parent.name)
def test_a_command_that_answers_is_one_of_virtlab(path: Path) -> None:
    for entry in read_figures(path).entries:
        if entry.command:
            program, *words = entry.command.split()
            assert program == "virtlab"
            command = typer.main.get_command(app)
            for word in words:
                found = command.get_command(typer.Context(command), word)  # type: ignore[attr-defined]
                assert found is not None, entry.command
                command = found
