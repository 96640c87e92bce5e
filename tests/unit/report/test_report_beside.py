"""Several sources in one report: setting by setting with the difference, each apart from the others."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.theory.test_predictions import COSTLY
from typer.testing import CliRunner

from virtlab.campaign import CampaignObserver, run_campaign
from virtlab.cli.dataset.report import app
from virtlab.errors import ExperimentError
from virtlab.experiment import load_text
from virtlab.report.gather.contrasts.comparison import bound_cell, comparisons, label_of, others_of
from virtlab.report.gather.dataset import gather
from virtlab.report.gather.gathered import Gathered
from virtlab.report.gather.model import Comparison, Published
from virtlab.report.tables.comparison import difference_table
from virtlab.results import Dataset
from virtlab.simulator import Simulator
from virtlab.simulator.profile import Profile

FILE = """
version: 1
name: echoes
factors: {{switches: [{switches}], load: [0 B, 30 kB]}}
hosts: 2
host: {{guests: 2}}
topology: {{shape: line, switches: "${{switches}}"}}
link: {{rate: 100 Mbit/s}}
roles:
  probe: {{workload: rtt, from: h1.g1, to: h2.g1, size: 1500 B ip_packet, interval: 10.3 ms, count: 20}}
  load: {{workload: burst_load, from: h1.g2, to: h2.g2, burst: "${{load}}", period: 10 ms, phase: random}}
