"""`ovs-kernel`: Open vSwitch whose datapath is the kernel's module; the one in user space is another, `ovs-netdev`."""

from virtlab.catalogue.declaration import VirtualSwitch

OVS_KERNEL = VirtualSwitch(
    name="ovs-kernel",
    meaning="Open vSwitch with the kernel's datapath; `--in lab-vm` has one everywhere",
    ports_max=1024,
)
