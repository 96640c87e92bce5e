"""Each relation of a claim to its tests. What a relation means is said in docs/reference/claims.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from virtlab.analysis.claims.nouns import (
    Constant,
    Difference,
    Equivalent,
    Linear,
    Near,
    Onset,
    Ordering,
    PublishedOrder,
    Threshold,
    Trend,
)
from virtlab.analysis.judging import along, pairs, points
from virtlab.analysis.judging.case import Case
from virtlab.analysis.judging.hypotheses import Test

_TESTS: dict[type, Callable[[Case, Any], list[Test]]] = {
    Threshold: points.threshold,
    Near: points.near,
    Onset: points.onset,
    Ordering: pairs.ordering,
    Equivalent: pairs.equivalent,
    Difference: pairs.difference,
    PublishedOrder: pairs.published_order,
    Trend: along.trend,
    Linear: along.linear,
    Constant: along.constant,
}


def tests_of(case: Case) -> list[Test]:
    """All tests of a claim. ValueError (WHAT; CURE) when the data lack a level that the claim names."""
    return _TESTS[type(case.claim.relation)](case, case.claim.relation)
