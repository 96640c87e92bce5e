"""`program`: the file's own command; what it starts ends with it, and all of it with the world.

Without a command it is the one that the image of its container names. Files that it brings are written by a shell of the
guest in the folder where the command then begins: of a guest that shares the machine's files that is a `/tmp` of the
command's own.
"""

from __future__ import annotations

from collections.abc import Iterator

from virtlab.catalogue import PLATFORMS
from virtlab.errors import MachineError
from virtlab.plan import Guest, Refusal, Service
from virtlab.testbed.image.rootfs import started_by
from virtlab.testbed.services.service import Invocation, ServiceImplementation

FOLDER = "/tmp/virtlab-{}"  # noqa: S108 - of a guest that is ours, or mounted for the command alone
# Words: the folder, then name and text of each file, then '--' and the command, which takes the place of this shell.
WRITE = (
    'mkdir -p "$1" && cd "$1" && shift && while [ "$1" != -- ]; do '
    'case $1 in */*) mkdir -p "${1%/*}";; esac && printf %s "$2" >"$1" || exit; shift 2; done && shift && exec "$@"'
)


def _invocation(name: str, service: Service, guest: Guest) -> Invocation:
    values = service.parameters
    environment, user = dict(values.get("environment", {})), values.get("user")
    before: tuple[str, ...] = ()
    if files := dict(values.get("files", {})):
        written = [word for file, text in files.items() for word in (file, text)]
        before = ("sh", "-c", WRITE, "virtlab", FOLDER.format(name), *written, "--")
    if "argv" in values:
        return Invocation(tuple(values["argv"]), environment, before=before, user=user)
    own = started_by(str(guest.image))
    return Invocation(own.argv, {**own.environment, **environment}, own.folder, before, user or own.user)


def _refusals(path: str, service: Service, guest: Guest) -> Iterator[Refusal]:
    platform = PLATFORMS[guest.platform]
    if "argv" not in service.parameters and guest.image is not None:
        try:
            started_by(guest.image)
        except MachineError as error:
            yield Refusal(f"{path}.argv", error.what, error.cure)
    if platform.existing and service.parameters.get("files"):
        reason = f"what is written on a host that exists already, as {platform.name} hosts do, stays there"
        yield Refusal(f"{path}.files", reason, "put the files there yourself, and name them in 'argv'")


IMPLEMENTATION = ServiceImplementation(
    _invocation,
    _refusals,
    "see its output among the run's artefacts; a program has to stay in the foreground",
    operations={"fail": (True, False), "heal": (False, True), "restart": (True, True)},
)
