"""Open vSwitch whose datapath is a process."""

from virtlab.catalogue.vswitches.ovs_netdev import OVS_NETDEV
from virtlab.testbed.vswitches import open_vswitch

IMPLEMENTATION = open_vswitch.kind(OVS_NETDEV.name, "netdev")
