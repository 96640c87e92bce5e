"""The counters of one trial, read at its marks: as it begins, at the edges of windows, as it ends.

What agents and this process read by themselves is read at every mark. What takes a process to read - Open vSwitch's
flow caches, files of a kernel inside a laboratory machine - would cost the role that is measured then, and only in
worlds that have such a thing; so it is read where no role runs: as the trial begins and ends, and at edges where
nothing runs and nothing begins before the reading is over. Where that is not so its rows are missing, which says
nothing of their values.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from virtlab.agents.requests.leader import ReadCounters
from virtlab.agents.requests.switch import Stats
from virtlab.catalogue import PLATFORMS
from virtlab.catalogue.collected import COUNTERS, GUEST_COUNTERS, LINK_COUNTERS, SOFTNET_COUNTERS
from virtlab.plan import Mark, Plan
from virtlab.plan.blocks import END
from virtlab.planner.queues.pushback import shared_queues
from virtlab.planner.topology.cuts import cut_links
from virtlab.testbed.build.networks import observe
from virtlab.testbed.kinds.lowered import Lowered, Place
from virtlab.testbed.kinds.platform import CounterRow
from virtlab.testbed.leader.channels import SWITCH
from virtlab.testbed.leader.control import Control
from virtlab.testbed.platforms.guests import Guests
from virtlab.testbed.play.records import Entities, kernel_rows, sender_rows, shared_rows, switch_rows
from virtlab.testbed.play.series import elsewhere
from virtlab.testbed.queues.kernel import PortQueue
from virtlab.testbed.site import Site

MARGIN = 2  # how many times its longest so far a reading must have before anything begins


@dataclass(slots=True)
class Counting:
    """The counters that were read so far."""

    control: Control
    plan: Plan
    lowered: Lowered
    guests: Guests
    site: Site
    rows: list[CounterRow] = field(default_factory=list)
    switch_at_end: Mapping[str, Any] = field(default_factory=dict)
    reset: set[str] = field(default_factory=set)  # guests: what a kernel of their own had counted is gone
    _marked: set[str] = field(default_factory=set)
    _longest_ns: int = 0  # of reading the expensive counters

    def ends(self, mark: str) -> None:
        """Reads all of it, at one end of the trial: no role runs."""
        self._mark(mark)
        self._mark_costly(mark)

    def edges(self, marks: Mapping[str, Mark], free_ns: int) -> None:
        """Reads the counters at the edges of windows that were reached since the last look.

        `free_ns`: for how long nothing runs from now on, 0 where something does. Edges found in one look get equal
        counters; expensive ones are read only at the last edge.
        """
        edges = {edge for window in self.plan.windows.values() for edge in (window.from_, window.to)}
        come = sorted(edges & marks.keys() - self._marked, key=lambda edge: (marks[edge].t_ns, edge))
        for edge in come:
            self._marked.add(edge)
            self._mark(edge)
        if come and free_ns > MARGIN * self._longest_ns:
            self._mark_costly(come[-1])

    @property
    def queues(self) -> dict[tuple[str, str], PortQueue]:
        """The kernel's queues that are what they were when the trial began."""
        anew = self._anew
        return {
            key: queue
            for key, queue in self.lowered.queues.items()
            if Place(queue.namespace, queue.link) not in anew
        }

    @property
    def _anew(self) -> set[Place]:
        return made_anew(self.plan, self.lowered, self.reset)

    def _mark(self, mark: str) -> None:
        """Reads the counters that need no process."""
        wanted = self.plan.collect.counters
        groups = [group for group in wanted if COUNTERS[group].by_agents]
        entities = Entities(self.lowered)
        if groups:
            # Where every guest exists already, this machine is no one's.
            reply = self.control.call(ReadCounters([] if elsewhere(self.plan) else groups))
            t_ns = int(reply["t_ns"])
            anew = {f"{place.namespace}/{place.link}" for place in self._anew}
            self.rows += [
                (t_ns, mark, _entity(entities, counter, entity), counter, int(value))
                for entity, counter, value in reply["rows"]
                if entity not in anew
            ]
            self._mark_inside(mark, groups, entities)
        if GUEST_COUNTERS.name in groups and not self.site.asks:
            self.rows += self.guests.accounts(mark)
        queues = self.queues
        shared = {each.path: self.lowered.uplinks[each.port] for each in shared_queues(self.plan)}
        senders = self._senders() if mark == END else {}
        if (queues or shared or senders) and LINK_COUNTERS.name in wanted:
            places = {queue.namespace for queue in queues.values()}
            places |= {place.namespace for place in (*shared.values(), *senders.values())}
            seen = observe(self.control, sorted(places))
            self.rows += kernel_rows(queues, seen, self.site.now(), mark)
            self.rows += shared_rows(shared, seen, self.site.now(), mark)
            self.rows += sender_rows(senders, seen, self.site.now(), mark)
        if self.lowered.soft_switch is not None and (LINK_COUNTERS.name in wanted or mark == END):
            stats: Mapping[str, Any] = self.control.call(Stats(), channel=SWITCH)
            if LINK_COUNTERS.name in wanted:
                self.rows += switch_rows(stats, int(stats["t_ns"]), mark, cut_links(self.plan))
            if mark == END:
                self.switch_at_end = stats

    def _senders(self) -> dict[str, Place]:
        """vNICs whose own queue holds their sender back, in this kernel."""
        return {
            f"guests.{name}.vnics.{vnic}": self.lowered.vnics[name, vnic]
            for name, guest in self.plan.world.guests.items()
            for vnic, entry in guest.vnics.items()
            if entry.pushback_bit_per_s is not None
            and PLATFORMS[guest.platform].shares_kernel
            and self.lowered.vnics[name, vnic] not in self._anew
        }

    def _mark_inside(self, mark: str, groups: list[str], entities: Entities) -> None:
        """Counters of guests that have a kernel of their own, as that has them. None serves a disk."""
        groups = [group for group in groups if COUNTERS[group].inside]
        guests = self.plan.world.guests.items()
        counting = {
            name for name, guest in guests if not PLATFORMS[guest.platform].shares_kernel
        } - self.reset
        leaders = {name: reach for name, reach in self.guests.alive().items() if name in counting}
        asked = [(ReadCounters(groups), reach.leader) for reach in leaders.values()]
        for (guest, reach), reply in zip(leaders.items(), self.control.call_all(asked), strict=True):
            t_ns = reach.clock.to_ours(int(reply["t_ns"]))
            for entity, counter, value in reply["rows"]:
                name = entities.name(entity) if "/" in entity else f"guests.{guest}.{_host(counter, entity)}"
                self.rows.append((t_ns, mark, name.replace(".host.", "."), counter, int(value)))

    def _mark_costly(self, mark: str) -> None:
        """Reads the counters for which a process must be started."""
        wanted = self.plan.collect.counters
        begin_ns = time.monotonic_ns()
        if GUEST_COUNTERS.name in wanted and self.site.asks:
            self.rows += self.guests.accounts(mark)
        if GUEST_COUNTERS.name in wanted:
            self.rows += _at(self.site.now(), mark, self.guests.accounts_inside())
        if self.guests.switches and LINK_COUNTERS.name in wanted:
            # How Open vSwitch found the flows of its packets.
            t_ns = self.site.now()
            self.rows += _at(t_ns, mark, self.guests.caches())
        self._longest_ns = max(self._longest_ns, time.monotonic_ns() - begin_ns)


def _at(t_ns: int, mark: str, counted: Iterable[tuple[str, str, int]]) -> list[CounterRow]:
    return [(t_ns, mark, entity, counter, value) for entity, counter, value in counted]


def _entity(entities: Entities, counter: str, entity: str) -> str:
    return entities.name(entity) if "/" in entity or ":" in entity else _host(counter, entity)


def _host(counter: str, entity: str) -> str:
    whose = SOFTNET_COUNTERS.name if counter in SOFTNET_COUNTERS.counters else "host"
    return f"{whose}.{entity}"


def made_anew(plan: Plan, lowered: Lowered, reset: Collection[str]) -> set[Place]:
    """The host's ends of ports that are others since their guests were reset: what they count is not of the whole
    run.
    """
    return {
        place
        for guest in reset
        if (own := PLATFORMS[plan.world.guests[guest].platform].reset) is not None and own.anew
        for place in lowered.machines[guest].taps.values()
    }
