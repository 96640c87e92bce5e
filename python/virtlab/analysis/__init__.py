"""Samples to run-level values; claims to verdicts.

Importing this room costs little: claims are text, and what needs numpy is imported at its first use.

>>> parse_claim("load.loss.ratio <= 0.1 %").expression.unit
'ratio'
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from virtlab.analysis.claims import Claim, ClaimError, Mistake, PublishedReference, parse_claim
from virtlab.lazy import later

if TYPE_CHECKING:
    from virtlab.analysis.judging import Comparison, Verdict, exit_code, judge
    from virtlab.analysis.runs import values_of_run
    from virtlab.analysis.table import RunTable, run_values, table_of
    from virtlab.analysis.values import RunValue

__all__ = [
    "Claim", "ClaimError", "Comparison", "Mistake", "PublishedReference", "RunTable", "RunValue", "Verdict",
    "exit_code", "judge", "parse_claim", "run_values", "table_of", "values_of_run",
]  # fmt: skip

__getattr__ = later(
    __name__,
    {
        "judging": "Comparison Verdict exit_code judge",
        "runs": "values_of_run",
        "table": "RunTable run_values table_of",
        "values": "RunValue",
    },
)
