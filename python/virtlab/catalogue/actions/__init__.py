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


def ends_role(action: str) -> bool:
    """Whether an action ends the traffic of its role."""
    return action in ACTIONS and ACTIONS[action].to_role == "ends"


def tunes_role(action: str) -> bool:
    """Whether an action changes a parameter of its role, or of its link, while the run plays."""
    return action in ACTIONS and ACTIONS[action].to_role == "tunes"


def commands_guest(action: str) -> bool:
    """Whether an action runs a command in its guest."""
    return action in ACTIONS and ACTIONS[action].to_guest == "commands"


def moves_guest(action: str) -> bool:
    """Whether an action takes its guest to another host."""
    return action in ACTIONS and ACTIONS[action].to_guest == "moves"


def restarts_guest(action: str) -> bool:
    """Whether an action restarts its guest."""
    return action in ACTIONS and ACTIONS[action].to_guest == "restarts"


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
    "commands_guest",
    "ends_role",
    "moves_guest",
    "playable",
    "restarts_guest",
    "tunes_role",
]
