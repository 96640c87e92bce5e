"""Which system calls a container may make, as an OCI runtime gets them: `seccomp.toml`, and those that depend on arguments.

A process of root's container has root's number on this machine; what keeps it inside is what the kernel lets it ask for. So
calls that only a machine's administrator needs are refused before they reach the kernel's code. A filter costs every system
call a little, which `seccomp: none` takes away; so it can be a factor. runc and crun alike compile it by libseccomp.

Source: Open Container Initiative Runtime Specification 1.0.2, config-linux.md, Seccomp.
"""

from __future__ import annotations

import platform
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

NONE = "none"
_LIST = Path(__file__).with_name("seccomp.toml")
_EPERM, _ENOSYS = 1, 38
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


def _where(action: str, name: str, index: int, comparison: str, *values: int) -> dict[str, Any]:
    argument = dict(zip(("value", "valueTwo"), values, strict=False))
    return {"names": [name], "action": action, "args": [{"index": index, "op": comparison, **argument}]}
