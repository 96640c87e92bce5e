"""A guest as `xl` reads it: a configuration file in the syntax of xl.cfg(5). Pure.

Guests are paravirtualised (`type = "pv"`): no device is emulated for them, so domain 0 needs no QEMU. Whatever ends
a guest also removes it, and its console ends with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from virtlab.testbed.image.initramfs import LOAD
from virtlab.testbed.image.xen import GUEST_INITRAMFS, GUEST_KERNEL, PORTS, SCRIPTS

MEMORY_BYTES = 128 << 20  # of a guest that says nothing
MIB = 1 << 20
_COMMAND_LINE = (
    "console=hvc0",
    "quiet",
    "panic=-1",
    "nokaslr",
    "mitigations=off",
    "audit=0",
    f"{LOAD}=xen_netfront",
)


@dataclass(frozen=True, slots=True)
class Domain:
    """What is asked of xl. `macs`: one per vNIC, in their order."""

    name: str
    vcpus: int
    memory_bytes: int
    macs: Sequence[str]

    def text(self) -> str:
        """The configuration file."""
        ports = ", ".join(f'"mac={mac},script=/{SCRIPTS["port"]}"' for mac in self.macs)
        lines = [
            f'name = "{self.name}"',
            'type = "pv"',
            f'kernel = "{GUEST_KERNEL}"',
            f'ramdisk = "{GUEST_INITRAMFS}"',
            f'extra = "{" ".join((*_COMMAND_LINE, f"{PORTS}={len(self.macs)}"))}"',
            f"memory = {-(-self.memory_bytes // MIB)}",
            f"vcpus = {self.vcpus}",
            f"vif = [ {ports} ]",
            *(f'on_{event} = "destroy"' for event in ("poweroff", "reboot", "crash", "watchdog")),
        ]
        return "\n".join(lines) + "\n"
