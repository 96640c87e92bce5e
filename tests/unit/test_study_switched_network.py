"""The switched-network study is whole: three forms, every figure of the source, numbers that its page repeats."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from virtlab.experiment import Experiment, load
from virtlab.experiment.mistakes import Mistakes
from virtlab.experiment.tree import read_tree
from virtlab.planner.estimate import estimate_points
from virtlab.report.figures import check_figures

ROOT = Path(__file__).parents[2]
STUDY = ROOT / "experiments" / "switched-network"
FILES = sorted(path for path in STUDY.glob("*.yaml") if path.name != "figures.yaml")
PAGES = [ROOT / "docs" / "reference" / "experiment-file.md", ROOT / "docs" / "reference" / "claims.md"]


@pytest.fixture(scope="module")
def experiments() -> dict[str, Experiment]:
    return {path.name: load(path) for path in FILES}


def test_the_study_has_its_three_forms(experiments: dict[str, Experiment]) -> None:
    assert {"quick.yaml", "full.yaml", "published.yaml"} <= set(experiments)
    assert all(experiment.claims for experiment in experiments.values())


def test_the_names_of_datasets_are_all_different(experiments: dict[str, Experiment]) -> None:
    assert len({experiment.name for experiment in experiments.values()}) == len(experiments)


def test_every_plot_that_figures_yaml_names_will_exist() -> None:
    assert [str(problem) for problem in check_figures(STUDY / "figures.yaml")] == []


def test_the_quick_form_is_planned_to_take_less_than_two_minutes(experiments: dict[str, Experiment]) -> None:
    quick = experiments["quick.yaml"]
    time_ns = sum(cost.time_ns for cost in estimate_points(quick)) * quick.repeat.maximum
    assert time_ns < 120 * 10**9


def test_every_published_reference_names_rows_that_exist(experiments: dict[str, Experiment]) -> None:
    import csv

    for experiment in experiments.values():
        for claim in experiment.claims:
            if claim.published is None:
                continue
            with (ROOT / "published" / str(claim.published["file"])).open(newline="") as table:
                rows = [row for row in csv.DictReader(table) if row["metric"] == claim.published["metric"]]
            where = claim.published.get("where", {})
            assert [row for row in rows if all(row[key] == str(value) for key, value in where.items())], (
                claim.id
            )


def test_the_page_repeats_the_runs_of_each_file(experiments: dict[str, Experiment]) -> None:
    page = (STUDY / "README.md").read_text()
    for name, experiment in experiments.items():
        points, repeat = len(experiment.points()), experiment.repeat
        low, high = points * repeat.minimum, points * repeat.maximum
        runs = str(low) if low == high else f"{low} to {high}"
        assert re.search(rf"\[{re.escape(name)}\]\({re.escape(name)}\) \|[^|]*\| {runs} \|", page), name


def test_the_published_loads_are_all_there(experiments: dict[str, Experiment]) -> None:
    published = experiments["published.yaml"]
    assert published.factors["load"] == tuple(f"{size} kB" for size in range(0, 86, 5))
    study = published.study(published.points()[-1])
    probe = study.roles["probe"].parameters
    assert (probe["count"], probe["interval_ns"], probe["ip_packet_bytes"]) == (1000, 100_000_000, 1500)
    assert study.roles["load"].parameters["period_ns"] == 10_000_000


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_yaml_of_the_reference_pages_is_yaml(page: Path) -> None:
    for block in re.findall(r"^```yaml\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL):
        mistakes = Mistakes()
        assert read_tree(block, mistakes) is not None, [str(mistake) for mistake in mistakes]
