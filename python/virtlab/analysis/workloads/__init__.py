"""One file per workload, called as the workload: its samples in a run to the values of its metrics."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec

from virtlab.analysis.context import RoleContext
from virtlab.catalogue import WORKLOADS


def values_of(workload: str) -> Callable[[RoleContext], None] | None:
    """What works out a workload's values; None of one that has no file here, as one of a newer version."""
    path = f"{__name__}.{workload}"
    if workload not in WORKLOADS or find_spec(path) is None:
        return None
    found: Callable[[RoleContext], None] = import_module(path).values
    return found


__all__ = ["values_of"]
