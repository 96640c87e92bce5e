"""`wait`: nothing happens for a time, or until a series meets a condition."""

from virtlab.catalogue.declaration import TimelineAction

WAIT = TimelineAction(
    name="wait",
    meaning="a time passes, or a series meets a condition",
    events=frozenset({"started", "done", "timeout", "cancelled"}),
    keys=("for", "until"),
)
