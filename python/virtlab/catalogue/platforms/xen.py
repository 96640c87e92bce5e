"""`xen`: a guest is a paravirtualised domain (PV) of Xen, started by `xl`; its port's back end is at its host's switch.

Xen takes a machine as a whole, so its domains live in a laboratory machine that boots the hypervisor (`--in xen`).
"""

from virtlab.catalogue.declaration import Features, Platform, Reset

XEN = Platform(
    name="xen",
    meaning="a paravirtualised domain of Xen with its own Linux kernel, inside `--in xen` (experimental)",
    guests_max=None,
    vswitch=True,
    limits=("memory", "vcpus"),
    features=Features(
        type="on the hardware (here: on that of an emulated machine)",
        virtualisation=("paravirtual kernel (PV)", "paravirtual devices (netfront, netback)"),
        own_kernel=True,
        migration="not ours",
        snapshots="not ours",
        licence="GPL-2.0 (Xen, Linux)",
    ),
    start_ns=5_000_000_000,
    reset=Reset(
        "xl destroy and xl create: a new domain is made, its kernel begins again, and it is told its network again",
        boots=True,
        anew=True,
    ),
    late_ports=True,
    locked_offloads=("tx",),  # netfront's checksums are always its receiver's work
    hypervisor="xen",
)
