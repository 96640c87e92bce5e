"""Virtual switches inside hosts. One file each; the names here, and `none`, are what `vswitch:` may say."""

from virtlab.catalogue.declaration import VirtualSwitch
from virtlab.catalogue.vswitches.linux_bridge import LINUX_BRIDGE
from virtlab.catalogue.vswitches.ovs_kernel import OVS_KERNEL
from virtlab.catalogue.vswitches.ovs_netdev import OVS_NETDEV

VSWITCHES: dict[str, VirtualSwitch] = {entry.name: entry for entry in (LINUX_BRIDGE, OVS_NETDEV, OVS_KERNEL)}
DEFAULT_VSWITCH = LINUX_BRIDGE.name

__all__ = ["DEFAULT_VSWITCH", "VSWITCHES"]
