"""`linux_bridge`: the kernel's bridge. It has at most 1,024 ports (BR_MAX_PORTS), of which one is the uplink."""

from virtlab.catalogue.declaration import VirtualSwitch

LINUX_BRIDGE = VirtualSwitch(
    name="linux_bridge", meaning="the Linux kernel's bridge", ports_max=1024, interface=True, inside=True
)
