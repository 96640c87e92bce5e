"""Worlds of containers, and why none can be run here."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import testbed_world as worlds

from virtlab.testbed.kinds import container_runtime as runtime


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


def of_podman() -> set[str]:
    """What lies where podman and the runtimes beneath it keep what they know, but for those of a private world."""
    places = (
        "/run/crun",
        "/run/runc",
        "/run/libpod",
        "/run/containers",
        "/var/lib/containers",
        "/etc/cni/net.d",
    )
    found = {str(path) for place in places for path in Path(place).glob("*")}
    return found | {str(path) for path in Path("/dev/shm").glob("libpod*")}
