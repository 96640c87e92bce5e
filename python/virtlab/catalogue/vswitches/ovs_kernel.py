"""`ovs-kernel`: Open vSwitch whose datapath is the kernel's module; the one in user space is another, `ovs-netdev`."""

from virtlab.catalogue.declaration import VirtualSwitch
from virtlab.catalogue.vswitches.ovs_netdev import FLOW_ENTRIES, OPEN_VSWITCH_BYTES

OVS_KERNEL = VirtualSwitch(
    name="ovs-kernel",
    meaning="Open vSwitch with the kernel's datapath; `--in lab-vm` has one everywhere",
    ports_max=1024,
    parameters=(FLOW_ENTRIES,),
    inside=True,
    inside_bytes=OPEN_VSWITCH_BYTES,
)
