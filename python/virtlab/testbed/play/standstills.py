"""Processes of the world that were stopped during a trial: what stood still for long enough taints the run.

What serves says of itself that it was kept from running, whatever kept it. That taints the run unless the experiment
may want it: a guest whose processor is a program or shared out, a server whose waits for a processor are what is
measured.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from virtlab.agents import Notice
from virtlab.agents.replies import STARVED
from virtlab.plan import Plan
from virtlab.testbed.kinds.reach import OURS
from virtlab.testbed.leader.channels import COMMANDS, PROBES, SWITCH, place_of
from virtlab.testbed.leader.control import Control
from virtlab.testbed.leader.run_clock import raw_ns
from virtlab.testbed.platforms.guests import Guests
from virtlab.testbed.play.reasons import Reason
from virtlab.testbed.play.taints import SOFT_SWITCH, STALL_NS, stood_still
from virtlab.testbed.site import Site


@dataclass(slots=True)
class Standstills:
    """The standstills of one trial; since when a process stands still is kept with the guests, for it may outlast a
    trial.
    """

    control: Control
    guests: Guests
    site: Site
    taints: list[Reason]  # of the trial
    program_of: Callable[[int], str | None]  # the role whose program runs on a channel

    def hear(self, message: Notice) -> None:
        """A process of the world, or what carries it, was stopped by a signal, or runs again."""
        if message.channel not in {OURS.leader, self.control.at}:
            return
        channel = int(message.details["channel"])
        if "for_ns" in message.details:
            self.guests.stopped.pop(channel, None)
            self._judge(channel, int(message.details["for_ns"]))
        else:
            self.guests.stopped[channel] = int(message.details["t_ns"])

    def judge_unfinished(self) -> None:
        """Judges what stands still as the run ends: it is reported when it runs again, which is too late."""
        for channel, since_ns in self.guests.stopped.items():
            now_ns = raw_ns() if self.site.carrier(channel) else self.site.now()
            self._judge(channel, now_ns - since_ns)

    def judge_services(self, plan: Plan, may_starve: Callable[[str], bool]) -> Iterator[tuple[str, Reason]]:
        """Judges what services say of themselves; yields guest and reason where the experiment may be the cause of
        it.
        """
        for each in self.guests.standstills():
            taint = stood_still(each.entity, "it", each.count, each.longest_ns)
            shared = plan.world.guests[each.guest].pool is not None
            if each.count and (each.contends or shared or may_starve(each.guest)):
                yield each.guest, taint
            elif each.count:
                self.taints.append(taint)

    def _judge(self, channel: int, for_ns: int) -> None:
        """Probes see it for themselves; a command of a guest may be stopped, unless it is a role."""
        whose = self.site.carrier(channel) or self._whose_process(channel)
        if whose is None or for_ns < STALL_NS:
            return
        self.taints.append(Reason(whose, f"its process was stopped for {for_ns / 1e6:.0f} ms", STARVED))

    def _whose_process(self, channel: int) -> str | None:
        """Who stands still with what runs on a channel; None: a probe or a command, or nothing of the world."""
        if channel == SWITCH:  # which sees for itself only what kept frames waiting
            return SOFT_SWITCH
        if (role := self.program_of(channel)) is not None:
            return f"roles.{role}"
        place = place_of(channel)
        if place is None or place[0] in {PROBES, COMMANDS}:
            return None
        guest = self.guests.guest_of(channel)
        return f"guests.{guest}" if guest is not None else place[0].whose
