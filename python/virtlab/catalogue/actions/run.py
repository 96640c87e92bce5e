"""`run`: a role's traffic begins, and the action is over when the traffic is."""

from virtlab.catalogue.declaration import TimelineAction

RUN = TimelineAction(
    name="run",
    meaning="a role's traffic, from its beginning to its own end",
    events=frozenset({"started", "finished", "done", "failed", "timeout", "cancelled"}),
    keys=("role",),
    to_role="begins",
)
