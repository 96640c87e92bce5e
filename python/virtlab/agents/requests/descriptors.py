"""The descriptors that a command starts with, from 3 on, in their order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from virtlab.agents.requests.request import Fields


@dataclass(frozen=True, slots=True)
class Descriptor(Fields):
    """One of a kind."""

    kind: ClassVar[str]

    def wire(self) -> dict[str, Any]:
        """As it is sent."""
        return {"kind": self.kind, **super(Descriptor, self).wire()}  # as in `Exec`


@dataclass(frozen=True, slots=True)
class TapDescriptor(Descriptor):
    """A tap that the leader keeps open."""

    kind = "tap"
    namespace: str
    link: str


@dataclass(frozen=True, slots=True)
class UsersDescriptor(Descriptor):
    """The user namespace that a network belongs to."""

    kind = "users"
    namespace: str


@dataclass(frozen=True, slots=True)
class StreamDescriptor(Descriptor):
    """A byte stream whose bytes are data frames of a channel."""

    kind = "stream"
    channel: int


@dataclass(frozen=True, slots=True)
class AgentDescriptor(Descriptor):
    """The byte stream of an agent behind the command, who owns so many channels."""

    kind = "agent"
    channel: int
    channels: int


@dataclass(frozen=True, slots=True)
class HeirDescriptor(Descriptor):
    """The stream on which the agent that begins at a channel, behind another command, continues."""

    kind = "heir"
    channel: int


@dataclass(frozen=True, slots=True)
class DiskDescriptor(Descriptor):
    """A disk over NBD."""

    kind = "disk"
    disk: Mapping[str, Any]
