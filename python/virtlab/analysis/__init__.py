"""Samples to run-level values; claims to verdicts.

Importing this room costs little: claims are text, and what needs numpy is imported at its first use.

>>> parse_claim("load.loss.ratio <= 0.1 %").expression.unit
'ratio'
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from virtlab.analysis.claims import Claim, ClaimError, Mistake, PublishedReference, parse_claim

if TYPE_CHECKING:
    from virtlab.analysis.judging import Comparison, Verdict, exit_code, judge
    from virtlab.analysis.runs import values_of_run
    from virtlab.analysis.table import RunTable, run_values, table_of
    from virtlab.analysis.values import RunValue

_LATER = {
    "Comparison": "judging", "Verdict": "judging", "exit_code": "judging", "judge": "judging",
    "values_of_run": "runs", "RunTable": "table", "run_values": "table", "table_of": "table",
    "RunValue": "values",
}  # fmt: skip

__all__ = [
    "Claim", "ClaimError", "Comparison", "Mistake", "PublishedReference", "RunTable", "RunValue", "Verdict",
    "exit_code", "judge", "parse_claim", "run_values", "table_of", "values_of_run",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module 'virtlab.analysis' has no attribute '{name}'")
    from importlib import import_module

    return getattr(import_module(f"virtlab.analysis.{_LATER[name]}"), name)
