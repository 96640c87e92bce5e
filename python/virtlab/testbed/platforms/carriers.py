"""Whether the ports of a guest with a kernel of its own are ready to carry packets.

A kernel sends IPv4 through an interface as soon as its driver has a carrier. That the interface is operational (RFC
2863, what IPv6 waits for) a Linux kernel reports at most once a second, so up to that much later.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from ipaddress import ip_interface
from typing import Any

from virtlab.plan import Plan
from virtlab.testbed.kinds.lowered import Lowered


def down(plan: Plan, lowered: Lowered, guest: str, links: Mapping[str, Any]) -> list[str]:
    """The interfaces of a guest that cannot carry what they will be asked to, by what its kernel reports of `links`."""
    vnics = plan.world.guests[guest].vnics
    return sorted(
        place.link
        for (owner, name), place in lowered.vnics.items()
        if owner == guest and not _ready(links.get(place.link), vnics[name].ip)
    )


def _ready(link: Mapping[str, Any] | None, addresses: Sequence[str]) -> bool:
    if link is None:
        return False
    waits = any(ip_interface(each).version == 6 for each in addresses)
    return bool(link["running"] or (link["carrier"] and not waits))
