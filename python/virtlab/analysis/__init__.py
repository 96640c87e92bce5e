"""Samples to run-level values; claims to verdicts.

>>> parse_claim("load.loss.ratio <= 0.1 %").expression.unit
'ratio'
"""

from virtlab.analysis.claims import Claim, ClaimError, Mistake, PublishedReference, parse_claim

__all__ = ["Claim", "ClaimError", "Mistake", "PublishedReference", "parse_claim"]
