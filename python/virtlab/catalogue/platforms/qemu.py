"""`qemu`: a guest is a virtual machine with a kernel of its own, run by QEMU inside the private world.

Its processor is emulated (TCG), or runs on the hardware (KVM) where a machine that was booted that way really came up.
"""

from virtlab.catalogue.declaration import MODEL_DISK, Features, Platform, Reset

QEMU = Platform(
    name="qemu",
    meaning="a virtual machine with its own Linux kernel, run by QEMU",
    guests_max=None,
    vswitch=True,
    limits=("cpu", "memory", "vcpus", "pool", "balloon"),
    features=Features(
        type="in an operating system",
        virtualisation=("emulation (TCG)", "untested: hardware (KVM)", "paravirtual devices (virtio)"),
        own_kernel=True,
        migration="QEMU's own: live, pre-copy, post-copy; hot, with a pause of all of it; cold",
        snapshots="QEMU's own: of disks and of running machines; not played by virtlab",
        licence="GPL-2.0 (QEMU, Linux)",
    ),
    vnic_models=("virtio", "e1000", "e1000e"),
    disk=MODEL_DISK,
    disks=True,
    start_ns=3_000_000_000,
    moves=("pre_copy", "hot", "post_copy", "cold"),
    reset=Reset(
        "QMP system_reset: firmware and kernel begin again, and it is told its network again", boots=True
    ),
)
