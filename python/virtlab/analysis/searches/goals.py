"""The goal of a search beside every number that hangs on it: without its goal such a number means nothing.

What a search found hangs on its goal, and so does what was measured at it: delay at half of the throughput is another
delay where the throughput is another one. So values of a test at a share of what was found, and those of tests that
took what was found as their measure, have the goal too. Loads that the file states itself have none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from virtlab.analysis.searches.searched import limit_of, trials_of
from virtlab.results.record import RunRecord

Key = TypeVar("Key")
AT_SHARE = re.compile(r"at[\d_]+\Z")  # loads of a test that are shares of what was found
# Tests of the role as a whole that take what was found as their measure.
BY_FOUND = frozenset({"corrected_buffer_time", "recovery_time", "reset_time"})


@dataclass(frozen=True, slots=True)
class Goals:
    """Goals in words. `searched`: by role and metric searched for; `first`: by role, the one whose value is tested."""

    searched: Mapping[tuple[str, str], str]
    first: Mapping[str, str]

    @classmethod
    def of_runs(cls, records: Iterable[RunRecord]) -> Goals:
        """The goals of every search of these runs; several, with bars between, where design points differ in them."""
        found: dict[tuple[str, str], list[str]] = {}
        first: dict[str, list[str]] = {}
        for record in records:
            held = trials_of(record)
            if held is None:
                continue
            header, _, answers = held
            for number, one in enumerate(answers):
                text = f"{header['variable']}: {one['text']}"
                for metric in _metrics(header, one["goal"]):
                    _add(found, (header["role"], metric), text)
                if number == 0:
                    _add(first, header["role"], text)
        return cls(_joined(found), _joined(first))

    def of(self, role: str, metric: str) -> str:
        """The goal that a metric of a role, or of a load of it, hangs on; empty where it hangs on none.

        >>> goals = Goals({("load", "ndr"): "load.rate: no loss"}, {"load": "load.rate: no loss"})
        >>> goals.of("load", "ndr"), goals.of("load.at50.sut.vm3", "latency")
        ('load.rate: no loss', 'of what was found by load.rate: no loss')
        >>> goals.of("load.rate240", "latency"), goals.of("load", "path_owd")
        ('', '')
        """
        if (role, metric) in self.searched:
            return self.searched[role, metric]
        own, _, rest = role.partition(".")
        if own not in self.first:
            return ""
        if metric in BY_FOUND:
            return f"by what was found by {self.first[own]}"
        return f"of what was found by {self.first[own]}" if AT_SHARE.match(rest.partition(".")[0]) else ""


def _metrics(header: Mapping[str, object], goal: str) -> list[str]:
    if header["until"] is not None:
        return [limit_of(str(header["parameter"]))]
    return [goal, f"{goal}_rate"]


def _add(texts: dict[Key, list[str]], key: Key, text: str) -> None:
    if text not in texts.setdefault(key, []):
        texts[key].append(text)


def _joined(texts: Mapping[Key, list[str]]) -> dict[Key, str]:
    return {key: " | ".join(every) for key, every in texts.items()}
