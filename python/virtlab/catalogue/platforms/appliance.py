"""`appliance`: a virtual machine with somebody else's system (VyOS, OpenWrt, CSR1000v), without our agent.

It is configured through its serial console, or by an ISO image, from a template that the Plan fills in, and measured
from outside: it forwards between guests that have agents.
"""

from virtlab.catalogue.declaration import Features, Platform, Reset

APPLIANCE = Platform(
    name="appliance",
    meaning="a virtual machine with somebody else's system, configured through its console and measured from outside",
    guests_max=None,
    vswitch=True,
    limits=("memory", "vcpus", "pool"),
    features=Features(
        type="in an operating system",
        virtualisation=("emulation (TCG)", "untested: hardware (KVM)", "paravirtual devices (virtio)"),
        own_kernel=True,
        migration="not ours",
        snapshots="none: its disk is never written",
        licence="that of its image; GPL-2.0 (QEMU)",
    ),
    vnic_models=("virtio", "e1000", "e1000e"),
    images=True,
    agentless=True,
    start_ns=10_000_000_000,
    reset=Reset(
        "QMP system_reset: it boots again, and its recipe is played on its console again", boots=True
    ),
)
