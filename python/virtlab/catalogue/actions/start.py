"""`start`: a role's traffic begins, and the run does not wait for its end."""

from virtlab.catalogue.declaration import TimelineAction

START = TimelineAction(
    name="start",
    meaning="a role's traffic begins; the run does not wait for its end",
    events=frozenset({"started", "finished", "done", "failed"}),
    keys=("role",),
    to_role="begins",
    open_ended=True,
)
