"""Subjects of commits are `area: what`, short enough for one line of a log."""

from __future__ import annotations

import re

from tests.process.test_files_at_the_top import git

LOOKED_AT = 20
LENGTH_MAX = 72
SUBJECT = re.compile(r"[a-z][a-z0-9, .&/_-]*: \S")


def test_the_last_commits_say_their_area_and_fit_a_line() -> None:
    subjects = git("log", f"-{LOOKED_AT}", "--no-merges", "--format=%s")
    assert [each for each in subjects if len(each) > LENGTH_MAX or not SUBJECT.match(each)] == []
