"""Open vSwitch whose datapath is a process."""

from virtlab.testbed.vswitches.open_vswitch import NETDEV

IMPLEMENTATION = NETDEV
