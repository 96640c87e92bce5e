"""What kernels have in networks, asked of the leader there. A leader reports the networks that it is asked about."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from virtlab.agents.requests.leader import Observe
from virtlab.testbed.leader.control import Control

LOOK_TIMEOUT_S = 60.0
PARTS = 40  # namespaces per request, so that a reply fits its frame


def observe(control: Control, namespaces: list[str]) -> dict[str, Any]:
    """What the kernel has in each namespace of the world's leader."""
    found: dict[str, Any] = {}
    for at in range(0, len(namespaces), PARTS):
        asked = namespaces[at : at + PARTS]
        reply = control.call(Observe(asked), timeout_s=LOOK_TIMEOUT_S)
        found |= _of_those_asked(control, 0, asked, reply)
    return found


def _of_those_asked(
    control: Control, channel: int, namespaces: list[str], reply: Mapping[str, Any]
) -> dict[str, Any]:
    """The part of a reply that was requested. BreachError if some of it is missing: no leader reports the networks of
    another.
    """
    if lacking := [name for name in namespaces if name not in reply["namespaces"]]:
        raise control.breach(channel, f"it does not report {', '.join(lacking)}", "observe")
    return {name: reply["namespaces"][name] for name in namespaces}


def observe_each(control: Control, leaders: Mapping[str, int]) -> dict[str, Any]:
    """What the kernels have in namespaces, each of a leader of its own (namespace -> channel), who look at once."""
    asked = [(Observe([namespace]), channel) for namespace, channel in leaders.items()]
    found: dict[str, Any] = {}
    replies = control.call_all(asked, timeout_s=LOOK_TIMEOUT_S)
    for (namespace, channel), reply in zip(leaders.items(), replies, strict=True):
        found |= _of_those_asked(control, channel, [namespace], reply)
    return found


def links_of(control: Control, namespace: str, reply: Mapping[str, Any], channel: int) -> dict[str, Any]:
    """The interfaces in a namespace, of a reply to the question for that one."""
    found: dict[str, Any] = _of_those_asked(control, channel, [namespace], reply)[namespace]["links"]
    return found
