"""`set`: a tunable parameter of a role takes another value while its traffic continues."""

from virtlab.catalogue.declaration import TimelineAction

SET = TimelineAction(
    name="set",
    meaning="a tunable parameter of a role changes while it runs",
    events=frozenset({"started", "done"}),
    keys=("role", "parameter", "value"),
    to_role="tunes",
)
