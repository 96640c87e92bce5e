"""`.ci/run` ends within an hour on two processors: each of its parts has a share of it, and each group of real worlds
a limit of its own.
"""

import re
from pathlib import Path

from tests import conftest

ROOT = Path(__file__).parents[3]
RUN = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
HOUR_MIN = 60
PROCESSES = 2  # that test, as `make unit` says


def test_the_limits_of_all_parts_are_an_hour() -> None:
    parts = re.findall(r"^part (.*)$", RUN, re.MULTILINE)
    assert all(re.match(r"\d+ ", part) for part in parts), parts
    assert sum(int(part.split()[0]) for part in parts) <= HOUR_MIN


def test_groups_of_real_worlds_have_limits_that_fit_into_their_part() -> None:
    assert (
        set(conftest.LIMITS_S) == set(conftest.ORDER) == {*conftest.GROUPS, conftest.OTHERS, conftest.PAGES}
    )
    (minutes,) = re.findall(r"^part (\d+) .*\bunit$", RUN, re.MULTILINE)
    assert max(conftest.LIMITS_S.values()) <= int(minutes) * 60
    assert sum(conftest.LIMITS_S.values()) <= PROCESSES * int(minutes) * 60


def test_a_group_that_takes_longer_is_told() -> None:
    limit_s = conftest.LIMITS_S[conftest.PAGES]
    assert conftest.over_limit(conftest.PAGES, limit_s) == ""
    assert conftest.over_limit(conftest.PAGES, limit_s + 1.0) == f" (over its limit of {limit_s} s)"
