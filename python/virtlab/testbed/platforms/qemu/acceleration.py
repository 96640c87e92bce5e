"""Whether guests run on the hardware: only where a small machine that was booted that way came up.

The presence of /dev/kvm says nothing, and QEMU never falls back by itself. A trial may take as long as its time-out, so
its outcome is kept for the boot of this machine, this kernel image and this QEMU.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from pathlib import Path

from virtlab.errors import MachineError
from virtlab.testbed.image import folder
from virtlab.testbed.leader import trial
from virtlab.testbed.leader.ledger import boot_id
from virtlab.testbed.platforms.qemu import kvm
from virtlab.testbed.platforms.qemu.command import PROGRAM

FORCED = "VIRTLAB_ACCELERATOR"
ACCELERATORS = ("kvm", "tcg")
# What QEMU 7.2 holds beside a machine's memory where it emulates processors, and no kernel can take back: 66 to 69 MiB
# of machines of 96 and 256 MiB with 1 and 4 virtual processors, 32 of them translated code. Another 30 are of files.
EMULATION_BYTES = 64 << 20


def accelerator(kernel: Path) -> str:
    """`kvm` or `tcg`. $VIRTLAB_ACCELERATOR decides without a trial; MachineError where it names neither."""
    forced = os.environ.get(FORCED)
    if forced and forced not in ACCELERATORS:
        raise MachineError(f"${FORCED}", f"'{forced}' is not an accelerator", "write kvm or tcg, or nothing")
    if forced:
        return forced
    if not os.access(kvm.DEVICE, os.R_OK | os.W_OK):
        return "tcg"
    key = hashlib.sha256(
        f"{boot_id()} {os.getuid()} {kernel.resolve()} {shutil.which(PROGRAM)}".encode()
    ).hexdigest()
    place = folder() / f"kvm-{key[:16]}.json"
    try:
        return str(json.loads(place.read_text(encoding="utf-8"))["accelerator"])
    except (OSError, ValueError, KeyError):
        pass
    found = "kvm" if _boots(kernel) else "tcg"
    _forget_other_boots()
    with contextlib.suppress(OSError):
        place.write_text(json.dumps({"accelerator": found, "boot_id": boot_id()}), encoding="utf-8")
    return found


def own_bytes() -> int:
    """What QEMU needs for itself of each machine; 0 where the hardware may run guests, of which nothing was
    measured.
    """
    forced = os.environ.get(FORCED)
    emulated = forced == "tcg" if forced else not os.access(kvm.DEVICE, os.R_OK | os.W_OK)
    return EMULATION_BYTES if emulated else 0


def _forget_other_boots() -> None:
    for old in folder().glob("kvm-*.json"):
        try:
            of = json.loads(old.read_text(encoding="utf-8")).get("boot_id")
        except (OSError, ValueError):
            of = None
        if of != boot_id():
            old.unlink(missing_ok=True)


def _boots(kernel: Path) -> bool:
    """Whether a processor runs, a machine boots as fast as by emulation, and a kernel prints."""
    if not trial.in_child(kvm.run_processor, timeout_s=5).ok:
        return False
    seconds, _ = kvm.boot(PROGRAM, "kvm")
    if seconds is None or seconds > kvm.SLOW_S:
        return False
    return kvm.boot_kernel(PROGRAM, "kvm", kernel)[0] is not None
