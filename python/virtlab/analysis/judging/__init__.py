"""Claims and run-level values to verdicts: holds, refuted, or undecided with how many more runs would
decide."""

from virtlab.analysis.judging.ruling import judge, judge_one
from virtlab.analysis.judging.verdict import Comparison, Ruling, Verdict, exit_code

__all__ = ["Comparison", "Ruling", "Verdict", "exit_code", "judge", "judge_one"]
