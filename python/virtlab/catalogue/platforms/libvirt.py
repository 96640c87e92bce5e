"""`libvirt`: a domain that libvirt's daemon knows, started for the run by `virsh` and measured inside over ssh.

Local QEMU domains are what it is for; any other URI is passed through as it is, untested.
"""

from virtlab.catalogue.declaration import Features, Platform

LIBVIRT = Platform(
    name="libvirt",
    meaning="a domain of libvirt, started for the run and reached by ssh",
    guests_max=1,
    vswitch=False,
    limits=(),
    features=Features(
        type="in an operating system",
        virtualisation=("emulation (TCG)", "untested: hardware (KVM), any other that libvirt drives"),
        own_kernel=True,
        migration="not ours",
        snapshots="not ours",
        licence="LGPL-2.1 (libvirt), GPL-2.0 (QEMU, Linux)",
    ),
    existing=True,
    arms={"testbed": None, "simulator": "nobody knows what an existing guest costs before it is measured"},
    start_ns=3_000_000_000,
)
