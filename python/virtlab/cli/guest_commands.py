"""What an experiment file has guests execute, shown before anything runs, and run only where that is harmless or
allowed.

In a guest with a kernel or a root file system of its own a command touches the guest. One in a guest that shares
this machine's files runs on this machine: confined, but with its user's eyes. A file may come from anybody, so the
user who runs it allows its commands: by `--allow-exec`, or by the file's digest in the settings.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from virtlab.catalogue.actions import commands_guest
from virtlab.errors import ExperimentError, MachineError
from virtlab.lazy import shlex

if TYPE_CHECKING:
    from virtlab.experiment import Experiment

SHARES = "sees this machine's files: needs --allow-exec"


class Executed(NamedTuple):
    """One command of a file: of an action of its timeline, of a service, or a role's program; or a role's files."""

    section: Literal["timeline", "services", "roles"]
    name: str
    guest: str
    platform: str
    argv: tuple[str, ...]
    image: str | None = None  # that says this command
    polls: tuple[str, ...] = ()  # files and pages that are read beside it, with its rights
    directory: str | None = None  # of a role that makes files, instead of a command

    @property
    def shares_files(self) -> bool:
        """Whether it runs among this machine's files."""
        from virtlab.catalogue import PLATFORMS

        return PLATFORMS[self.platform].shares_files

    def text(self) -> str:
        """The command with its guest and platform."""
        if self.directory is not None:
            return f"{self.platform} {self.guest}: makes and removes files in a folder of {_quoted(self.directory)}"
        words = " ".join(_quoted(word) for word in self.argv)
        if self.image is not None:
            words = f"{words} (of image {self.image})" if words else f"what image {self.image} starts"
        if self.polls:
            words += f" (and reads {', '.join(map(_quoted, self.polls))})"
        return f"{self.platform} {self.guest}: {words}"

    def json(self) -> dict[str, Any]:
        """The same for a program."""
        whose = {"timeline": "action", "services": "service", "roles": "role"}[self.section]
        return {
            whose: self.name, "guest": self.guest, "platform": self.platform, "argv": list(self.argv),
            "shares_files": self.shares_files, **({"image": self.image} if self.image is not None else {}),
            **({"polls": list(self.polls)} if self.polls else {}),
            **({"directory": self.directory} if self.directory is not None else {}),
        }  # fmt: skip


def has_own_files(platform: str, directory: str, *, has_disk: bool) -> bool:
    """Whether what a guest makes in a directory is its own: not the machine's, and gone with the guest.

    >>> has_own_files("namespace", "/var/tmp", has_disk=True), has_own_files("namespace", "/var/tmp", has_disk=False)
    (True, False)
    >>> has_own_files("namespace", "/mnt", has_disk=True), has_own_files("qemu", "/mnt", has_disk=False)
    (False, True)
    """
    from virtlab.catalogue import PLATFORMS
    from virtlab.catalogue.disks import is_on_disk

    return not PLATFORMS[platform].shares_files or (has_disk and is_on_disk(directory))


def _quoted(word: str) -> str:
    """A word as a shell takes it, on one line: nothing of a file can look like another line of what it executes.

    >>> _quoted("a b"), _quoted("one\\ntwo")
    ("'a b'", "$'one\\\\ntwo'")
    """
    if word.isprintable():
        return shlex.quote(word)
    escaped = word.encode("unicode_escape").decode().replace("'", "\\'")
    return f"$'{escaped}'"


def digest(experiment: Experiment) -> str:
    """SHA-256 of the file."""
    return hashlib.sha256(experiment.text.encode()).hexdigest()


