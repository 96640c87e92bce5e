"""`ovs-netdev`: Open vSwitch whose datapath runs in user space. Its kernel datapath is another platform,
`ovs-kernel`.
"""

from virtlab.catalogue.declaration import Parameter, VirtualSwitch
from virtlab.catalogue.kinds import choice

OPEN_VSWITCH_BYTES = 8 << 20
FLOW_ENTRIES = Parameter(
    "flow_entries",
    choice("shared", "own"),
    "flow_entries",
    "entries of its datapath: shared by all flows to an address, or each flow's own",
    "shared",
)

OVS_NETDEV = VirtualSwitch(
    name="ovs-netdev",
    meaning="Open vSwitch with its datapath in user space",
    ports_max=1024,
    parameters=(FLOW_ENTRIES,),
    process=True,
    pushback="guest",  # it holds no sender back: one as fast as possible would lose nearly all
    inside=True,
    inside_bytes=OPEN_VSWITCH_BYTES,
)
