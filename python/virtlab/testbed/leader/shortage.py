"""What this machine has too little of: open files that a world needs, and what its kernel says when something runs out.

The leader holds two descriptors per namespace, two per agent, and what commands and guests with a kernel of their own
talk by; the soft switch one per link. All are counted before anything is built. What runs out nevertheless is reported
by the kernel to an agent on this machine, and by that in words: it is the machine's failure, and no attempt of the
experiment's. Agents that are not ours are not believed that.
"""

from __future__ import annotations

import re
import resource
from collections.abc import Iterator

from virtlab.catalogue import PLATFORMS
from virtlab.catalogue.actions import commands_guest
from virtlab.open_files import OWN
from virtlab.plan import Plan, Refusal

_LEADER, _STARTING, _SWITCH = 12, 16, 10
_PER_NAMESPACE, _PER_AGENT, _PER_COMMAND, _PER_FOREIGN_GUEST = 2, 2, 3, 12
_CURES = {
    "open files": "raise the limit of open files with 'ulimit -n'",
    "memory": "end other programs, or take a machine with more memory",
    "room": "make room, or raise the kernel's limit of what it could not make",
}
_WORDS = (
    (re.compile(r"\b(EMFILE|ENFILE)\b|Too many open files|os error (23|24)\b"), _CURES["open files"]),
    (re.compile(r"\bENOMEM\b|Cannot allocate memory|os error 12\b"), _CURES["memory"]),
    (re.compile(r"\b(ENOSPC|EDQUOT)\b|No space left on device|os error 28\b"), _CURES["room"]),
    (re.compile(r"cannot fork\b"), "end other programs, or raise the limit of processes with 'ulimit -u'"),
)


def cure_of(words: str) -> str | None:
    """The cure where the words of an agent say that the machine ran out of something.

    >>> cure_of("spawn: no pipe: EMFILE: Too many open files")
    "raise the limit of open files with 'ulimit -n'"
    >>> cure_of("there is no link 'v3'")
    """
    return next((cure for found, cure in _WORDS if found.search(words)), None)


def open_files(plan: Plan) -> int:
    """How many open files the hungriest process of a world needs."""
    world = plan.world
    namespaces = len(world.guests) + len(world.hosts) + len(world.switches) + 1
    agents = 1 + len({guest for role in plan.roles.values() for guest in (role.from_, role.to) if guest})
    commands = sum(commands_guest(action.do) for action in plan.timeline)
    commands += sum(2 * len(service.on) for service in world.services.values())
    platforms = [PLATFORMS.get(guest.platform) for guest in world.guests.values()]
    foreign = sum(platform is None or not platform.is_stack for platform in platforms)
    leader = _LEADER + _STARTING + _PER_NAMESPACE * namespaces + _PER_AGENT * agents
    leader += _PER_COMMAND * commands + _PER_FOREIGN_GUEST * foreign
    return max(OWN + _PER_FOREIGN_GUEST * foreign, leader, _SWITCH + len(world.links))


def too_few_open_files(plan: Plan) -> Iterator[Refusal]:
    """The refusal that this process may not open as many files: agents may raise their own limit up to the hard one."""
    needed, (_, hard) = open_files(plan), resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard not in {resource.RLIM_INFINITY, -1} and hard < needed:
        reason = f"this world needs {needed} open files, and {hard} are allowed"
        yield Refusal("machine", reason, f"raise the limit with 'ulimit -n {needed}'")
