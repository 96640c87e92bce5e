"""`migrate`: a guest moves to another host while it runs. No arm plays it yet."""

from virtlab.catalogue.declaration import TimelineAction

MIGRATE = TimelineAction(
    name="migrate",
    meaning="a guest moves to another host",
    events=frozenset({"started", "done", "finished", "failed", "timeout", "cancelled"}),
    arms={
        "testbed": "this testbed moves no guest from one host to another",
        "simulator": "a simulated guest has no memory to move",
    },
)
