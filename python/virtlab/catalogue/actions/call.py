"""`call`: an operation of a service is requested, by its name."""

from virtlab.catalogue.declaration import TimelineAction

CALL = TimelineAction(
    name="call",
    meaning="an operation of a service is requested",
    events=frozenset({"started", "done", "failed", "timeout", "cancelled"}),
    keys=("service", "op", "args"),
)
