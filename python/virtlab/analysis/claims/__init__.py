"""What an experiment states it expects, as text: parsed, and checked against factors and roles. No arithmetic
here.

>>> claim = parse_claim("probe.rtt.mean: switches 1 < 2 where load >= 30 kB")
>>> mistakes(claim, {"switches": ["1", "2"], "load": ["0 B", "30 kB"]}, {"probe": "rtt"})
[]
>>> print(mistakes(claim, {"switches": ["1", "3"], "load": ["0 B", "30 kB"]}, {"probe": "rtt"})[0])
'2' is not a level of switches; write one of 1, 3
"""

from virtlab.analysis.claims.check import Mistake, mistakes
from virtlab.analysis.claims.levels import find_level, find_operand, matches, ordered
from virtlab.analysis.claims.nouns import Claim, ClaimError, PublishedReference
from virtlab.analysis.claims.parser import parse_claim

__all__ = [
    "Claim", "ClaimError", "Mistake", "PublishedReference", "find_level", "find_operand", "matches",
    "mistakes", "ordered", "parse_claim",
]  # fmt: skip
