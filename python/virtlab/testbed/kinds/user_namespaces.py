"""Users of root's containers that have a user namespace of their own (`user_namespace: own`).

root inside then has no right outside: what escapes from such a container has no right on the machine. The guest's
network is made with that namespace, because powers over a network are those in the user namespace that the network
belongs to. Each container has a range of users of its own, so it has no right over another's files either; the ranges
lie where systemd gives them to containers, beyond the users of machines.

Source: Linux, user_namespaces(7), "Interaction of user namespaces and other types of namespaces"; systemd,
UIDS-GIDS.md.
"""

from __future__ import annotations

from pathlib import Path

from virtlab.plan import Plan
from virtlab.testbed.steps.operations import Users

OWN = "own"
FIRST = 1 << 30
COUNT = 1 << 16


def users_of(plan: Plan) -> dict[str, Users]:
    """Whom the users of each guest with a user namespace of its own are outside."""
    names = [name for name, guest in plan.world.guests.items() if guest.user_namespace == OWN]
    return {name: Users(FIRST + COUNT * number, COUNT) for number, name in enumerate(names)}


def not_all_are_ours(users: Users) -> bool:
    """Whether this process is in a user namespace itself and has no such users to give.

    >>> not_all_are_ours(Users(2**32 - 10, 100))
    True
    """
    lines = Path("/proc/self/uid_map").read_text(encoding="ascii").split("\n")
    ranges = [tuple(map(int, line.split())) for line in lines if line.strip()]
    return not any(
        inside <= users.first and users.first + users.count <= inside + count for inside, _, count in ranges
    )
