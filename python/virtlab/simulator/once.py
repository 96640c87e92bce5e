"""What is worked out once for all runs of one world: repetitions of a design point differ in their seeds alone.

A worker plays hundreds of runs of some hundred worlds, and what a world is lowered to and refused for takes as long as
playing it for a moment. What is remembered is never changed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from virtlab.plan import Plan

MOST = 1024

Result = TypeVar("Result")


def structure(plan: Plan) -> str:
    """The Plan without what differs between repetitions."""
    return plan.shared()


class Remembered(Generic[Result]):
    """Results by key, the most recently used ones."""

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._outcomes: OrderedDict[Hashable, Result] = OrderedDict()

    def of(self, key: Hashable, make: Callable[[], Result]) -> Result:
        """The value that `make` gave for the key."""
        if key in self._outcomes:
            self._outcomes.move_to_end(key)
            return self._outcomes[key]
        found = self._outcomes[key] = make()
        if len(self._outcomes) > self._most:
            self._outcomes.popitem(last=False)
        return found
