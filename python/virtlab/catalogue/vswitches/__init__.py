"""Virtual switches inside hosts. One file each; the names here, and `none`, are what `vswitch:` may say."""

from virtlab.catalogue.declaration import VirtualSwitch
from virtlab.catalogue.vswitches.linux_bridge import LINUX_BRIDGE

VSWITCHES: dict[str, VirtualSwitch] = {entry.name: entry for entry in (LINUX_BRIDGE,)}

__all__ = ["VSWITCHES"]
