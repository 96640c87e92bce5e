"""Platforms: how a guest exists. One file each; the names here are what `platform:` may say."""

from collections.abc import Callable

from virtlab.catalogue.declaration import Platform
from virtlab.catalogue.platforms.appliance import APPLIANCE
from virtlab.catalogue.platforms.container import CONTAINER
from virtlab.catalogue.platforms.libvirt import LIBVIRT
from virtlab.catalogue.platforms.namespace import NAMESPACE
from virtlab.catalogue.platforms.native import NATIVE
from virtlab.catalogue.platforms.qemu import QEMU
from virtlab.catalogue.platforms.ssh import SSH
from virtlab.catalogue.platforms.xen import XEN

PLATFORMS: dict[str, Platform] = {
    entry.name: entry for entry in (NAMESPACE, NATIVE, CONTAINER, QEMU, XEN, APPLIANCE, SSH, LIBVIRT)
}
DEFAULT_PLATFORM = NAMESPACE.name
DEFAULT_ROUTER = NATIVE.name
AT_EXISTING = SSH.name  # where a Plan has a host that exists already: all such are reached in one way

__all__ = ["AT_EXISTING", "DEFAULT_PLATFORM", "DEFAULT_ROUTER", "PLATFORMS", "bounded", "write_platform"]


def write_platform(able: Callable[[Platform], bool]) -> str:
    """The cure that names every platform whose guests can have what was asked.

    >>> write_platform(lambda platform: platform.disks)
    "write 'platform: qemu'"
    """
    return f"write 'platform: {' | '.join(name for name, platform in PLATFORMS.items() if able(platform))}'"


def bounded(limit: str) -> str:
    """The same of a limit.

    >>> bounded("vcpus")
    "write 'platform: qemu | xen | appliance'"
    """
    return write_platform(lambda platform: limit in platform.limits)
