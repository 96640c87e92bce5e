"""`migrate`: a guest moves to another host while it runs."""

from virtlab.catalogue.declaration import TimelineAction

MIGRATE = TimelineAction(
    name="migrate",
    meaning="a guest moves to another host while it runs",
    events=frozenset({"started", "done", "finished", "failed", "timeout", "cancelled"}),
    keys=(
        "guest",
        "to",
        "mode",
        "over",
        "bandwidth",
        "downtime_limit",
        "rounds_limit",
        "auto_converge",
        "compression",
        "connections",
        "disk",
        "pool",
        "recover_after",
    ),
    to_guest="moves",
)
