"""Open vSwitch whose datapath is the kernel's module."""

from virtlab.testbed.vswitches.open_vswitch import KERNEL

IMPLEMENTATION = KERNEL
