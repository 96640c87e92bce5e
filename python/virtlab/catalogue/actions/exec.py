"""`exec`: a command runs in a guest."""

from virtlab.catalogue.declaration import TimelineAction

EXEC = TimelineAction(
    name="exec",
    meaning="a command runs in a guest",
    events=frozenset({"started", "done", "finished", "failed", "timeout", "cancelled"}),
    keys=("guest", "argv"),
    to_guest="commands",
)