repeat: 3
"""


def made(place: Path, switches: str, profile: Profile | None = None, backend: str = "simulator") -> Dataset:
    text = FILE.format(switches=switches)
    experiment = load_text(text)
    with Dataset.create(place, text, name="echoes", seed=experiment.seed, backend=backend) as dataset:
        run_campaign(experiment, dataset, Simulator(profile), CampaignObserver())
    return Dataset.open(place)


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> tuple[Dataset, Dataset]:
    folder = tmp_path_factory.mktemp("beside")
    first = made(folder / "first.results", "1, 2", COSTLY, backend="testbed")
    return first, made(folder / "second.results", "2, 3")


@pytest.fixture(scope="module")
def gathered(datasets: tuple[Dataset, Dataset]) -> tuple[Gathered, Gathered]:
    first, second = (gather(one, curves=False) for one in datasets)
    return first, second


def means(found: tuple[Comparison, ...]) -> Comparison:
    return next(one for one in found if one.quantity.path == "probe.rtt.mean")


@pytest.mark.slow
def test_settings_that_both_have_stand_beside_each_other_with_the_difference(
    gathered: tuple[Gathered, Gathered],
) -> None:
    first, second = gathered
    one = means(comparisons(first, others_of(second, "second", first, set())))
    assert [pair.point for pair in one.pairs] == [
        {"switches": "2", "load": "0 B"}, {"switches": "2", "load": "30 kB"},
    ]  # fmt: skip
    idle, loaded = one.pairs
    assert idle.difference is not None
    # What the costs of the first one's profile add to an echo: nothing varies, so the interval has no width.
    assert idle.difference.point == idle.difference.low == idle.difference.high
    assert idle.difference.point == -(4 * 700 + 2 * 3500 + 4 * 300 + 5000 + 20_000 + 1000)
    assert idle.relative == pytest.approx(-37_000 / 769_480)
    assert loaded.difference is not None
    assert loaded.difference.low is not None
    assert loaded.difference.high is not None
    assert loaded.difference.low < loaded.difference.point < loaded.difference.high
    assert loaded.difference.method == "Welch t"


@pytest.mark.slow
def test_sources_are_never_pooled_and_each_keeps_its_runs(gathered: tuple[Gathered, Gathered]) -> None:
    first, second = gathered
    one = means(comparisons(first, others_of(second, "second", first, set())))
    assert len(one.labels) == 2
    assert one.labels[1] == "simulated"
    for cell in one.result.cells:
        assert len(cell.present) == 3
        assert cell.point["source"] in one.labels
    own = [cell for cell in one.result.cells if cell.point["source"] == one.reference]
    assert [cell.present for cell in own] == [
        cell.present
        for cell in next(each for each in first.results if each.quantity.path == "probe.rtt.mean").cells
    ]


@pytest.mark.slow
def test_two_sources_of_one_kind_are_told_apart_by_their_dataset(gathered: tuple[Gathered, Gathered]) -> None:
    _, second = gathered
    taken = {label_of(second, one) for one in second.realisations}
    (again,) = others_of(second, "again.results", second, taken)
    assert again.label == "simulated (again.results)"


@pytest.mark.slow
def test_a_bound_has_a_difference_without_an_interval(gathered: tuple[Gathered, Gathered]) -> None:
    first, _ = gathered
    results = tuple(
        replace(one, cells=(bound_cell({"switches": "1", "load": "0 B"}, 1e6, one.quantity, "of a test"),))
        for one in first.results
        if one.quantity.path == "probe.rtt.max"
    )
    (other,) = others_of(first, "x", first, set())
    (one,) = comparisons(first, [replace(other, label="bound", results=results)])
    (pair,) = one.pairs
    assert pair.difference is not None
    assert pair.difference.low is None
    assert pair.difference.point == pytest.approx(1e6 - 488_320 - 37_000)


@pytest.mark.slow
def test_published_numbers_stand_once_beside_the_reference(gathered: tuple[Gathered, Gathered]) -> None:
    first, second = gathered
    published = Published({"load": "0 B"}, 5e5, 5e5, "about", "a source")
    results = tuple(replace(one, published=(published,)) for one in first.results)
    one = means(comparisons(replace(first, results=results), others_of(second, "second", first, set())))
    assert [number.point["source"] for number in one.result.published] == [one.reference]
    table = difference_table(first, one)
    assert table["head"][-1]["text"] == "published"
    assert [row["cells"][-1]["text"] for row in table["rows"]] == ["about 500 µs", ""]


@pytest.mark.slow
def test_a_source_that_varies_what_the_dataset_does_not_is_refused(
    gathered: tuple[Gathered, Gathered],
) -> None:
    first, second = gathered
    results = tuple(
        replace(
            one,
            cells=tuple(
                replace(cell, point={"switches": cell.point["switches"]})
                for cell in one.cells
                if cell.point["load"] == "0 B"
            ),
        )
        for one in first.results
    )
    with pytest.raises(ExperimentError, match="load varies"):
        comparisons(
            replace(first, results=results, design=replace(first.design, conditions={})),
            others_of(second, "second", first, set()),
        )


@pytest.mark.slow
def test_the_page_and_the_json_hold_both(datasets: tuple[Dataset, Dataset], tmp_path: Path) -> None:
    first, second = datasets
    asked = [str(first.path), "--with", str(second.path), "--directory", str(tmp_path), "--figures", "none"]
    run = CliRunner().invoke(app, [*asked, "--json"])
    assert run.exit_code == 0, run.output
    rows = [row for row in json.loads(run.stdout)["beside"] if row["path"] == "probe.rtt.mean"]
    assert [row["point"]["load"] for row in rows] == ["0 B", "30 kB"]
    assert all(row["source"] == "simulated" and row["difference"]["method"] == "Welch t" for row in rows)
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert 'id="beside"' in page
    assert 'id="beside-probe-rtt-mean"' in page
    assert 'id="differences-of-probe-rtt-mean"' in page
    assert "is not this one&#39;s" in page  # the files differ in their levels


@pytest.mark.slow
def test_a_dataset_without_anything_in_common_is_refused(
    datasets: tuple[Dataset, Dataset], tmp_path: Path
) -> None:
    other = made(tmp_path / "other.results", "5")
    run = CliRunner().invoke(
        app, [str(datasets[0].path), "--with", str(other.path), "--directory", str(tmp_path)]
    )
    assert isinstance(run.exception, ExperimentError)
    assert "same levels" in str(run.exception)


@pytest.mark.slow
def test_the_bound_stands_beside_the_largest_and_is_not_exceeded_on_an_ideal_platform(
    datasets: tuple[Dataset, Dataset], tmp_path: Path
) -> None:
    _, ideal = datasets
    asked = [str(ideal.path), "--bound", "--directory", str(tmp_path), "--figures", "none", "--json"]
    run = CliRunner().invoke(app, asked)
    assert run.exit_code == 0, run.output
    rows = json.loads(run.stdout)["beside"]
    assert {(row["path"], row["source"]) for row in rows} == {
        ("probe.rtt.max", "bound")
    }  # 20 echoes have no p99
    assert len(rows) == 4
    for row in rows:
        assert row["difference"]["point"] > 0
        assert row["difference"]["low"] is None


@pytest.mark.slow
def test_measured_simulated_bound_and_published_lie_over_each_other(
    datasets: tuple[Dataset, Dataset], tmp_path: Path
) -> None:
    first, second = datasets
    (tmp_path / "published").mkdir()
    table = (
        "study,location,switches,load_bytes,metric,unit,value,qualifier\ns,5.1,2,30000,rtt_max,ms,1.5,about\n"
    )
    (tmp_path / "published" / "study.csv").write_text(table)
    figures = tmp_path / "figures.yaml"
    figures.write_text(
        "figures:\n  - {figure: Table 9, shows: prices, why_not: nothing is measured}\npublished:\n"
        "  - {file: study.csv, metric: rtt_max, path: probe.rtt.max, columns: {switches: switches, load_bytes: load}}\n"
    )
    asked = [
        str(first.path),
        "--with",
        str(second.path),
        "--bound",
        "--figures-file",
        str(figures),
        "--figures",
        "none",
    ]
    run = CliRunner().invoke(app, [*asked, "--directory", str(tmp_path / "report"), "--json"])
    assert run.exit_code == 0, run.output
    found = json.loads(run.stdout)["beside"]
    rows = [row for row in found if row["path"] == "probe.rtt.max"]
    both = {(row["source"], row["point"]["switches"], row["point"]["load"]) for row in rows}
    assert {("simulated", "2", "30 kB"), ("bound", "2", "30 kB"), ("bound", "1", "0 B")} <= both
    page = (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    section = page[page.index('id="differences-of-probe-rtt-max"') :]
    table = section[: section.index("</table>")]
    for word in ("measured", "simulated", "bound", "published", "about 1"):
        assert word in table, table
