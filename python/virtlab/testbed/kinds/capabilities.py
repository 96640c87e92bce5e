"""Capabilities of Linux that a container of root has, and which of them this machine's root can give."""

from __future__ import annotations

# What container engines give by default, and what probes need of their own network: raw sockets, large receive buffers,
# ring sockets; and real-time priorities for tasks with deadlines.
CAPABILITIES = (
    "CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID", "CAP_SETUID",
    "CAP_SETFCAP", "CAP_SETPCAP", "CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE",
    "CAP_NET_ADMIN", "CAP_SYS_NICE", "CAP_IPC_LOCK",
)  # fmt: skip
_NUMBERS = {
    "CAP_CHOWN": 0, "CAP_DAC_OVERRIDE": 1, "CAP_FOWNER": 3, "CAP_FSETID": 4, "CAP_KILL": 5, "CAP_SETGID": 6, "CAP_SETUID": 7,
    "CAP_SETPCAP": 8, "CAP_NET_BIND_SERVICE": 10, "CAP_NET_ADMIN": 12, "CAP_NET_RAW": 13, "CAP_IPC_LOCK": 14,
    "CAP_SYS_CHROOT": 18, "CAP_SYS_NICE": 23, "CAP_MKNOD": 27, "CAP_AUDIT_WRITE": 29, "CAP_SETFCAP": 31,
}  # fmt: skip


def allowed(status: str) -> tuple[str, ...]:
    """Capabilities of the list that this machine's root has at all, by `CapBnd` of /proc/self/status.

    >>> allowed("Name:\\tx\\nCapBnd:\\t0000000000003000\\n")
    ('CAP_NET_RAW', 'CAP_NET_ADMIN')
    """
    words = next((line.split()[1] for line in status.splitlines() if line.startswith("CapBnd:")), "0")
    bits = int(words, 16)
    return tuple(name for name in CAPABILITIES if bits >> _NUMBERS[name] & 1)
