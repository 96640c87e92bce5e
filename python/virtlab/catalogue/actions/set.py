"""`set`: a tunable parameter of a role takes another value while its traffic continues, or a link another rate, or the
link is cut and carries frames again.
"""

from virtlab.catalogue.declaration import TimelineAction

SET = TimelineAction(
    name="set",
    meaning="a tunable parameter of a role, or the rate or the state of a link, changes while the run plays",
    events=frozenset({"started", "done"}),
    keys=("role", "link", "parameter", "value"),
    to_role="tunes",
)
