"""A page that shows what a command does not print, or another picture, is found."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.docs import shown


def test_an_output_that_is_not_shown_as_it_is_is_found() -> None:
    block = "$ virtlab check a.yaml\na.yaml: no mistakes\n  needs  10 s\n"
    assert shown.differs("exactly", block, "a.yaml: no mistakes  \n  needs  10 s\n") is None
    assert "11 s" in (shown.differs("exactly", block, "a.yaml: no mistakes\n  needs  11 s\n") or "")
    assert shown.differs("about", block, "a.yaml: no mistakes\n  needs  10 s\n") is not None


REAL = """\
holds Delay is higher with switches 2 than with 1: yes (switches 2 - 1): probe.path_rtt.median 244.1 µs (236 to 253 µs,
      95 %; 4 + 4 runs, Hedges g 55.2), required at least zero.
switches        µs
1         649 ± 97
probe.loss.ratio: 0 % in all of 8 runs
4 runs not counted: tainted, failed or cancelled; see the report.

dataset: switches.results
"""
AGAIN = """\
holds Delay is higher with switches 2 than with 1: yes (switches 2 - 1): probe.path_rtt.median 99 µs (90.5 to 1253 µs, 95
      %; 4 + 4 runs, Cliff's delta 1), required at least zero.
switches      µs
1         1234 ± 9
probe.loss.ratio: 0 % in all of 8 runs

dataset: switches.results
"""


def test_two_real_runs_differ_in_what_they_measured_alone() -> None:
    how = "but for measured numbers"
    block = f"$ virtlab run switches.yaml\n{REAL}"
    assert shown.differs(how, block, AGAIN) is None
    assert shown.differs("exactly", block, AGAIN) is not None


@pytest.mark.parametrize(
    ("part", "other"),
    [
        ("holds", "refuted"),
        ("switches 2 - 1", "switches 1 - 2"),
        ("4 + 4 runs", "4 + 3 runs"),
        ("µs\n", "ms\n"),
        ("0 % in all", "1 % in all"),
        ("switches.results", "other.results"),
    ],
)
def test_anything_else_that_differs_between_real_runs_is_found(part: str, other: str) -> None:
    output = AGAIN.replace(part, other)
    assert output != AGAIN
    assert (
        shown.differs("but for measured numbers", f"$ virtlab run switches.yaml\n{REAL}", output) is not None
    )


def test_another_picture_is_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("![A plot](plot.svg)\n")
    (tmp_path / "plot.svg").write_text("<svg/>")
    (tmp_path / "made.svg").write_text("<svg/>")
    assert shown.picture(page, "plot.svg is made.svg", tmp_path) is None
    (tmp_path / "made.svg").write_text("<svg></svg>")
    assert shown.picture(page, "plot.svg is made.svg", tmp_path) is not None
    assert shown.picture(page, "other.svg is made.svg", tmp_path) == "the page does not show other.svg"


def test_a_page_is_written_from_what_a_command_prints(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Before.\n```console\n$ virtlab plan\nold\n```\nAfter.\n")
    shown.written(page, "$ virtlab plan\nold\n", "new  \n  lines\n")
    assert page.read_text() == "Before.\n```console\n$ virtlab plan\nnew\n  lines\n```\nAfter.\n"
