"""A page that shows what a command does not print, or another picture, is found."""

from __future__ import annotations

from pathlib import Path

from tests.docs import shown


def test_an_output_that_is_not_shown_as_it_is_is_found() -> None:
    block = "$ virtlab check a.yaml\na.yaml: no mistakes\n  needs  10 s\n"
    assert shown.differs("exactly", block, "a.yaml: no mistakes  \n  needs  10 s\n") is None
    assert "11 s" in (shown.differs("exactly", block, "a.yaml: no mistakes\n  needs  11 s\n") or "")
    assert shown.differs("about", block, "a.yaml: no mistakes\n  needs  10 s\n") is not None


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
