"""Kept worlds: built by `up`, walked in by `shell` and `exec`, ended by `down` or by an idle limit.

The leader listens on a private unix socket in a folder of the user's own; it lets in the same user only. Beside the
socket lies a description: guests, their namespaces and addresses.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import socket
import stat
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from virtlab.agents.requests.every import Bye
from virtlab.agents.requests.leader import Keep
from virtlab.catalogue.platforms import AT_EXISTING
from virtlab.errors import ExperimentError, MachineError, VirtlabError
from virtlab.plan import Access, Observer, Plan
from virtlab.testbed.build.machine import findings
from virtlab.testbed.leader import ledger
from virtlab.testbed.leader.control import Control
from virtlab.testbed.session import TestbedSession
from virtlab.testbed.up.description import Description

IDLE_NS = 3600 * 10**9
END_TIMEOUT_S = 5.0
DESCRIPTION_MAX_BYTES = 16 << 20  # what is longer is cut, and no description
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,40}\Z")


@dataclass(frozen=True, slots=True)
class World:
    """A kept world as its description says."""

    name: str
    socket: Path
    guests: Mapping[str, str]  # guest -> namespace
    addresses: Mapping[str, tuple[str, ...]]
    source: str
    leaders: Mapping[str, tuple[int, int]] = field(
        default_factory=dict
    )  # guest -> its own leader, its last channel
    groups: Mapping[str, list[str]] = field(default_factory=dict)  # guest -> files to join its groups by
    processors: Mapping[str, list[int]] = field(
        default_factory=dict
    )  # guest -> those it runs on; absent: any
    damage: str = ""  # why its description cannot be read; then nothing else is known

    def access(self) -> Access:
        """The addresses and the socket by which a person reaches the world."""
        return Access(self.addresses, str(self.socket))


def folder() -> Path:
    """The user's own folder for sockets, made when missing. MachineError when another user could write in it."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    path = Path(runtime) / "virtlab" if runtime else Path(tempfile.gettempdir()) / f"virtlab-{os.getuid()}"
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    state = path.lstat()
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != os.getuid() or state.st_mode & 0o077:
        raise MachineError(
            str(path), "is not a folder of this user alone", "remove it, or set XDG_RUNTIME_DIR"
        )
    return path


def worlds() -> dict[str, World]:
    """Kept worlds that live; what dead ones left behind is removed. One that nothing is known of can still be ended."""
    found: dict[str, World] = {}
    for description in sorted(folder().glob("*.json")):
        door = description.with_suffix(".sock")
        try:
            _connect(door).close()
        except OSError:
            with contextlib.suppress(OSError):
                description.unlink(missing_ok=True)
                door.unlink(missing_ok=True)
            continue
        found[description.stem] = _described(description.stem, door, description)
    return found


