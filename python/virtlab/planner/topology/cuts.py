"""Links that a timeline cuts while a run plays: both players of links lay these out so that they can be."""

from __future__ import annotations

from virtlab.plan import Plan

STATE, UP, DOWN = "state", "up", "down"


def cut_links(plan: Plan) -> list[str]:
    """Their names, each once, in the order of the timeline."""
    cut = (action.link for action in plan.timeline if action.args.get(STATE) == DOWN)
    return list(dict.fromkeys(link for link in cut if link is not None))
