"""`ovs-netdev`: Open vSwitch whose datapath runs in user space. Its kernel datapath is another platform, `ovs-kernel`."""

from virtlab.catalogue.declaration import VirtualSwitch

OVS_NETDEV = VirtualSwitch(
    name="ovs-netdev",
    meaning="Open vSwitch with its datapath in user space",
    ports_max=1024,
)