def _described(name: str, door: Path, description: Path) -> World:
    """A world that lives, with what its description says of it, or why that cannot be read."""
    from pydantic import ValidationError

    try:
        with os.fdopen(os.open(description, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            said = Description.model_validate_json(file.read(DESCRIPTION_MAX_BYTES))
    except OSError as error:
        return World(name, door, {}, {}, "", damage=str(error.strerror))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        return World(name, door, {}, {}, "", damage=f"{place}: {first['msg']}" if place else first["msg"])
    return World(
        name, door, said.guests, said.addresses, said.source, said.leaders, said.groups, said.processors
    )


def damaged() -> list[MachineError]:
    """An error for each kept world whose description cannot be read, with the cure."""
    return [_damage(world) for world in worlds().values() if world.damage]


def _damage(world: World) -> MachineError:
    what = f"its description cannot be read ({world.damage}), so its guests are unknown"
    return MachineError(f"world {world.name}", what, f"`virtlab down --name {world.name}` ends it")


def find(name: str | None) -> World:
    """The kept world of that name, or the only one. ExperimentError if none exists, or a choice.

    Without a name, a world of which nothing is known is only taken if there is no other.
    """
    alive = worlds()
    if name is not None:
        if name not in alive:
            there = f"there are {', '.join(alive)}" if alive else "start one with `virtlab up FILE`"
            raise ExperimentError("world", f"there is no kept world '{name}'", there)
        return alive[name]
    if not alive:
        raise ExperimentError("world", "there is no kept world", "start one with `virtlab up FILE`")
    known = {each: world for each, world in alive.items() if not world.damage} or alive
    if len(known) > 1:
        raise ExperimentError("world", f"there are several: {', '.join(known)}", "say which with --name")
    return next(iter(known.values()))


def check(plan: Plan, name: str) -> None:
    """ExperimentError when a world cannot be kept, or not under this name; before anything is waited for or built."""
    if not NAME.match(name):
        raise ExperimentError(
            "world",
            f"'{name}' is not a valid name for a world",
            "use letters, digits, '-', '_' and '.' (--name)",
        )
    if name in worlds():
        raise ExperimentError(
            "world", f"'{name}' is kept already", f"`virtlab down --name {name}`, or another --name"
        )
    if (
        far := next((host for host, entry in plan.world.hosts.items() if entry.at == AT_EXISTING), None)
    ) is not None:
        what = "exists already, and its agent lives as long as our connection to it"
        raise ExperimentError(f"hosts.{far}", what, "walk around in it by ssh itself")


def keep(plan: Plan, name: str, source: str, observe: Observer, *, idle_ns: int = IDLE_NS) -> World:
    """Builds a world and leaves it running. MachineError or GuestError when that fails; nothing is left then."""
    check(plan, name)
    session = TestbedSession(plan, findings().machine, observe, keep=True)
    door = folder() / f"{name}.sock"
    description = door.with_suffix(".json")
    access = session.describe()
    leaders = session.leaders()
    groups, processors = session.groups(), session.processors()
    values = {
        "guests": session.lowered.guests, "addresses": access.guests, "source": source, "leaders": leaders,
        "groups": groups, "processors": processors,
    }  # fmt: skip
    try:
        door.unlink(missing_ok=True)
        new = description.with_suffix(".new")
        new.write_text(json.dumps(values), encoding="utf-8")
        new.replace(description)
        session.leader.control.call(Keep(str(door), idle_ns))
    except (VirtlabError, OSError):
        description.unlink(missing_ok=True)
        session.end()
        raise
    session.leave()
    return World(name, door, dict(session.lowered.guests), access.guests, source, leaders, groups, processors)


def enter(world: World) -> Control:
    """A control stream to a kept world. MachineError when it is gone."""
    try:
        stream = _connect(world.socket)
    except OSError as error:
        raise MachineError(
            f"world {world.name}", f"cannot be reached ({error.strerror})", "build it again with `virtlab up`"
        ) from error
    control = Control(stream)
    for leader, last in world.leaders.values():
        control.begin(leader, last - leader + 1)
    control.confine({world.guests[guest]: list(cpus) for guest, cpus in world.processors.items()})
    control.greet()
    return control


def namespace_of(world: World, guest: str) -> str:
    """The namespace of a guest. ExperimentError if none exists of that name, MachineError if its guests are unknown."""
    if world.damage:
        raise _damage(world)
    if guest not in world.guests:
        raise ExperimentError(
            "guest", f"world {world.name} has no guest '{guest}'", f"it has {', '.join(sorted(world.guests))}"
        )
    return world.guests[guest]


def end(world: World) -> None:
    """Ends a kept world and returns when its door is gone."""
    control = enter(world)
    control.call(Bye())
    deadline = time.monotonic() + END_TIMEOUT_S
    while time.monotonic() < deadline:
        try:
            _connect(world.socket).close()
        except OSError:
            break
        time.sleep(0.01)
    control.close()
    world.socket.unlink(missing_ok=True)
    world.socket.with_suffix(".json").unlink(missing_ok=True)
    if os.geteuid() == 0:
        ledger.sweep()


def _connect(door: Path) -> socket.socket:
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        stream.connect(str(door))
    except OSError:
        stream.close()
        raise
    return stream
