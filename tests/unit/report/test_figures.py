"""Every study of networks says where each figure of its source is reproduced, and the named plots exist.

Studies without roles (schedulability, computed by `virtlab rt`) have figures of their own kind; the tests of that command
check those.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from virtlab.report import check_figures

EXPERIMENTS = Path(__file__).parents[3] / "experiments"
STUDIES = sorted(
    path
    for path in EXPERIMENTS.glob("*/figures.yaml")
    if re.search(r"^roles:", (path.parent / "quick.yaml").read_text(encoding="utf-8"), re.MULTILINE)
)


def test_there_is_a_study() -> None:
    assert "switched-network" in [path.parent.name for path in STUDIES]


@pytest.mark.slow
@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.parent.name)
def test_every_plot_that_a_study_names_will_be_drawn(path: Path) -> None:
    assert [str(problem) for problem in check_figures(path)] == []
