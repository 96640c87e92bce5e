"""Every study of `experiments/` that reproduces a source is whole: its forms, its figures, its numbers, its page."""

from __future__ import annotations

import csv
import re
from itertools import takewhile
from pathlib import Path

import pytest
from tests.shipped import shipped
from tools.figures import check_figures

from virtlab.experiment import Experiment
from virtlab.experiment.read.mistakes import Mistakes
from virtlab.experiment.read.tree import read_tree

ROOT = Path(__file__).parents[3]
STUDIES = sorted(  # of `virtlab run`: their pages say how many runs each file has
    page.parent for page in (ROOT / "experiments").glob("*/README.md") if "| runs |" in page.read_text()
)
FORMS = {"quick.yaml", "full.yaml", "published.yaml"}


@pytest.fixture(params=STUDIES, ids=lambda folder: folder.name)
def study(request: pytest.FixtureRequest) -> Path:
    folder: Path = request.param
    return folder


def files_of(folder: Path) -> dict[str, Experiment]:
    """The study's files."""
    files = sorted(
        path for path in folder.glob("*.yaml") if path.name not in {"figures.yaml", "statements.yaml"}
    )
    return {path.name: shipped(path) for path in files}


def figures_of(folder: Path) -> Path:
    """Where the figures of the study's source are: beside it, or with the other study of the same source."""
    if (folder / "figures.yaml").is_file():
        return folder / "figures.yaml"
    (other,) = re.findall(r"\]\((\.\./[\w-]+/figures\.yaml)\)", (folder / "README.md").read_text())
    assert f"../{folder.name}/" in (folder / other).read_text()
    return folder / other


def claims_in(path: Path) -> list[dict[str, object]]:
    """The claims of a file, as it has them."""
    tree = read_tree(path.read_text(), Mistakes())
    claims = None if tree is None else tree.get("claims")
    return [] if claims is None else [dict(claim) for claim in claims.plain()]


def test_there_are_studies() -> None:
    assert {"switched-network", "virtual-routers", "virtual-switches", "forwarding-fairness"} <= {
        folder.name for folder in STUDIES
    }


@pytest.mark.slow
def test_a_study_has_its_three_forms_and_datasets_of_different_names(study: Path) -> None:
    experiments = files_of(study)
    assert set(experiments) >= FORMS
    assert all(experiment.claims for experiment in experiments.values())
    assert len({experiment.name for experiment in experiments.values()}) == len(experiments)


@pytest.mark.slow
def test_every_plot_that_figures_yaml_names_will_exist(study: Path) -> None:
    assert [str(problem) for problem in check_figures(figures_of(study))] == []


@pytest.mark.slow
def test_every_published_reference_names_rows_that_exist(study: Path) -> None:
    for experiment in files_of(study).values():
        for claim in experiment.claims:
            if claim.published is None:
                continue
            with (ROOT / "published" / str(claim.published["file"])).open(newline="") as table:
                rows = [row for row in csv.DictReader(table) if row["metric"] == claim.published["metric"]]
            where = claim.published.get("where", {})
            assert [row for row in rows if all(row[key] == str(value) for key, value in where.items())], (
                claim.id
            )


def test_a_file_of_a_study_has_80_lines_or_says_why_not(study: Path) -> None:
    for path in study.glob("*.yaml"):
        lines = path.read_text().splitlines()
        head = " ".join(line[2:] for line in takewhile(lambda line: line.startswith("#"), lines))
        assert len(lines) <= 80 or "more than 80 lines because" in head, path.name


@pytest.mark.slow
def test_every_claim_of_a_study_has_a_title(study: Path) -> None:
    """As the files have them: nothing is resolved for it, which takes seconds for all studies."""
    found = {path.name: claims_in(path) for path in study.glob("*.yaml") if path.name != "figures.yaml"}
    assert any(found.values())
    assert [
        (name, claim) for name, claims in found.items() for claim in claims if not claim.get("title")
    ] == []


@pytest.mark.slow
def test_the_page_repeats_the_runs_of_each_file(study: Path) -> None:
    page = (study / "README.md").read_text()
    for name, experiment in files_of(study).items():
        points, repeat = len(experiment.points()), experiment.repeat
        low, high = points * repeat.minimum, points * repeat.maximum
        runs = str(low) if low == high else f"{low} to {high}"
        assert re.search(rf"\[{re.escape(name)}\]\({re.escape(name)}\) \|[^|]*\| {runs} \|", page), name
