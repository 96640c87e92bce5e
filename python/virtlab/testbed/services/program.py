"""`program`: the file's own command; what it starts ends with it, and all of it with the world.

Without a command it is the one that the image of its container names. Files that it brings are written in the folder
where it then begins: of a guest that shares the machine's files that is a `/tmp` of the command's own.
"""

from __future__ import annotations

from collections.abc import Iterator

from virtlab.catalogue import PLATFORMS
from virtlab.errors import MachineError
from virtlab.plan import Guest, Refusal, Service
from virtlab.testbed.image.rootfs import started_by
from virtlab.testbed.services.files import Files, refused
from virtlab.testbed.services.service import Invocation, ServiceImplementation


def _invocation(name: str, service: Service, guest: Guest) -> Invocation:
    values = service.parameters
    environment, user = dict(values.get("environment", {})), values.get("user")
    files = Files.of(name, values)
    if "argv" in values:
        return Invocation(tuple(values["argv"]), environment, files=files, user=user)
    own = started_by(str(guest.image))
    return Invocation(own.argv, {**own.environment, **environment}, own.folder, (), files, user or own.user)


def _refusals(path: str, service: Service, guest: Guest) -> Iterator[Refusal]:
    platform = PLATFORMS[guest.platform]
    if "argv" not in service.parameters and guest.image is not None:
        try:
            started_by(guest.image)
        except MachineError as error:
            yield Refusal(f"{path}.argv", error.what, error.cure)
    yield from refused(path, service.parameters, platform)


IMPLEMENTATION = ServiceImplementation(
    _invocation,
    _refusals,
    "see its output among the run's artefacts; a program has to stay in the foreground",
)
