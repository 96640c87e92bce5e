"""Searches for the highest load that a goal allows: pure, ask and tell.

>>> search = Bisection(1.0, 100.0, trial_s=1.0, width=0.02)
>>> while (wanted := search.ask()) is not None:
...     search.tell(TrialResult(wanted.load, wanted.trial_s, 0.0 if wanted.load <= 40.0 else 0.1))
>>> round(search.bounds()[0].lower)
40
"""

from virtlab.campaign.search.bisection import Bisection
from virtlab.campaign.search.mlr import MlrSearch
from virtlab.campaign.search.protocol import Goal, GoalBounds, Search, TrialRequest, TrialResult

__all__ = ["Bisection", "Goal", "GoalBounds", "MlrSearch", "Search", "TrialRequest", "TrialResult"]
