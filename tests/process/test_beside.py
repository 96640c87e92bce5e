"""All tests are in one of the two parts of `make unit`, and the part that only computes yields to the other."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from tests import alone
from tests import conftest as shared
from tools import beside

SAYS = "import os, sys; print(os.sched_getscheduler(0), *sys.argv[1:], flush=True); sys.exit(int({code}))"


def ended(
    code: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> tuple[int, list[list[str]]]:
    """The exit code, and what both parts said in the order in which it is printed; `code` is that of each of them."""
    monkeypatch.setattr(beside, "PYTEST", (sys.executable, "-c", SAYS.format(code=code)))
    result = beside.main(["--durations", "5"])
    return result, [line.split() for line in capfd.readouterr().out.splitlines() if line[:1].isdigit()]


def test_what_only_computes_yields_its_processor_and_is_told_after_the_others(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    code, (others, aside) = ended("0", monkeypatch, capfd)
    assert code == 0
    assert [each[0] for each in (others, aside)] == [str(os.SCHED_OTHER), str(os.SCHED_IDLE)]
    assert (others[-2:], aside[-2:]) == (["--durations", "5"], ["--durations", "5"])


@pytest.mark.parametrize("failing", ["-p", "not"])
def test_either_part_fails_all(
    failing: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    code, _ = ended(f"'{failing}' in ' '.join(sys.argv).split()", monkeypatch, capfd)
    assert code == 1


def test_no_test_is_in_both_parts_or_in_none() -> None:
    assert beside.ASIDE[beside.ASIDE.index("-m") + 1] == "alone or computes"
    assert beside.OTHERS[beside.OTHERS.index("-m") + 1] == "not (alone or computes)"
    for folder in alone.FOLDERS:
        item: Any = SimpleNamespace(
            path=alone.HERE / folder / "test_any.py", get_closest_marker=lambda _: None
        )
        assert alone.must_be(item)


def test_groups_of_real_worlds_begin_before_other_tests_the_longest_first_with_what_must_be_undisturbed() -> (
    None
):
    def item(said: str) -> Any:
        group, _, undisturbed = said.partition(" ")
        markers = {
            "xdist_group": SimpleNamespace(args=(group,)) if group else None,
            "undisturbed": undisturbed or None,
        }
        return SimpleNamespace(get_closest_marker=markers.get)

    said = ["", "tests/process/test_site.py", "pages", "moves", "programs", "machine", "machine undisturbed"]
    assert sorted(said, key=lambda each: shared.place(item(each))) == [
        "machine undisturbed", "machine", "programs", "moves", "pages", "", "tests/process/test_site.py",
    ]  # fmt: skip
    assert {*shared.GROUPS, shared.OTHERS, shared.PAGES} == set(shared.ORDER)
