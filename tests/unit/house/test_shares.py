"""`make quick` deals the test files out to its processes: each to one, and none is left out."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.shares import files_of, shares

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("count", [1, 2, 7])
def test_every_file_is_in_one_share_and_the_shares_take_about_as_long(tmp_path: Path, count: int) -> None:
    files = [tmp_path / f"test_{number:02}.py" for number in range(40)]
    for path in files:
        path.write_text("")
    seconds = {str(path): 0.1 + number % 9 for number, path in enumerate(files)}
    dealt = shares(files, seconds, count)
    assert sorted(path for share in dealt for path in share) == files
    lasts = [sum(seconds[str(path)] for path in share) for share in dealt]
    assert len(dealt) == count
    assert max(lasts) - min(lasts) <= max(seconds.values())


def test_a_file_that_was_never_timed_counts_by_its_size(tmp_path: Path) -> None:
    large, *small = (tmp_path / f"test_{number}.py" for number in range(4))
    large.write_text("#" * 3000)
    for path in small:
        path.write_text("#" * 1000)
    assert shares([*small, large], {}, 2) == [[large], small]


@pytest.mark.slow
def test_no_file_with_tests_or_examples_is_missing() -> None:
    files = {path.relative_to(ROOT) for path in files_of([ROOT / "tests/unit", ROOT / "python"])}
    assert {path.relative_to(ROOT) for path in (ROOT / "tests/unit").rglob("test_*.py")} <= files
    for path in (ROOT / "python").rglob("*.py"):
        assert (">>> " in path.read_text()) <= (path.relative_to(ROOT) in files), path
