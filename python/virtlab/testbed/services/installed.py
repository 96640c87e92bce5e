"""Services that are programs of packages: where they can run, and which packages are missing.

They are this machine's, where a guest shares its files, or those of the image that a container is made of.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

from virtlab.catalogue import PLATFORMS
from virtlab.plan import Action, Guest, Plan, Refusal
from virtlab.planner.guests.disks import is_folder
from virtlab.planner.guests.stores import calls_of, comes_before, idle_waits
from virtlab.testbed.image.rootfs import find_rootfs
from virtlab.testbed.services import recovery_program
from virtlab.testbed.services.service import Invocation

PYTHON = "/usr/bin/python3"  # the system's own, which has the modules of packages
DISK = "/var/tmp/{}"  # noqa: S108 - of a service of this name, on the guest's own disk
BESIDE = "/usr/sbin:/sbin"
PLACES = ("usr/bin", "usr/sbin", "usr/local/bin", "bin", "sbin")  # of programs in an image


def missing(packages: Mapping[str, str]) -> list[str]:
    """Packages, by the program that each brings, whose program this machine lacks."""
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), BESIDE])
    return [package for program, package in packages.items() if shutil.which(program, path=path) is None]


def missing_of(image: str, packages: Mapping[str, str]) -> list[str]:
    """The same of an image; none of one that is not there, which is said elsewhere."""
    root = find_rootfs(image)
    if root is None:
        return []
    return [
        package
        for program, package in packages.items()
        if not any(os.path.lexists(root / place / program) for place in PLACES)
    ]


@cache
def text_of(module_file: str) -> str:
    """A program that is brought into guests."""
    return Path(module_file).read_text("utf-8")


def brought(name: str, program: str) -> dict[str, str]:
    """The files of a service: its program, and the one that counts what comes back to a node."""
    counting = recovery_program.__file__
    return {name: text_of(program), Path(counting).name: text_of(counting)}


def node_command(server: Invocation, task: str, **brings: str) -> Invocation:
    """The program of a service once more, as a command beside its server that does one thing, and `brings` texts by the
    names of their JSON files.
    """
    assert server.files is not None
    more = {f"{name}.json": text for name, text in brings.items()}
    files = replace(
        server.files, folder=f"{server.files.folder}{task}", by_name={**server.files.by_name, **more}
    )
    return replace(server, before=(*server.before, task), files=files)


def lost_nodes(plan: Plan, name: str) -> list[tuple[str, Action]]:
    """Calls by which a node of a service is lost, with their paths: what comes back to it is counted."""
    return [(path, action) for path, action, operation in calls_of(plan, name) if operation.of_one]


def losses(plan: Plan, name: str) -> Iterator[Refusal]:
    """What of losses is not counted: a second one, a node that stays away, and waits that end at once."""
    lost = lost_nodes(plan, name)
    for call, _ in lost[1:]:
        reason = f"a run loses one node of '{name}', once"
        yield Refusal(f"{call}.op", reason, "remove this call")
    known: dict[str, set[str]] = {}
    for path, action, operation in calls_of(plan, name):
        if (
            operation.of_one
            and operation.ends
            and not any(
                other.starts
                and each.args.get("guest") in {None, action.args.get("guest")}
                and not comes_before(plan, each, action, known)
                for _, each, other in calls_of(plan, name)
            )
        ):
            reason = f"no 'heal' of '{name}' follows, and all nodes list in the end what they have"
            yield Refusal(f"{path}.op", reason, "call 'heal' of it later, or write 'op: fail'")
    yield from idle_waits(plan, name)


def refused(
    path: str, guests: Iterable[Guest], packages: Mapping[str, str], why_root: str, instead: str
) -> Iterator[Refusal]:
    """Why this machine, or an image of one of its guests, cannot run it."""
    if os.geteuid() != 0:
        yield Refusal(f"{path}.kind", f"it needs root: {why_root}", f"run as root, or write {instead}")
        return
    here, images = False, dict[str, None]()
    for guest in guests:
        here = here or PLATFORMS[guest.platform].shares_files
        if has_programs_of_image(guest):
            images[str(guest.image)] = None
    if here and (lacking := missing(packages)):
        reason = f"this machine has no {', '.join(lacking)}"
        yield Refusal(f"{path}.kind", reason, f"apt-get install {' '.join(lacking)}")
    for image in images:
        if lacking := missing_of(image, packages):
            reason = f"the image '{image}' has no {', '.join(lacking)}"
            cure = f"install {' '.join(lacking)} in it, and run `virtlab image add {image}` again"
            yield Refusal(f"{path}.kind", reason, cure)


def has_programs_of_image(guest: Guest) -> bool:
    """Whether the programs that it sees are those of an image that the file names, by this machine's kernel."""
    platform = PLATFORMS[guest.platform]
    return platform.images and platform.shares_kernel and guest.image is not None


def refused_guest(path: str, guest: Guest) -> Iterator[Refusal]:
    """Why it cannot run in a guest."""
    platform = PLATFORMS[guest.platform]
    if platform.shares_files or has_programs_of_image(guest):
        return
    reason = f"its programs are this machine's, which {guest.platform} guests do not see"
    cure = "put it on guests that share this machine's files, as a namespace does"
    if platform.images and platform.shares_kernel:
        reason = f"a {guest.platform} without 'image' has no programs of packages"
        cure = "name an image that has them, or put it on namespaces"
    yield Refusal(f"{path}.on", reason, cure)


def without_disk(path: str, plan: Plan, guests: Iterable[str], what_for: str) -> Iterator[Refusal]:
    """Guests that lack the disk that it needs."""
    for guest in guests:
        made = plan.world.guests.get(guest)
        if made is not None and PLATFORMS[made.platform].disk_is_folder and not is_folder(made):
            yield Refusal(
                path,
                f"{guest} has no disk in memory, {what_for}",
                "give it one, e.g. 'disk: {size: 256 MiB}'",
            )
