"""`demand_server`: the agent itself serves, as a process of its own in each guest, at the port that its check asks.

How much work a processor does in a second is measured outside guests and told to it, so that a demand is as much work
in every guest, whatever time its processors get. A server is passive if it is told the address of the active one.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from virtlab.catalogue import PLATFORMS
from virtlab.catalogue.services.demand_server import ACTIVE, forwarding, of_server
from virtlab.plan import Guest, Refusal, Service
from virtlab.testbed.services.service import OURSELVES, Invocation, ServiceImplementation


def _invocation(name: str, service: Service, _: Guest) -> Invocation:
    assert service.ready is not None, name
    words = json.dumps(of_server(service.parameters), separators=(",", ":"))
    port = str(service.ready.port)
    before: tuple[str, ...] = (OURSELVES, "serve", "--parameters", words, "--port", port)
    active = service.parameters.get(ACTIVE)
    if active is not None:
        before += ("--forwarding", json.dumps(forwarding(service.parameters), separators=(",", ":")))
    return Invocation((), before=before, ours=True, active=active)


def _refusals(path: str, service: Service, guest: Guest) -> Iterator[Refusal]:
    platform = PLATFORMS[guest.platform]
    if platform.existing and service.parameters.get("write_bytes"):
        reason = f"it would fill a file on a host that exists already, as {platform.name} hosts do"
        yield Refusal(f"{path}.write", reason, "remove 'write', or use a guest that virtlab makes")


IMPLEMENTATION = ServiceImplementation(
    _invocation,
    _refusals,
    "see its output among the run's artefacts; another program of its guest may have its port",
    tells_standstills=True,
    contends=True,
)
