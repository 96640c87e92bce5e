"""`libvirt`: a domain that libvirt's daemon knows, started for the run by `virsh` and measured inside over ssh.

Local QEMU domains are what it is for. A file names local daemons by URI; a URI can do more than that, run programs
among it, so any other is listed in the user's settings under a name, and is used untested.
"""

from virtlab.catalogue.declaration import Features, Platform
from virtlab.lazy import pattern

DEFAULT = "qemu:///system"
LOCAL = pattern(r"(qemu|xen|lxc|test)(\+unix)?:///(system|session|default)\Z")
NAME = pattern(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,40}\Z")  # of a connection in the user's settings

LIBVIRT = Platform(
    name="libvirt",
    meaning="a domain of libvirt, started for the run and reached by ssh",
    guests_max=1,
    vswitch=False,
    pushback="guest",  # its port is the wire's
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
    domains=True,
    reset=None,
    arms={"testbed": None, "simulator": "what an existing guest costs is unknown until it is measured"},
    start_ns=3_000_000_000,
)
