"""`program`: the file's own command; what it starts ends with it, and all of it with the world."""

from __future__ import annotations

from virtlab.plan import Service
from virtlab.testbed.services.service import Invocation, ServiceImplementation


def _invocation(service: Service) -> Invocation:
    values = service.parameters
    return Invocation(tuple(values["argv"]), dict(values.get("environment", {})))


IMPLEMENTATION = ServiceImplementation(
    _invocation, "see its output among the run's artefacts; a program has to stay in the foreground"
)
