"""A verdict in one sentence: the claim in words, the answer, what was seen with its interval, what was required, and
what is published.
"""

from __future__ import annotations

from collections.abc import Sequence

from virtlab.analysis.claims import Claim
from virtlab.analysis.claims.words import in_words
from virtlab.analysis.judging.verdict import Comparison, Ruling
from virtlab.analysis.published import PublishedValue, together
from virtlab.units import WANTED_DIGITS, show_interval, show_number, show_quantity

ANSWERS = {"holds": "yes", "refuted": "no", "undecided": "undecided"}
FEW = 3  # published values that a sentence holds one by one


def sentence(
    claim: Claim,
    ruling: Ruling,
    comparisons: Sequence[Comparison],
    deciding: Comparison | None,
    *,
    published: Sequence[PublishedValue],
    trouble: Sequence[str],
) -> str:
    """The one sentence of a verdict: the claim in words, the answer, and what was seen."""
    title = in_words(claim)
    if deciding is None:
        return f"{title}: undecided, {'; '.join(trouble)}.{_published_note(published)}"
    required_to_hold = [comparison for comparison in comparisons if comparison.decides]
    head = ""
    if ruling == "holds" and len(required_to_hold) > 1:
        both = "both" if len(required_to_hold) == 2 else f"all {len(required_to_hold)}"
        head = f" in {both} comparisons, the least clear"
    elif ruling == "refuted" and len(comparisons) > 1:
        alike = sum(comparison.ruling == ruling for comparison in comparisons)
        head = f" in {alike} of {len(comparisons)} comparisons, the clearest"
    elif ruling == "undecided" and len(required_to_hold) > 1:
        alike = sum(comparison.ruling == ruling for comparison in required_to_hold)
        head = f" in {alike} of {len(required_to_hold)} comparisons"
    place = f" ({deciding.label})" if deciding.label else ""
    how = f",{head}{place}:" if head else f"{place}:" if place else ","
    body = f"{title}: {ANSWERS[ruling]}{how} {seen(claim, deciding)}"
    if ruling == "undecided":
        if _lies_inside(deciding):
            body += f", which is not enough {_what_else_counts(len(required_to_hold))}"
        elif _lies_outside(deciding):
            body += f", which does not refute it {_what_else_counts(len(comparisons))}"
        body += f"; {more_runs(deciding.more_runs, deciding)}"
    return f"{body}.{_published_note(published)}"


def _lies_inside(comparison: Comparison) -> bool:
    """Whether the uncorrected interval meets what was required."""
    (low, high), estimate = comparison.required, comparison.estimate
    if estimate.low is None or estimate.high is None:
        return False
    return (low is None or estimate.low >= low) and (high is None or estimate.high <= high)


def _lies_outside(comparison: Comparison) -> bool:
    """Whether the uncorrected interval misses what was required altogether."""
    (low, high), estimate = comparison.required, comparison.estimate
    if estimate.low is None or estimate.high is None:
        return False
    return (low is not None and estimate.high < low) or (high is not None and estimate.low > high)


def _what_else_counts(comparisons: int) -> str:
    """What counts beside the interval that is shown: other comparisons, or what a share was taken of."""
    if comparisons > 1:
        return f"after correction for {comparisons} comparisons"
    return "once the spread of what the share is taken of counts too"


def seen(claim: Claim, comparison: Comparison) -> str:
    """What a comparison saw and what was required of it."""
    estimate = comparison.estimate
    interval = (
        f"{show_interval(estimate.low, estimate.high, estimate.unit)}, {estimate.level * 100:.4g} %"
        if estimate.low is not None or estimate.high is not None
        else f"interval not estimable: {estimate.why}"
    )
    effect = (
        f", {comparison.effect_name} {show_number(comparison.effect, 3)}"
        if comparison.effect is not None
        else ""
    )
    runs = " + ".join(str(count) for count in comparison.runs)
    what = (
        f"{claim.expression} {show_quantity(estimate.point, estimate.unit)} ({interval}; {runs} runs{effect})"
    )
    return f"{what}, required {required(comparison)}"


def required(comparison: Comparison) -> str:
    """The range that a comparison's estimate has to lie in."""
    low, high = comparison.required
    unit = comparison.estimate.unit
    if low is None and high is not None:
        return "at most zero" if high == 0 else f"at most {show_quantity(high, unit)}"
    if high is None and low is not None:
        return "at least zero" if low == 0 else f"at least {show_quantity(low, unit)}"
    return show_interval(low, high, unit, WANTED_DIGITS)


def more_runs(count: int | None, comparison: Comparison) -> str:
    """In words, how many more runs would decide the comparison."""
    if min(comparison.runs, default=0) < 2:
        return "every design point needs at least 2 runs"
    if count is None:
        return "no sensible number of runs would decide: what was seen lies too close to the limit"
    return f"about {count} more {'run' if count == 1 else 'runs'} per design point would decide"


def _published_note(published: Sequence[PublishedValue]) -> str:
    return f" Published: {together(published, most=FEW)}." if published else ""
