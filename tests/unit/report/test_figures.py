"""Every study says where each figure of its source is reproduced: the named plots exist, and no figure is left out."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest
import typer

from virtlab.cli.main import app
from virtlab.report import check_figures
from virtlab.report.gather.sources.source_figures import DECLINED_MAX, check_rows, figure_rows, read_figures

ROOT = Path(__file__).parents[3]
TABLE = ROOT / "published" / "figures.csv"
STUDIES = sorted((ROOT / "experiments").glob("*/figures.yaml"))
OWED = {  # sources whose studies are still to be built
    "distributed-storage",
    "hypervisor-comparison",
    "thesis-introduction",
    "vcpu-over-allocation",
}


def test_there_is_a_study() -> None:
    assert "switched-network" in [path.parent.name for path in STUDIES]


@pytest.mark.slow
@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.parent.name)
def test_every_plot_that_a_study_names_will_be_drawn(path: Path) -> None:
    assert [str(problem) for problem in check_figures(path)] == []


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.parent.name)
def test_every_figure_and_table_of_the_source_has_one_entry(path: Path) -> None:
    assert [str(problem) for problem in check_rows(path, TABLE)] == []
    declined = [entry.figure for entry in read_figures(path).entries if entry.why_not]
    assert len(declined) <= DECLINED_MAX


def test_every_source_has_a_study_or_is_owed(capsys: pytest.CaptureFixture[str]) -> None:
    counted = Counter(row["source"] for row in figure_rows(TABLE))
    owed = set(counted) - {read_figures(path).rows for path in STUDIES}
    listed = ", ".join(f"{name} {counted[name]}" for name in sorted(owed))
    with capsys.disabled():
        sys.stdout.write(f"\nfigures owed to other studies: {listed}\n")
    assert owed == OWED


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
