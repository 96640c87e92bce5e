"""What the tests after a run's search measured, as values of the role, of its loads, and of its flows at them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from virtlab.analysis.values import Collector
from virtlab.catalogue.flows import flow_names


def values(
    role: str, parameters: Mapping[str, Any], tests: Sequence[Mapping[str, Any]], bits: float, out: Collector
) -> None:
    """Adds them; `bits`: of one unit of the searched input, in which loads are given."""
    flows = flow_names(parameters)
    for one in tests:
        flow = one["flow"]
        names = [role, one["part"], flows[flow] if flow is not None else ""]
        out.role = ".".join(name for name in names if name)
        number = one["value"]
        if one["metric"] == "tested_load" and number is not None:
            number *= bits
        out.add(one["metric"], one["statistic"], number, one["samples"], one["reason"])
