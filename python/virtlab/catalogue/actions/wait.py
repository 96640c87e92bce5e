"""`wait`: nothing happens for a time, or until a service or a metric of a role is as is waited for."""

from virtlab.catalogue.declaration import TimelineAction

WAIT = TimelineAction(
    name="wait",
    meaning="a time passes, or a service or a metric is as is waited for",
    events=frozenset({"started", "done", "timeout", "cancelled"}),
    keys=("for", "until"),
)
