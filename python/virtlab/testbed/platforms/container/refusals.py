"""Why a container cannot be run here, found before anything is built."""

from __future__ import annotations

from collections.abc import Iterator

from virtlab.plan import Guest, Refusal
from virtlab.testbed.image.rootfs import find_rootfs, rootfs_folder
from virtlab.testbed.platforms.container import runtime

MEMORY_MIN_BYTES = 16 << 20  # the runtime itself needs that much while it starts a container


def container_refusals(path: str, guest: Guest) -> Iterator[Refusal]:
    """All of one guest."""
    why = runtime.missing(guest.runtime)
    if why is not None:
        key = "platform" if guest.runtime is None else "runtime"
        yield Refusal(f"{path}.{key}", why, runtime.cure(guest.runtime))
    if guest.image is not None:
        found = find_rootfs(guest.image)
        if found is None:
            reason = f"there is no image '{guest.image}' in {rootfs_folder()}"
            yield Refusal(f"{path}.image", reason, f"run `virtlab image add {guest.image} FOLDER-OR-ARCHIVE`")
        elif set(str(found)) & set(",:\\'"):
            yield Refusal(
                f"{path}.image",
                f"{found} has a character that layers cannot have",
                "set XDG_CACHE_HOME to another folder",
            )
    if guest.memory_bytes is not None and guest.memory_bytes < MEMORY_MIN_BYTES:
        reason = f"no container starts in {guest.memory_bytes / (1 << 20):.4g} MiB"
        yield Refusal(f"{path}.memory_bytes", reason, f"write at least '{MEMORY_MIN_BYTES >> 20} MiB'")
    if guest.routing == "ospf":
        yield Refusal(f"{path}.routing", "routing daemons run in namespaces only", "write 'routing: static'")