def executed(experiment: Experiment, points: Collection[int] | None = None) -> list[Executed]:
    """Every command of the file's points, each once: of services, of the timeline in its order, then of roles."""
    from virtlab.experiment.world.topology import container_images

    found: dict[Executed, None] = {}
    for point in experiment.points():
        if points is not None and point.index not in points:
            continue
        study = experiment.study(point)
        platforms = {name: station.platform for name, station in study.wiring.stations.items()}
        for service in study.services.values():
            for guest in service.on:
                if service.of_image:
                    image = container_images(study.wiring)[guest]
                    argv = _of_image(image)
                    found[Executed("services", service.name, guest, platforms[guest], argv, image)] = None
                for argv in service.commands():
                    found[Executed("services", service.name, guest, platforms[guest], argv)] = None
        for action in study.timeline or ():
            if commands_guest(action.do):
                guest = str(action.fields["guest"])
                argv = tuple(action.fields["argv"])
                found[Executed("timeline", action.id, guest, platforms[guest], argv)] = None
        for role in study.roles.values():
            if role.active and role.declaration.directory is not None:
                station = study.wiring.stations[role.source]
                directory = str(role.parameters[role.declaration.directory])
                host = study.wiring.hosts.get(station.host)
                has_disk = station.spec.disk is not None or (host is not None and host.disk is not None)
                if not has_own_files(station.platform, directory, has_disk=has_disk):
                    found[
                        Executed("roles", role.name, role.source, station.platform, (), directory=directory)
                    ] = None
            if role.active and role.declaration.command:
                from virtlab.outputs.polled import sources_of  # only roles of programs have such

                written = role.parameters.get("argv")
                of = None if written is not None else container_images(study.wiring)[role.source]
                argv = tuple(written or ()) if of is None else _of_image(of)
                polls = tuple(each.place for each in sources_of(role.parameters.get("metrics") or {}))
                found[Executed("roles", role.name, role.source, platforms[role.source], argv, of, polls)] = (
                    None
                )
    return list(found)


def _of_image(image: str) -> tuple[str, ...]:
    """What an image of a container starts; nothing where it is not here, or starts nothing: then no run takes place."""
    from virtlab.testbed.image.rootfs import started_by

    try:
        return started_by(image).argv
    except MachineError:
        return ()


class Brought(NamedTuple):
    """A file that a program brings from beside the experiment file."""

    owner: str  # services.NAME or roles.NAME
    file: str  # its name there
    sha256: str
    size_bytes: int
    executable: bool

    def text(self) -> str:
        """What it is, on a line."""
        how = ", executable" if self.executable else ""
        return f"{self.owner} brings {self.file}: {self.size_bytes} B{how}, SHA-256 {self.sha256}"


def brought(experiment: Experiment) -> list[Brought]:
    """Every such file of the file's points, each once."""
    found: dict[Brought, None] = {}
    for point in experiment.points():
        study = experiment.study(point)
        owners: list[tuple[str, Mapping[str, Any]]] = [
            (f"services.{name}", each.parameters) for name, each in study.services.items()
        ]
        owners += [(f"roles.{name}", each.parameters) for name, each in study.roles.items() if each.active]
        for owner, parameters in owners:
            for name, entry in (parameters.get("files") or {}).items():
                if not isinstance(entry, str):
                    size_bytes, executable = int(entry["bytes"]), bool(entry["executable"])
                    found[Brought(owner, name, str(entry["sha256"]), size_bytes, executable)] = None
    return list(found)


def lines(experiment: Experiment) -> list[str]:
    """Them for a person, with what their programs bring, and what allows those that need it; nothing where the file
    executes nothing."""
    found = executed(experiment)
    told = [f"{each.text()} ({SHARES})" if each.shares_files else each.text() for each in found]
    told += [each.text() for each in brought(experiment)]
    if any(each.shares_files for each in found):
        told.append(f"SHA-256 of the file: {digest(experiment)}")
    return told


def refuse_unless_allowed(
    experiment: Experiment, points: Collection[int] | None, *, allowed: bool, plays: bool = True
) -> None:
    """ExperimentError if a command would run among this machine's files and the user has not allowed that.

    `plays`: the timeline is played, and not the world built alone.
    """
    from virtlab.settings import load_trusted

    sharing = [
        each
        for each in executed(experiment, points)
        if each.shares_files and (plays or each.section == "services")
    ]
    if not sharing or allowed or digest(experiment) in load_trusted().allow_exec:
        return
    first, more = sharing[0], f" (and {len(sharing) - 1} more)" if len(sharing) > 1 else ""
    what = f"would run among this machine's files, on {first.text()}{more}"
    cure = "see what `virtlab check` lists; then add --allow-exec, or the file's SHA-256 to allow_exec in your settings"
    raise ExperimentError(f"{first.section}.{first.name}", what, cure)
