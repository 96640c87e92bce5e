"""`call`: an operation of a service is requested. No arm plays it yet."""

from virtlab.catalogue.declaration import TimelineAction

CALL = TimelineAction(
    name="call",
    meaning="an operation of a service is requested",
    events=frozenset({"started", "done", "finished", "failed", "timeout", "cancelled"}),
    arms={"testbed": "this testbed runs no services", "simulator": "services are not modelled"},
)
