"""`native`: no guest and no virtual switch; workloads stand on the host's own port. The reference of every study."""

from virtlab.catalogue.declaration import Features, Platform

NATIVE = Platform(
    name="native",
    meaning="the host itself: one network stack on its own port, without guest or virtual switch",
    guests_max=1,
    vswitch=False,
    pushback="guest",  # its port is the wire's
    limits=("cpu", "memory", "swap", "pool"),
    features=Features(
        type="none",
        virtualisation=(),
        own_kernel=False,
        migration="none",
        snapshots="none",
        licence="GPL-2.0 (Linux)",
    ),
    shares_files=True,
    inside=True,
)
