"""`stop`: a role's traffic ends now; what is under way still arrives."""

from virtlab.catalogue.declaration import TimelineAction

STOP = TimelineAction(
    name="stop",
    meaning="a role's traffic ends",
    events=frozenset({"started", "done"}),
    keys=("role",),
    to_role="ends",
)
