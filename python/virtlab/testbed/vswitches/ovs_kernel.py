"""Open vSwitch whose datapath is the kernel's module."""

from virtlab.catalogue.vswitches.ovs_kernel import OVS_KERNEL
from virtlab.testbed.vswitches import open_vswitch
from virtlab.testbed.vswitches.ovs_rules import IN_KERNEL

IMPLEMENTATION = open_vswitch.kind(OVS_KERNEL.name, IN_KERNEL)
