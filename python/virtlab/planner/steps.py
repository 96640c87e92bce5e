"""Actions as the timeline of both arms reads them (`crates/virtlab-timeline`)."""

from __future__ import annotations

from typing import Any

from virtlab.plan import Action


def step(action: Action) -> dict[str, Any]:
    """When an action begins, and when it is given up.

    >>> step(Action(id="b", do="wait", after={"event": "a.done", "plus_ns": 5}))["after"]
    {'events': ['a.done'], 'any': False, 'plus_ns': 5}
    """
    trigger, after = action.after, None
    if trigger is not None:
        after = {"events": list(trigger.events()), "any": bool(trigger.any), "plus_ns": trigger.plus_ns}
    return {
        "id": action.id, "after": after, "timeout_ns": action.timeout_ns, "on_timeout": action.on_timeout,
    }  # fmt: skip
