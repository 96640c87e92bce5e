"""Worlds of containers, and why none can be run here."""

from __future__ import annotations

from typing import Any

import testbed_world as worlds

from virtlab.testbed.platforms.container import runtime


def missing() -> str | None:
    """Why no container can be run here, or None."""
    return worlds.missing() or runtime.missing()


def containers(world: dict[str, Any], *names: str, **properties: Any) -> dict[str, Any]:
    """The world with some guests (all, when none is named) as containers."""
    for name in names or tuple(world["guests"]):
        world["guests"][name] |= {"platform": "container", **properties}
    return world


def beside_a_namespace(**properties: Any) -> dict[str, Any]:
    """Two guests on one bridge: g1 a container, g2 a namespace."""
    return containers(worlds.one_host(2), "g1", **properties)
