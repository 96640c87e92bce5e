"""The report of a whole dataset: what stands in the page, what never may, and that only results speak."""

from __future__ import annotations

import json
from html.parser import HTMLParser
from pathlib import Path

import pytest
from tests.unit.report.report_specimen import SCRIPT, write_dataset
from tools.drawable import names_of_experiment

from virtlab.errors import ExperimentError
from virtlab.report import as_json, summary, write_report
from virtlab.report.figures.plots import figures_of
from virtlab.report.gather.dataset import gather
from virtlab.results import Dataset

pytestmark = pytest.mark.slow
OURS = 4  # two blocks of data, the drawing library, our script


class Page(HTMLParser):
    """Tags, ids, attributes and the text outside scripts and styles."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str, str]] = []
        self.words: list[str] = []
        self.data: dict[str, str] = {}
        self._inside: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(tag, name, value or "") for name, value in attrs]
        if tag in {"script", "style"}:
            self._inside = dict(attrs).get("id") or tag

    def handle_endtag(self, tag: str) -> None:
        if tag in {"script", "style"}:
            self._inside = None

    def handle_data(self, data: str) -> None:
        if self._inside is None:
            self.words.append(data)
        else:
            self.data[self._inside] = self.data.get(self._inside, "") + data

    @property
    def ids(self) -> set[str]:
        return {value for _, name, value in self.attributes if name == "id"}

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    """A dataset whose every free text holds a script, with its report written; point 5 was never run."""
    dataset = write_dataset(
        tmp_path_factory.mktemp("report") / "specimen.results", hostile=True, without=frozenset({5})
    )
    write_report(dataset, formats=["svg"])
    return dataset


@pytest.fixture(scope="module")
def page(hostile: Dataset) -> Page:
    return Page((hostile.report_folder / "report.html").read_text(encoding="utf-8"))


def test_what_a_guest_or_an_author_wrote_never_becomes_markup(hostile: Dataset, page: Page) -> None:
    assert page.tags.count("script") == OURS
    assert SCRIPT in page.text  # shown as text: in the title, and as the reason of the tainted run
    assert not [name for _, name, _ in page.attributes if name.startswith("on")]
    assert "<" not in page.data["specs"]
    assert "<" not in page.data["configs"]
    for picture in (hostile.report_folder / "figures").glob("*.svg"):
        assert "<script" not in picture.read_text(encoding="utf-8")


def test_the_page_asks_the_network_for_nothing(page: Page) -> None:
    policy = next(value for tag, name, value in page.attributes if tag == "meta" and "default-src" in value)
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    for tag, name, value in page.attributes:
        if name in {"src", "href", "srcset", "action", "data", "poster"}:
            assert value.startswith("#"), (tag, name, value)
    assert "@import" not in page.data["style"]
    assert "url(" not in page.data["style"]


def test_verdicts_come_first(page: Page) -> None:
    order = [value for tag, name, value in page.attributes if tag == "section" and name == "id"]
    assert order[0] == "verdicts"
    assert order[-4:] == ["runs", "conditions", "file", "glossary"]
    assert "2 holds" in page.text or "3 holds" in page.text


def test_every_plot_has_words_and_a_table(page: Page) -> None:
    plots = {value for tag, name, value in page.attributes if tag == "figure" and name == "data-plot"}
    assert len(plots) > 10
    assert plots <= page.ids
    labels = [value for tag, name, value in page.attributes if tag == "div" and name == "aria-label"]
    words = ("highest", "half of", "over time", "beside each other")
    assert len([label for label in labels if any(word in label for word in words)]) == len(plots)
    for path in ("probe-rtt", "stream-goodput", "probe-pacing-error"):
        assert f"table-of-{path}" in page.ids


def test_names_are_those_that_the_file_alone_decides(hostile: Dataset, page: Page) -> None:
    known = names_of_experiment(hostile.path / "experiment.yaml")
    drawn = {picture.stem for picture in (hostile.report_folder / "figures").glob("*.svg")}
    assert drawn
    assert drawn <= set(known)
    assert {
        name for name in page.ids if name.startswith(("table-of-", "ecdf-of-", "runs-of-", "recurrence-of-"))
    } <= set(known)
    assert "probe-rtt-mean-by-load-per-switches-streams" in drawn


def test_a_setting_that_was_not_run_is_absent_and_not_zero(hostile: Dataset, page: Page) -> None:
    data = gather(hostile, curves=False)
    result = next(one for one in data.results if one.quantity.path == "probe.rtt.mean")
    (absent,) = [cell for cell in result.cells if not cell.values]
    assert absent.point == data.design.points[5]
    assert absent.estimate is None
    assert "1 of 16 design points have no valid run yet" in page.text
    assert "no value" in page.text
    figure = next(one for one in figures_of(data) if one.name.startswith("probe-rtt-mean-by-load"))
    drawn = {(row["level"], row["colour"], row["panel"]) for row in figure.spec["data"]["values"]}
    point = absent.point
    assert (point["load"], point["switches"], f"streams {point['streams']}") not in drawn
    assert len(drawn) == 15


def test_a_tainted_run_is_shown_and_not_counted(hostile: Dataset, page: Page) -> None:
    data = gather(hostile, curves=False)
    (tainted,) = [run for run in data.runs if not run.used]
    assert tainted.status == "tainted"
    assert all(
        tainted.run != value.run for one in data.results for cell in one.cells for value in cell.values
    )
    assert tainted.run in page.text
    assert "1 run shown but not in any estimate (1 tainted)" in page.text


def test_what_was_read_back_otherwise_than_applied_is_marked(page: Page) -> None:
    marked = [
        value
        for tag, name, value in page.attributes
        if tag == "td" and name == "class" and "differs" in value
    ]
    assert len(marked) == 1


def test_the_same_dataset_gives_the_same_page(hostile: Dataset, tmp_path: Path) -> None:
    first = (hostile.report_folder / "report.html").read_bytes()
    again = write_report(Dataset.open(hostile.path), tmp_path / "again", formats=())
    assert again.read_bytes() == first
    assert not list((tmp_path / "again" / "figures").iterdir())


def test_pictures_of_an_earlier_report_go(tmp_path: Path) -> None:
    dataset = write_dataset(tmp_path / "specimen.results", runs=4, samples=40, streams=False)
    folder = dataset.report_folder / "figures"
    write_report(dataset, formats=["png"])
    (folder / "notes.txt").write_text("mine")
    write_report(dataset, formats=["svg"])
    assert {path.suffix for path in folder.iterdir() if path.name != ".pictures"} == {".svg", ".txt"}
    with pytest.raises(ExperimentError, match="'gif' is not a format; write png, svg or none"):
        write_report(dataset, formats=["gif"])


def test_link_realisations_are_never_pooled(tmp_path: Path) -> None:
    dataset = write_dataset(
        tmp_path / "specimen.results",
        realisation=lambda run: "netem" if run % 3 else "soft_switch",
        samples=50,
    )
    data = gather(dataset)
    assert data.realisations == ["netem", "soft_switch"]
    result = next(one for one in data.results if one.quantity.path == "probe.rtt.mean")
    links = {run.run: run.realisation for run in data.runs}
    assert all(links[value.run] == cell.realisation for cell in result.cells for value in cell.values)
    assert any("never pooled" in note for note in data.notes)
    figure = next(
        one for one in figures_of(data) if one.name == "probe-rtt-mean-by-load-per-switches-streams"
    )
    panels = {row["panel"] for row in figure.spec["data"]["values"]}
    assert panels == {f"streams {s}, links {by}" for s in (1, 2) for by in ("netem", "soft_switch")}
    (distribution,) = [one for one in data.samples.distributions if one.metric == "rtt"]
    assert all({links[run] for run in curve.runs} == {curve.realisation} for curve in distribution.curves)


def test_curves_are_small_and_true_to_their_samples(hostile: Dataset) -> None:
    import numpy as np

    data = gather(hostile)
    curve = next(one for one in data.samples.distributions if one.metric == "rtt").curves[0]
    assert len(curve.x) <= 1000
    samples = np.concatenate([hostile.run(run).samples("probe", "rtt/1")["rtt_ns"] for run in curve.runs])
    assert curve.samples == samples.size
    for value, share in zip(curve.x, curve.y, strict=True):
        below = float(np.mean(samples <= value))
        assert share <= below + 1e-9
        assert below - share < 0.02 or value == samples.min()
    course = next(one for one in data.samples.courses if one.metric == "rtt").curves[0]
    values = hostile.run(course.runs[0]).samples("probe", "rtt/1")["rtt_ns"]
    assert max(course.y) == values.max()
    assert min(course.y) == values.min()


def test_json_holds_every_estimate_with_its_unit_interval_and_runs(hostile: Dataset) -> None:
    values = json.loads(json.dumps(as_json(hostile), allow_nan=False))
    assert values["schema"] == "virtlab.report/1"
    assert [verdict["id"] for verdict in values["verdicts"]] == ["second-switch", "loss", "growth"]
    rows = [row for row in values["estimates"] if row["path"] == "probe.rtt.mean"]
    assert len(rows) == 16
    assert [row["estimate"] is None for row in rows].count(True) == 1
    full = next(row for row in rows if row["estimate"])
    assert full["unit"] == "ns"
    assert full["estimate"]["low"] < full["estimate"]["point"] < full["estimate"]["high"]
    assert full["runs"] == full["estimate"]["n"] == 3


def test_the_terminal_takes_no_name_as_markup(tmp_path: Path) -> None:
    from rich.console import Console
    from tests.unit.report.report_specimen import experiment_text

    text = experiment_text(title="'[red]loud[/red] [/]'")
    dataset = write_dataset(tmp_path / "specimen.results", text=text, runs=16, samples=40)
    console = Console(width=100, record=True, file=(tmp_path / "out").open("w"))
    console.print(summary(dataset))
    shown = console.export_text()
    assert "[red]loud[/red] [/]" in shown
    assert "probe" in shown
    assert "rtt.mean" in shown
    assert "(one run)" in shown
