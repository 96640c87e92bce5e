"""`run`: a role begins as `start` has it; the timeline waits for its end."""

from virtlab.testbed.play.actions.action import ActionKind
from virtlab.testbed.play.actions.start import begin

IMPLEMENTATION = ActionKind(begin)
