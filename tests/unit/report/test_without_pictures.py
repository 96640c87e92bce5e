"""Where vl-convert is not installed: pages draw their plots themselves, and naming a format says what it needs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.unit.report.report_specimen import write_dataset
from tests.unit.report.test_report_page import OURS, Page
from typer.testing import CliRunner

import virtlab as vl
from virtlab.cli.dataset.report import app as report_app
from virtlab.errors import MachineError
from virtlab.realtime.plots import three_task_ratios, write_plots
from virtlab.report import write_report
from virtlab.report.figures.plots import figures_of
from virtlab.report.gather.dataset import gather
from virtlab.results import Dataset


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return write_dataset(tmp_path_factory.mktemp("plain") / "specimen.results")


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)


@pytest.mark.slow
@pytest.mark.usefixtures("without")
def test_a_report_is_the_page_alone_with_every_plot_for_its_script(dataset: Dataset, tmp_path: Path) -> None:
    page = write_report(dataset, tmp_path)
    assert [path.name for path in (tmp_path / "figures").iterdir()] == []
    read = Page(page.read_text(encoding="utf-8"))
    assert read.tags.count("script") == OURS
    plots = [one.name for one in figures_of(gather(dataset)) if not one.empty]
    assert read.text.count("Drawn by the page's script") == len(plots) > 2
    assert all(f'"{name}":' in read.data["specs"] for name in plots)
    assert "Plots as pictures" not in read.text


@pytest.mark.slow
@pytest.mark.usefixtures("without")
def test_naming_a_format_says_what_it_needs(dataset: Dataset, tmp_path: Path) -> None:
    with pytest.raises(MachineError, match=r"--figures: SVG and PNG .*; pip install 'virtlab\[pictures\]'"):
        write_report(dataset, tmp_path, formats=("png",))
    assert list(tmp_path.iterdir()) == []
    said = CliRunner().invoke(report_app, [str(dataset.path), "--directory", str(tmp_path)])
    assert said.exit_code == 0
    assert said.stdout.splitlines()[-1].endswith("pip install 'virtlab[pictures]'")


@pytest.mark.slow
@pytest.mark.usefixtures("without")
def test_a_notebook_shows_a_page_and_a_page_can_be_saved(dataset: Dataset, tmp_path: Path) -> None:
    results = vl.open(dataset.path)
    picture = results.figure(results.figures[0])
    shown = picture._repr_html_()
    assert shown.startswith('<iframe srcdoc="&lt;!doctype html&gt;')
    assert shown.count("<") == 2  # the frame: nothing of the page ends it
    picture.save(tmp_path / "one.html")
    page = Page((tmp_path / "one.html").read_text(encoding="utf-8"))
    assert picture.title in page.text
    assert page.tags.count("script") == OURS
    with pytest.raises(MachineError, match="pictures: SVG and PNG"):
        picture.save(tmp_path / "one.png")


@pytest.mark.usefixtures("without")
def test_a_plot_of_a_study_is_a_page(tmp_path: Path) -> None:
    rows = [{"vm_period": 1, "ratio": 0.5, "task": "</script>"}]
    written = write_plots(tmp_path, {"three": three_task_ratios(rows)})
    assert [path.name for path in written] == ["three.vl.json", "three.html"]
    page = Page(written[1].read_text(encoding="utf-8"))
    assert page.tags.count("script") == OURS
    assert "</script>" not in page.data["spec"]
