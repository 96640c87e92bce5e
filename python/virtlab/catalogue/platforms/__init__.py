"""Platforms: how a guest exists. One file each; the names here are what `platform:` may say."""

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

__all__ = ["AT_EXISTING", "DEFAULT_PLATFORM", "DEFAULT_ROUTER", "PLATFORMS"]
