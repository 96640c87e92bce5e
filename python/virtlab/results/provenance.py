"""What a result was measured on: machine, kernel, CPU, clock, versions.

Named facts only: no dump of the environment, no user name, no path. `anonymous` also leaves out what names
the machine (host name, machine id) and shortens the boot id to a digest that still
distinguishes two boots.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.metadata
import os
import platform
import time
from collections.abc import Mapping
from pathlib import Path

from virtlab import __version__

NAMING = frozenset({"host", "host_name", "hostname", "machine_id", "node"})
PACKAGES = ("duckdb", "numpy", "pydantic", "scipy")


def _read(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip() or None
    except OSError:
        return None


def _cpu_model() -> str | None:
    for line in (_read("/proc/cpuinfo") or "").splitlines():
        key, _, value = line.partition(":")
        if key.strip() in {"model name", "Model", "cpu model"}:
            return value.strip()
    return None


def _memory_bytes() -> int | None:
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (ValueError, OSError):
        return None


def _distribution() -> str | None:
    try:
        return platform.freedesktop_os_release().get("PRETTY_NAME")
    except OSError:
        return None


def conditions(*, anonymous: bool = False) -> dict[str, str]:
    """What can change between two runs on one machine: boot, kernel, clock source, governor, load.

    Unknown is left out. Looked up at most once a second: a run may be a matter of milliseconds.
    """
    return dict(_conditions(anonymous, int(time.monotonic())))


@functools.lru_cache(maxsize=2)
def _conditions(anonymous: bool, _second: int) -> dict[str, str]:
    boot = _read("/proc/sys/kernel/random/boot_id")
    if boot and anonymous:
        boot = hashlib.sha256(boot.encode()).hexdigest()[:12]
    facts = {
        "boot_id": boot,
        "kernel": platform.release(),
        "clock_source": _read("/sys/devices/system/clocksource/clocksource0/current_clocksource"),
        "governor": _read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"),
        "load_average": (_read("/proc/loadavg") or "").split(" ")[0] or None,
        "virtlab": __version__,
    }
    return {name: value for name, value in facts.items() if value is not None}


def machine(*, anonymous: bool = False) -> dict[str, str | int]:
    """What stays the same while the machine does. Unknown is left out."""
    facts: dict[str, str | int | None] = {
        "host_name": platform.node(),
        "machine_id": _read("/etc/machine-id"),
        "architecture": platform.machine(),
        "kernel": platform.release(),
        "kernel_build": platform.version(),
        "distribution": _distribution(),
        "cpu": _cpu_model(),
        "cpus": os.cpu_count(),
        "memory_bytes": _memory_bytes(),
    }
    return {k: v for k, v in facts.items() if v is not None and not (anonymous and k in NAMING)}


def versions() -> dict[str, str]:
    """Versions of what computes and stores the numbers."""
    return {"virtlab": __version__, "python": platform.python_version(), **_package_versions()}


@functools.cache
def _package_versions() -> Mapping[str, str]:
    """As they are installed, which a process reads once: each is a search of folders and a parsed file."""
    found = {}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def without_names(facts: Mapping[str, str], *, anonymous: bool) -> dict[str, str]:
    """A backend's fingerprint, without what names the machine when asked."""
    return {k: v for k, v in facts.items() if not (anonymous and k in NAMING)}
