"""Why a container cannot be run here, found before anything is built."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

from virtlab.plan import Plan, Refusal
from virtlab.testbed.image.rootfs import find_rootfs, rootfs_folder
from virtlab.testbed.kinds import container_runtime as runtime
from virtlab.testbed.kinds.findings import Findings
from virtlab.testbed.kinds.platform import GuestPlatform, Running, Surroundings
from virtlab.testbed.kinds.user_namespaces import not_all_are_ours, users_of
from virtlab.testbed.platforms.container.containers import Containers

MEMORY_MIN_BYTES = 16 << 20  # the runtime itself needs that much while it starts a container


def container_refusals(path: str, name: str, plan: Plan, findings: Findings) -> Iterator[Refusal]:
    """Every refusal of one guest."""
    del findings
    guest = plan.world.guests[name]
    why = runtime.missing(guest.runtime)
    if why is not None:
        key = "platform" if guest.runtime is None else "runtime"
        yield Refusal(f"{path}.{key}", why, runtime.cure(guest.runtime))
    if guest.image is not None:
        rootfs = find_rootfs(guest.image)
        if rootfs is None:
            reason = f"there is no image '{guest.image}' in {rootfs_folder()}"
            yield Refusal(f"{path}.image", reason, f"run `virtlab image add {guest.image} FOLDER-OR-ARCHIVE`")
        elif set(str(rootfs)) & set(",:\\'"):
            yield Refusal(
                f"{path}.image",
                f"{rootfs} has a character that layers cannot have",
                "set XDG_CACHE_HOME to another folder",
            )
    yield from _user_namespace(path, name, plan)
    if guest.memory_bytes is not None and guest.memory_bytes < MEMORY_MIN_BYTES:
        reason = f"no container starts in {guest.memory_bytes / (1 << 20):.4g} MiB"
        yield Refusal(f"{path}.memory_bytes", reason, f"write at least '{MEMORY_MIN_BYTES >> 20} MiB'")
    if guest.routing == "ospf":
        yield Refusal(f"{path}.routing", "routing daemons run in namespaces only", "write 'routing: static'")


def _user_namespace(path: str, name: str, plan: Plan) -> Iterator[Refusal]:
    """Why it cannot have a user namespace of its own here."""
    users = users_of(plan).get(name)
    if users is None:
        return
    where, cure = f"{path}.user_namespace", "remove it"
    found = runtime.find(plan.world.guests[name].runtime)
    if os.geteuid() != 0:
        yield Refusal(where, "an ordinary user's containers are in that user's namespace already", cure)
    elif not_all_are_ours(users):
        last = users.first + users.count - 1
        reason = f"users {users.first} to {last} are not this process's to give (/proc/self/uid_map)"
        yield Refusal(where, reason, f"{cure}, or run outside the container that virtlab is in")
    elif found is not None and found.is_engine:
        reason = f"{found.name} makes user namespaces by its own configuration"
        yield Refusal(where, reason, "write 'runtime: runc', or remove it")


def _running(world: Surroundings, names: Sequence[str]) -> Running:
    return Containers(world.control, world.plan, world.lowered, names, world.groups, world.container_home)


IMPLEMENTATION = GuestPlatform(lambda _: runtime.missing(), container_refusals, _running)
