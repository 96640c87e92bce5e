"""The verdicts as the page shows them: word, sentence, the interval as a picture, and the numbers behind it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from virtlab.report.figures import verdicts
from virtlab.report.gather.gathered import Gathered
from virtlab.report.gather.model import Verdict
from virtlab.report.words import plural, verdict_kind
from virtlab.units import display, interval

_ORDER = ("good", "bad", "open")


def verdict_blocks(data: Gathered) -> list[dict[str, Any]]:
    """Every verdict, ready for the template."""
    from markupsafe import Markup

    published = any(one.published for one in data.verdicts)
    return [
        {
            "id": f"verdict-{number}", "kind": verdict_kind(one.verdict), "word": one.verdict,
            "sentence": one.sentence, "claim": one.claim, "because": one.because,
            "picture": Markup(verdicts.picture(one)),  # noqa: S704 - built with every word escaped
            "facts": verdict_facts(one, published),
        }
        for number, one in enumerate(data.verdicts, 1)
    ]  # fmt: skip


def verdict_facts(verdict: Verdict, with_published: bool) -> list[tuple[str, str]]:
    """Interval, effect size, number of runs, published value, and how many more runs would decide."""
    found: list[tuple[str, str]] = []
    if verdict.estimate is not None:
        estimate = verdict.estimate
        shown = display(estimate.unit, [estimate.point])
        words = interval(estimate.low, estimate.point, estimate.high, shown)
        found.append((f"estimate with {estimate.level * 100:g} % interval", words))
    more = f"about {plural(verdict.more_runs, 'more run')} per setting" if verdict.more_runs else ""
    found += [("effect size", verdict.effect), ("runs", verdict.n)]
    found += [("published", verdict.published or "no number")] if with_published else []
    return [(name, words) for name, words in (*found, ("would decide", more)) if words]


def tally(data: Gathered) -> list[dict[str, str]]:
    """The number of verdicts of each kind."""
    words = Counter(one.verdict for one in data.verdicts)
    ordered = sorted(words.items(), key=lambda pair: (_ORDER.index(verdict_kind(pair[0])), pair[0]))
    return [{"kind": verdict_kind(word), "text": f"{count} {word}"} for word, count in ordered]
