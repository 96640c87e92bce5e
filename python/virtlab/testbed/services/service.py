"""What a kind of service is to this testbed: the command that serves in each of its guests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from virtlab.catalogue import SERVICES
from virtlab.plan import Guest, Plan, Refusal, Role, Service
from virtlab.testbed.kinds.registry import Registry
from virtlab.testbed.services.files import OURSELVES, Files

__all__ = ["OURSELVES", "Beside", "Copies", "Invocation", "Missed", "ServiceImplementation", "services"]


@dataclass(frozen=True, slots=True)
class Invocation:
    """A command that serves until it is killed."""

    argv: tuple[str, ...]  # the file's own words, which may refer to addresses
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: str | None = None  # where it begins; None: its guest's usual one
    before: tuple[str, ...] = ()  # what executes those words
    files: Files | None = None  # that are written first, into the folder where it then begins
    user: str | None = None  # of its guest; None: the one that its leader is
    ours: bool = False  # the agent serves: it is told its seed, its place, and how much work a processor does in a second
    active: str | None = None  # guest of the active server, whose address the others are told
    trusted: bool = False  # a recipe of ours, which needs what is kept from commands of a file: mounts, all rights of root
    peers: tuple[str, ...] = ()  # guests of whose addresses each is told, and its own place among them
    # What one that was ended and comes back is told; nothing where it does not tell what it lacks.
    back: tuple[str, ...] = ()
    emptied: tuple[str, ...] = ()  # the same, where it comes back at once, with nothing that it had


@dataclass(frozen=True, slots=True)
class Copies:
    """How copies in a store that tells clients nothing of them are counted: each node lists its own, in the end."""

    listing: Callable[[str, Service], Invocation]  # of its name: a command in each node, whose output is JSON
    roles: Callable[[Plan, str], Mapping[str, str]]  # whose objects are in it, with the folder of each
    # Of the objects of a folder, from the lists of all nodes in their order.
    counted: Callable[[Service, str, Sequence[Any]], Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Missed:
    """How it is counted what a node missed while it was away: by a command that begins before the node is back."""

    # Of a service's name: a command in each other node, whose output is JSON; None: none is asked.
    listing: Callable[[str, Service], Invocation] | None
    guest: Callable[[Service, str], str]  # of the guest of that node: in which guest the command runs
    # Of a service's name, with when the node was lost by the machine's monotonic clock, and what others have listed.
    counting: Callable[[str, Service, float, Sequence[Any]], Invocation]


@dataclass(frozen=True, slots=True)
class Beside:
    """An operation that one command does, beside a server that runs on."""

    guests: Callable[[Service], Sequence[str]]  # in the first of these whose server runs
    command: Callable[[str, Service], Invocation]  # of the service's name; its output is JSON
    does: str  # of the command: what it does, for one that failed


@dataclass(frozen=True, slots=True)
class ServiceImplementation:
    """How this testbed plays a kind: the same agent request starts it in a guest of any platform."""

    invocation: Callable[[str, Service, Guest], Invocation]  # of its name, in one of its guests
    refusals: Callable[[str, Service, Guest], Iterator[Refusal]]  # its path, and one of its guests
    cure: str  # where one ends by itself
    of_world: Callable[[Plan, str, Service], Iterator[Refusal]] = lambda *_: iter(())  # its name
    recovered: str | None = None  # line of what counts what comes back, once all is there
    # Of its name: a command in one of its guests that takes away what the server there has, which runs on, tells
    # numbers of what comes back, and says `recovered`.
    wipe: Callable[[str, Service], Invocation] | None = None
    missed: Missed | None = None  # None: nodes of the kind tell it, or the kind has no nodes
    ready_line: str | None = None  # that it says once it is ready; None: it is asked
    besides: Mapping[str, Beside] = field(default_factory=dict)  # by the name of the operation
    copies: Copies | None = None  # None: its clients are told, or it is no store
    # It is the agent, which says how long it stood still. `contends`: that it waits for a processor is what is
    # measured.
    tells_standstills: bool = False
    contends: bool = False
    # What the client of a role has to know of a service that is asked as a whole.
    client_parameters: Callable[[Plan, str, Role], dict[str, Any]] = lambda *_: {}
    # Of a store whose nodes tell themselves of copies that were lost: whether they make those of silent ones. None:
    # they tell nothing.
    watches: Callable[[Service], bool] | None = None


services: Registry[ServiceImplementation] = Registry(SERVICES, "virtlab.testbed.services.{}")
