"""Every metric and statistic of the page, as the registry defines it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from virtlab.metrics import METRICS, STATISTICS
from virtlab.report.gather.model import Result


def glossary(results: Iterable[Result]) -> list[Mapping[str, str]]:
    """Metrics first, then statistics, each in the registry's order, after those that the experiment declares."""
    quantities = [one.quantity for one in results]
    statistics = {one.statistic for one in quantities}
    metrics = {one.metric: one.declaration for one in quantities if one.declared is not None}
    used = {one.metric for one in quantities}
    metrics |= {key: one for key, one in METRICS.items() if key in used}
    return [
        *(_entry(one.title(), f"{key}, in {one.unit}{_better(one.better)}", one.definition, one.source)
          for key, one in metrics.items()),
        *(_entry(one.label or key, f"statistic {key}", one.definition)
          for key, one in STATISTICS.items() if key in statistics),
    ]  # fmt: skip


def _entry(term: str, unit: str, definition: str, source: str = "") -> Mapping[str, str]:
    return {"term": term, "unit": unit, "definition": definition, "source": source}


def _better(better: str) -> str:
    return f", {better} is better" if better != "neither" else ""
