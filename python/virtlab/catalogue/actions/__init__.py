"""Actions of a timeline. One file each; the names here are what `do:` may say."""

from virtlab.catalogue.actions.call import CALL
from virtlab.catalogue.actions.exec import EXEC
from virtlab.catalogue.actions.migrate import MIGRATE
from virtlab.catalogue.actions.reset import RESET
from virtlab.catalogue.actions.run import RUN
from virtlab.catalogue.actions.set import SET
from virtlab.catalogue.actions.start import START
from virtlab.catalogue.actions.stop import STOP
from virtlab.catalogue.actions.wait import WAIT
from virtlab.catalogue.declaration import TimelineAction

ACTIONS: dict[str, TimelineAction] = {
    entry.name: entry for entry in (START, STOP, RUN, SET, WAIT, EXEC, RESET, MIGRATE, CALL)
}
EVENTS = ("started", "done", "finished", "failed", "timeout", "cancelled")  # as messages list them


def playable() -> tuple[str, ...]:
    """Names of the actions that any arm plays, which a file may ask for."""
    return tuple(name for name, entry in ACTIONS.items() if entry.played)


def begins(action: str) -> bool:
    """Whether an action begins the traffic of its role."""
    return action in ACTIONS and ACTIONS[action].to_role == "begins"


__all__ = [
    "ACTIONS",
    "CALL",
    "EVENTS",
    "EXEC",
    "MIGRATE",
    "RESET",
    "RUN",
    "SET",
    "START",
    "STOP",
    "WAIT",
    "begins",
    "playable",
]
