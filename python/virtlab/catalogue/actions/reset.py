"""`reset`: a guest restarts, as far as its platform can (RFC 6201)."""

from virtlab.catalogue.declaration import TimelineAction

RESET = TimelineAction(
    name="reset",
    meaning="a guest restarts, after a time away if one is given",
    events=frozenset({"started", "done"}),
    keys=("guest", "for"),
    to_guest="restarts",
)
