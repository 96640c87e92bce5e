"""Every metric and statistic of the page, as the registry defines it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from virtlab.metrics import METRICS, STATISTICS
from virtlab.report.gather.model import Result


def glossary(results: Iterable[Result]) -> list[Mapping[str, str]]:
    """Metrics first, then statistics, each in the registry's order."""
    quantities = [one.quantity for one in results]
    metrics, statistics = {one.metric for one in quantities}, {one.statistic for one in quantities}
    return [
        *(_entry(one.title(), f"{key}, in {one.unit}{_better(one.better)}", one.definition, one.source)
          for key, one in METRICS.items() if key in metrics),
        *(_entry(one.label or key, f"statistic {key}", one.definition)
          for key, one in STATISTICS.items() if key in statistics),
    ]  # fmt: skip


def _entry(term: str, unit: str, definition: str, source: str = "") -> Mapping[str, str]:
    return {"term": term, "unit": unit, "definition": definition, "source": source}


def _better(better: str) -> str:
    return f", {better} is better" if better != "neither" else ""
