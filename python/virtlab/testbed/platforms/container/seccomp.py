"""Which system calls a container may make, as an OCI runtime gets them: `seccomp.toml`, and those that depend on
arguments.

A process of root's container has root's number on this machine; what keeps it inside is what the kernel lets it ask
for. So calls that only a machine's administrator needs are refused before they reach the kernel's code. A filter costs
every system call a little, which `seccomp: none` takes away; so it can be a factor.

A runtime compiles it by libseccomp for each container, which takes as long as the rest of its work. Here the same
library compiles it once, and the agent, as a container's first process, hands it to the kernel before it does anything
else. Where that library cannot be loaded, the runtime does it.

Sources: Open Container Initiative Runtime Specification 1.0.2, config-linux.md, Seccomp; seccomp(2); seccomp_init(3),
seccomp_rule_add(3) and seccomp_export_bpf(3) of libseccomp 2.5.
"""

from __future__ import annotations

import ctypes
import os
import platform
import tomllib
from errno import EEXIST
from functools import cache
from pathlib import Path
from typing import Any

NONE = "none"
_LIST = Path(__file__).with_name("seccomp.toml")
_EPERM, _ENOSYS = 1, 38
_ALLOWING, _REFUSING = 0x7FFF_0000, 0x0005_0000  # SCMP_ACT_ALLOW, SCMP_ACT_ERRNO(0)
_COMPARISONS = {"SCMP_CMP_NE": 1, "SCMP_CMP_EQ": 4, "SCMP_CMP_MASKED_EQ": 7}
_NO_SYSTEM_CALL = -1  # __NR_SCMP_ERROR
_ALLOW, _REFUSE = "SCMP_ACT_ALLOW", "SCMP_ACT_ERRNO"
_ARCHITECTURES = {
    "x86_64": ["SCMP_ARCH_X86_64", "SCMP_ARCH_X86"],
    "aarch64": ["SCMP_ARCH_AARCH64", "SCMP_ARCH_ARM"],
}
_NEW_NAMESPACES = 0x7E02_0000  # CLONE_NEW* of clone(2), linux/sched.h
_VSOCK = 40  # AF_VSOCK: it leads out of the network namespace, to the hypervisor
_PERSONALITIES = (
    0,
    0x8,
    0x20000,
    0x20008,
    0xFFFF_FFFF,
)  # Linux's own, 32 bits, an older version's name; asking


@cache
def profile(machine: str = "") -> dict[str, Any]:
    """`linux.seccomp` of a bundle, for a machine of that architecture (this one's)."""
    said = tomllib.loads(_LIST.read_text(encoding="utf-8"))
    allowed = sorted(name for names in said["allowed"].values() for name in names.split())
    found: dict[str, Any] = {
        "defaultAction": _REFUSE,
        "defaultErrnoRet": _ENOSYS,
        "syscalls": [
            {"names": allowed, "action": _ALLOW},
            {"names": said["refused"].split(), "action": _REFUSE, "errnoRet": _EPERM},
            _where(_ALLOW, "socket", 0, "SCMP_CMP_NE", _VSOCK),
            _where(_ALLOW, "clone", 0, "SCMP_CMP_MASKED_EQ", _NEW_NAMESPACES, 0),
            *(_where(_ALLOW, "personality", 0, "SCMP_CMP_EQ", each) for each in _PERSONALITIES),
        ],
    }
    # Other architectures than these: the runtime takes the machine's own.
    architectures = _ARCHITECTURES.get(machine or platform.machine())
    return found | ({"architectures": architectures} if architectures else {})


@cache
def program() -> bytes | None:
    """The filter of this machine's architecture as the kernel takes it, instructions of 8 bytes; None where libseccomp
    is not here, or does not know what is in the profile.
    """
    try:
        library = ctypes.CDLL("libseccomp.so.2")
    except OSError:
        return None
    said = profile()
    library.seccomp_init.restype = ctypes.c_void_p
    library.seccomp_init.argtypes = [ctypes.c_uint32]
    context = library.seccomp_init(_action(said["defaultAction"], said["defaultErrnoRet"]))
    if context is None:
        return None
    filtering = ctypes.c_void_p(context)
    try:
        return _exported(library, filtering) if _is_filled(library, filtering, said) else None
    finally:
        library.seccomp_release(filtering)


def _is_filled(library: ctypes.CDLL, filtering: ctypes.c_void_p, said: dict[str, Any]) -> bool:
    """Adds all architectures and rules; False if one was refused. Calls that no architecture has are passed over."""
    for name in said.get("architectures", []):
        token = library.seccomp_arch_resolve_name(name.removeprefix("SCMP_ARCH_").lower().encode())
        if not token or library.seccomp_arch_add(filtering, ctypes.c_uint32(token)) not in {0, -EEXIST}:
            return False
    for rule in said["syscalls"]:
        action = ctypes.c_uint32(_action(rule["action"], rule.get("errnoRet", 0)))
        conditions = [
            _Condition(each["index"], _COMPARISONS[each["op"]], each["value"], each.get("valueTwo", 0))
            for each in rule.get("args", [])
        ]
        array = (_Condition * len(conditions))(*conditions)
        for name in rule["names"]:
            number = library.seccomp_syscall_resolve_name(name.encode())
            if number == _NO_SYSTEM_CALL:
                continue
            if library.seccomp_rule_add_array(filtering, action, number, len(conditions), array) != 0:
                return False
    return True


def _exported(library: ctypes.CDLL, filtering: ctypes.c_void_p) -> bytes | None:
    with os.fdopen(os.memfd_create("virtlab-filter"), "rb") as file:
        if library.seccomp_export_bpf(filtering, file.fileno()) != 0:
            return None
        file.seek(0)
        return file.read()


def _action(name: str, errno: int) -> int:
    return _ALLOWING if name == _ALLOW else _REFUSING | errno


class _Condition(ctypes.Structure):
    """struct scmp_arg_cmp."""

    _fields_ = (
        ("arg", ctypes.c_uint),
        ("op", ctypes.c_int),
        ("datum_a", ctypes.c_uint64),
        ("datum_b", ctypes.c_uint64),
    )


def _where(action: str, name: str, index: int, comparison: str, *values: int) -> dict[str, Any]:
    argument = dict(zip(("value", "valueTwo"), values, strict=False))
    return {"names": [name], "action": action, "args": [{"index": index, "op": comparison, **argument}]}
