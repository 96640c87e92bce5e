"""What a program of an `exec` does to a simulated guest: nothing, but for the few that change what the world has a
part for.

A simulated guest runs no programs. Of some it is known what they would do there: take time (`sleep`), end well or
badly (`true`, `false`), make the guest forget its neighbours (`ip neigh flush all`, ip-neighbour(8); entries that
were set stay) or what it has learnt of paths (`ip route flush cache`, ip-route(8)). Words of a shell that are such
programs one after the other are known, too. Any other program ends at once: badly where the timeline says what
happens then, as it cannot run; else well, and it has changed nothing, which is said with the results.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from virtlab.plan import Action, Plan

NO_PROGRAMS = "a simulated guest runs no programs"
SHELLS = frozenset({"sh", "bash", "/bin/sh", "/bin/bash"})
_SLEEP = re.compile(r"(\d+(?:\.\d*)?|\.\d+)([smhd]?)")
_PLAIN = re.compile(r"[A-Za-z0-9 ./:_-]*")  # no quotes, variables, pipes or redirections
_JOINED = re.compile(r"(;|&&)")
_SECOND_NS = {"": 10**9, "s": 10**9, "m": 60 * 10**9, "h": 3600 * 10**9, "d": 86_400 * 10**9}
_FAMILIES: Mapping[str, Mapping[str, bool]] = {
    "-4": {"ipv4": True, "ipv6": False},
    "-6": {"ipv4": False, "ipv6": True},
}
_BOTH = {"ipv4": True, "ipv6": True}
_IPV4 = _FAMILIES["-4"]
_NEIGHBOURS = frozenset({"neigh", "neighbor", "neighbour", "n"})
_ROUTES = frozenset({"route", "ro", "r"})
_CACHES = (("flush", "cache"), ("flush", "table", "cache"))

_FOR_EVER_NS = 1 << 62  # longer than any run; what is longer is no number of the core's

Deed = Any  # a word or an object, as the core reads it


def known(argv: Sequence[str]) -> list[Deed] | None:
    """What a program does, in order; None for an unknown program.

    >>> known(["sleep", "1.5"]), known(["sh", "-c", "true; sleep 1m"])
    ([{'sleep': 1500000000}], [{'sleep': 60000000000}])
    >>> known(["ip", "-6", "neigh", "flush", "all"])
    [{'forget_neighbours': {'ipv4': False, 'ipv6': True}}]
    >>> known(["cat", "/proc/meminfo"]) is None
    True
    """
    if len(argv) == 3 and argv[0] in SHELLS and argv[1] == "-c":
        return _script(argv[2])
    if not argv:
        return None
    name, words = argv[0].rpartition("/")[2], list(argv[1:])
    if name in {"true", ":"}:
        return []
    if name == "false":
        return ["fail"]
    if name == "sleep" and words and all(_SLEEP.fullmatch(word) for word in words):
        return [{"sleep": min(sum(_slept_ns(word) for word in words), _FOR_EVER_NS)}]
    return _ip(words) if name == "ip" else None


def deeds(plan: Plan, action: Action) -> list[Deed] | None:
    """What the program of an `exec` does in this Plan; None: it cannot run, and fails at once."""
    found = known(action.argv)
    if found is not None:
        return found
    return None if handled(plan, f"{action.id}.failed") else []


def slept_ns(action: Action) -> int:
    """How long the program of an `exec` sleeps in all."""
    found = known(action.argv) or ()
    return sum(int(deed["sleep"]) for deed in found if "sleep" in deed)


def why_without_effect(plan: Plan, action: Action) -> str | None:
    """Say how the simulator treats a program it does not know; None if it knows it."""
    if known(action.argv) is not None:
        return None
    ended = "it fails" if deeds(plan, action) is None else "it is taken as done, at once"
    return f"{NO_PROGRAMS}; {ended}"


def handled(plan: Plan, event: str) -> bool:
    """Whether an action is triggered by an event."""
    triggers = (action.after for action in plan.timeline if action.after is not None)
    return any(event in (each.event, *each.any, *each.all) for each in triggers)


def _script(text: str) -> list[Deed] | None:
    """Commands one after the other: after `;` whatever the one before did, after `&&` only where it ended well."""
    parts = _JOINED.split(text.strip().removesuffix(";"))
    steps: list[Deed] = []
    failed = False
    for command, joined in zip(parts[::2], [";", *parts[1::2]], strict=True):
        found = known(command.split()) if _PLAIN.fullmatch(command) else None
        if found is None:
            return None
        if joined == ";" or not failed:
            failed = "fail" in found
            steps += [deed for deed in found if deed != "fail"]
    return [*steps, "fail"] if failed else steps


def _slept_ns(word: str) -> int:
    number, unit = _SLEEP.fullmatch(word).groups()  # type: ignore[union-attr]
    return round(min(float(number) * _SECOND_NS[unit], _FOR_EVER_NS))


def _ip(words: list[str]) -> list[Deed] | None:
    family = next((word for word in words if word in _FAMILIES), None)
    if family is not None and words[0] == family:
        words = words[1:]
    if len(words) == 3 and words[0] in _NEIGHBOURS and words[1:] == ["flush", "all"]:
        return [{"forget_neighbours": dict(_FAMILIES[family] if family else _BOTH)}]
    if words and words[0] in _ROUTES and tuple(words[1:]) in _CACHES:
        return [{"forget_paths": dict(_FAMILIES[family] if family else _IPV4)}]
    return None
