"""Which guest knows the objects of a folder of a store, and how a role of another guest gets to know them.

That is so for all trials of a session: a store keeps its objects from one to the next, and so do the agents.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from virtlab.agents.requests.probe import TakeObjects, TellObjects
from virtlab.plan import Plan
from virtlab.testbed.leader.control import Control
from virtlab.testbed.services.folders import Place, place_of


@dataclass(slots=True)
class Holders:
    """By folder, the role that was last at work there. Its guest knows what is there."""

    control: Control
    plan: Plan
    roles: dict[Place, str] = field(default_factory=dict)

    def take_over(self, role: str, channels: Mapping[str, int]) -> None:
        """A role is about to begin: it gets what the guest knows that worked in its folder last, if that is another.
        AgentError where one of both agents refuses.
        """
        place = place_of(self.plan, role)
        if place is None:
            return
        before, self.roles[place] = self.roles.get(place, role), role
        guest, own = self.plan.roles[before].from_, self.plan.roles[role].from_
        if guest == own:
            return
        end, whole = 0, False
        while not whole:
            told = self.control.call(TellObjects(before, end), channel=channels[str(guest)])
            taken = TakeObjects(role, told["page"], told["place"])
            whole, end = self.control.call(taken, channel=channels[str(own)])["whole"], told["end"]

    def forget(self, guest: str) -> None:
        """A guest's agent is gone, with all that it knew."""
        lost = [place for place, role in self.roles.items() if self.plan.roles[role].from_ == guest]
        for place in lost:
            del self.roles[place]
