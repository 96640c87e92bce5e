"""Whether hardware virtualisation works, by running a guest; the presence of /dev/kvm says nothing.

First a virtual processor runs a few bytes of real-mode code through the kernel's interface. Then, with QEMU, a machine
boots from a disk of one sector, through firmware, and where this machine has a readable Linux kernel, that one until it
prints. On some nested hypervisors the first works, the second takes longer than by emulation, and the third hangs.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import platform
import select
import shutil
import struct
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from virtlab.testbed.build.moves import CURE_USERFAULTS, userfaults_missing
from virtlab.testbed.finding import Finding
from virtlab.testbed.leader import trial
from virtlab.testbed.leader.environment import of_program

GROUP = "virtual machines"
DEVICE = Path("/dev/kvm")
BOOT_TIMEOUT_S = 10.0
SLOW_S = 4.0  # emulation needs a fraction of that
_CURE = "use emulation (accel=tcg), or a host whose KVM works"

_CREATE_VM, _VCPU_MMAP_BYTES, _CREATE_VCPU, _RUN = 0xAE01, 0xAE04, 0xAE41, 0xAE80
_CHECK_EXTENSION, _DIRTY_LOG_RING, _RING_ENTRY_BYTES = 0xAE03, 192, 16
_SET_MEMORY, _SET_REGISTERS = 0x4020AE46, 0x4090AE82
_GET_SPECIAL, _SET_SPECIAL, _SPECIAL_BYTES = 0x8138AE83, 0x4138AE84, 312
_EXIT_IO = 2
_PORT, _VALUE = 0xF4, 0x2A
# mov al, VALUE; out PORT, al; hlt; jump back to hlt
_CODE = bytes([0xB0, _VALUE, 0xE6, _PORT, 0xF4, 0xEB, 0xFD])
_LOAD_ADDRESS = 0x1000
# What QEMU's isa-debug-exit ends with after VALUE was written to it.
_EXIT_CODE = _VALUE << 1 | 1


def examine() -> Iterator[Finding]:
    """KVM, and QEMU by its own emulation."""
    qemu = shutil.which("qemu-system-x86_64") if platform.machine() == "x86_64" else None
    yield _kvm(qemu)
    yield _emulation(qemu)
    yield _post_copy()


def _post_copy() -> Finding:
    """Whether a machine that moves can continue before its memory has arrived."""
    name, why = "migration.post_copy", userfaults_missing()
    if why is not None:
        return Finding(name, GROUP, "no", why, CURE_USERFAULTS)
    return Finding(name, GROUP, "yes", "a machine that moves may fetch its pages (userfaultfd)")


def _kvm(qemu: str | None) -> Finding:
    name = "kvm"
    if platform.machine() != "x86_64":
        return Finding(
            name, GROUP, "untried", f"the trial guest is x86_64 code, this is {platform.machine()}"
        )
    if not DEVICE.exists():
        cure = "load kvm_intel or kvm_amd; in a virtual machine its host must allow nested virtualisation"
        return Finding(name, GROUP, "no", "there is no /dev/kvm", cure)
    processor = trial.in_child(run_processor, timeout_s=5)
    if not processor.ok:
        cure = (
            "join the group kvm" if processor.errno == 13 else "allow nested virtualisation, or use emulation"
        )
        return Finding(
            name, GROUP, "no", f"/dev/kvm is there, a processor does not run: {processor.error}", cure
        )
    if qemu is None:
        says = "a virtual processor runs; no machine was booted, because qemu-system-x86_64 is missing"
        return Finding(name, GROUP, "untried", says, "install qemu-system-x86 and ask again")
    seconds, why = boot(qemu, "kvm")
    if seconds is None:
        says = f"a virtual processor runs, a machine does not boot: {why}"
        return Finding(name, GROUP, "no", says, _CURE)
    values: dict[str, Any] = {"boot_s": seconds}
    if seconds > SLOW_S:
        says = f"a machine needs {seconds:.1f} s to boot from one sector: slower than emulation"
        return Finding(name, GROUP, "no", says, _CURE, values=values)
    kernel = next(iter(kernels()), None)
    if kernel is None:
        says = (
            "a machine boots from one sector; no Linux kernel was booted, because none can be read in /boot"
        )
        return Finding(
            name, GROUP, "limited", says, "install a kernel package to have it tried", values=values
        )
    seconds, why = boot_kernel(qemu, "kvm", kernel)
    if seconds is None:
        return Finding(name, GROUP, "no", f"{kernel} does not boot: {why}", _CURE, values=values)
    values |= {"kernel": str(kernel), "kernel_prints_s": seconds}
    return Finding(
        name, GROUP, "yes", f"a Linux kernel boots, and prints after {seconds:.1f} s", values=values
    )


def _emulation(qemu: str | None) -> Finding:
    name = "qemu"
    if qemu is None:
        return Finding(name, GROUP, "no", "qemu-system-x86_64 is missing", "install qemu-system-x86")
    version = subprocess.run(
        [qemu, "--version"], capture_output=True, text=True, check=False, env=of_program()
    ).stdout.splitlines()
    seconds, why = boot(qemu, "tcg")
    values: dict[str, Any] = {"version": version[0] if version else "", "boot_s": seconds}
    if seconds is not None:
        return Finding(
            name, GROUP, "yes", f"a machine boots by emulation; {values['version']}", values=values
        )
    return Finding(
        name, GROUP, "no", f"no machine boots by emulation: {why}", "install seabios", values=values
    )


def kernels() -> list[Path]:
    """Linux kernels that this user can read, newest name first."""
    found = [path for path in Path("/boot").glob("vmlinuz*") if path.is_file() and os.access(path, os.R_OK)]
    return sorted(found, reverse=True)


def dirty_ring_entries() -> int:
    """How many pages the kernel notes, at most, that a virtual processor writes to (KVM_CAP_DIRTY_LOG_RING); 0 where it
    notes none, or where KVM is not to be had.
    """
    try:
        device = os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return 0
    try:
        return max(0, int(fcntl.ioctl(device, _CHECK_EXTENSION, _DIRTY_LOG_RING))) // _RING_ENTRY_BYTES
    except OSError:
        return 0
    finally:
        os.close(device)


def run_processor() -> None:
    """Lets a virtual processor write a value to a port. OSError when it cannot; may hang, so call it in a child."""
    device = os.open(DEVICE, os.O_RDWR | os.O_CLOEXEC)
    machine = fcntl.ioctl(device, _CREATE_VM, 0)
    memory = mmap.mmap(-1, 1 << 16)
    memory[_LOAD_ADDRESS : _LOAD_ADDRESS + len(_CODE)] = _CODE
    import ctypes

    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    fcntl.ioctl(machine, _SET_MEMORY, struct.pack("=IIQQQ", 0, 0, 0, len(memory), address))
    processor = fcntl.ioctl(machine, _CREATE_VCPU, 0)
    state = mmap.mmap(processor, fcntl.ioctl(device, _VCPU_MMAP_BYTES, 0))
    special = bytearray(_SPECIAL_BYTES)
    fcntl.ioctl(processor, _GET_SPECIAL, special)
    special[0:8] = bytes(8)  # the code segment's base,
    special[12:14] = bytes(2)  # and its selector
    fcntl.ioctl(processor, _SET_SPECIAL, bytes(special))
    registers = [0] * 18
    registers[16], registers[17] = _LOAD_ADDRESS, 2
    fcntl.ioctl(processor, _SET_REGISTERS, struct.pack("=18Q", *registers))
    fcntl.ioctl(processor, _RUN, 0)
    (reason,) = struct.unpack_from("=I", state, 8)
    _, _, port, _, offset = struct.unpack_from("=BBHIQ", state, 32)
    if reason != _EXIT_IO or port != _PORT or state[offset] != _VALUE:
        raise OSError(0, f"the processor stopped for reason {reason}")


def boot(qemu: str, accelerator: str) -> tuple[float | None, str]:
    """Boots a machine whose disk is one sector that ends it: seconds until then, or None and why it did not."""
    disk = os.memfd_create("disk")  # in memory: however this process ends, nothing of it stays
    try:
        os.write(disk, _CODE.ljust(510, b"\0") + b"\x55\xaa")
        command = [*_machine(qemu, accelerator), "-device", f"isa-debug-exit,iobase={_PORT:#x},iosize=1"]
        command += ["-drive", f"file=/proc/self/fd/{disk},format=raw,if=ide"]
        begin = time.monotonic()
        done = _run(command, disk)
    except subprocess.TimeoutExpired:
        return None, f"nothing within {BOOT_TIMEOUT_S:g} s"
    finally:
        os.close(disk)
    if done.returncode == _EXIT_CODE:
        return time.monotonic() - begin, ""
    words = done.stderr.decode(errors="replace").strip().splitlines()
    return None, words[-1] if words else f"it ended with {done.returncode}"


def boot_kernel(qemu: str, accelerator: str, kernel: Path) -> tuple[float | None, str]:
    """Boots a Linux kernel without a disk: seconds until it printed something, or None and why it did not."""
    command = [*_machine(qemu, accelerator), "-serial", "stdio", "-no-reboot", "-kernel", str(kernel)]
    command += ["-append", "console=ttyS0 panic=-1"]
    begin = time.monotonic()
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=of_program()
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        said = b""
        while b"Linux version" not in said:
            left = begin + BOOT_TIMEOUT_S - time.monotonic()
            if left <= 0 or not select.select([process.stdout], [], [], left)[0]:
                return None, f"it printed nothing within {BOOT_TIMEOUT_S:g} s"
            chunk = os.read(process.stdout.fileno(), 4096)
            if not chunk:
                words = process.stderr.read().decode(errors="replace").strip().splitlines()
                return None, words[-1] if words else "it ended without a word"
            said += chunk
        return time.monotonic() - begin, ""
    finally:
        process.kill()
        process.communicate()


def _machine(qemu: str, accelerator: str) -> list[str]:
    command = [
        *_tied(),
        qemu,
        "-machine",
        f"pc,accel={accelerator}",
        "-m",
        "128",
        "-nodefaults",
        "-no-user-config",
    ]
    return [*command, "-display", "none"]


def _tied() -> list[str]:
    """Ends a trial with the process that started it, however that ends; nothing where setpriv is missing."""
    program = shutil.which("setpriv")
    return [program, "--pdeathsig", "KILL"] if program is not None else []


def _run(command: list[str], *descriptors: int) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(
        command, capture_output=True, timeout=BOOT_TIMEOUT_S, check=False, stdin=subprocess.DEVNULL, pass_fds=descriptors,
        env=of_program(),
    )  # fmt: skip
