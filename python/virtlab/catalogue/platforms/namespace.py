"""`namespace`: a guest is a network namespace of the private world, with vNICs on the host's virtual switch."""

from virtlab.catalogue.declaration import FOLDER_DISK, Features, Platform

NAMESPACE = Platform(
    name="namespace",
    meaning="a network namespace with its own network stack",
    guests_max=None,
    vswitch=True,
    limits=("cpu", "memory", "swap", "pool"),
    features=Features(
        type="in an operating system",
        virtualisation=("namespaces",),
        own_kernel=False,
        migration="none",
        snapshots="none",
        licence="GPL-2.0 (Linux)",
    ),
    disk=FOLDER_DISK,
    shares_files=True,
    inside=True,
)
