"""Every study says where each figure of its source is reproduced, and the named plots exist."""

from __future__ import annotations

from pathlib import Path

import pytest

from virtlab.report import check_figures

STUDIES = sorted((Path(__file__).parents[2] / "experiments").glob("*/figures.yaml"))


def test_there_is_a_study() -> None:
    assert STUDIES


@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.parent.name)
def test_every_plot_that_a_study_names_will_be_drawn(path: Path) -> None:
    assert [str(problem) for problem in check_figures(path)] == []
