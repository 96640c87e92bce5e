"""`container`: a guest is an OCI container, run by runc, crun or podman in the private world, on its virtual switch.

Its kernel is the machine's, so its packets go the way of a namespace's; what is added is a root file system of its own,
its own processes, users and names, and control groups that bound and count it.
"""

from virtlab.catalogue.declaration import FOLDER_DISK, Features, Platform

CONTAINER = Platform(
    name="container",
    meaning="an OCI container with a root file system of its own, run by runc, crun or podman",
    guests_max=None,
    vswitch=True,
    limits=("cpu", "memory", "swap", "pool"),
    features=Features(
        type="in an operating system",
        virtualisation=("namespaces", "control groups"),
        own_kernel=False,
        migration="none",
        snapshots="none",
        licence="Apache-2.0 (runc, podman), GPL-2.0 and LGPL-2.1 (crun), GPL-2.0 (Linux)",
    ),
    runtimes=("runc", "crun", "podman"),
    images=True,
    disk=FOLDER_DISK,
    start_ns=100_000_000,
    own_groups=True,
    inside=True,
    inside_bytes=18 << 20,  # with its runtime
)
