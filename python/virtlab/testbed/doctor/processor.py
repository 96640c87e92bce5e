"""Time and processors: scheduling classes, clock source, frequency, idle states, control groups, limits of the user."""

from __future__ import annotations

import ctypes
import os
import platform
import resource
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from virtlab.testbed.finding import Finding, State
from virtlab.testbed.leader import trial

GROUP = "processors and time"
_SYS_CPU = Path("/sys/devices/system/cpu")
_SCHED_SETATTR = {"x86_64": 314, "aarch64": 274, "riscv64": 274}
_SCHED_DEADLINE = 6
_RESET_ON_FORK = 1
_SLEEPS, _SLEEP_NS = 400, 500_000


def examine() -> Iterator[Finding]:
    """Findings about processors, clocks and limits."""
    yield _cpus()
    yield _fifo()
    yield _deadline()
    yield _clock()
    yield _frequency()
    yield _idle_states()
    yield _sleep_overshoot()
    yield _control_groups()
    yield _descriptors()
    yield _memory_lock()


def _cpus() -> Finding:
    usable = sorted(os.sched_getaffinity(0))
    values: dict[str, Any] = {"usable": usable, "online": os.cpu_count()}
    if len(usable) > 1:
        return Finding(
            "cpus", GROUP, "yes", f"{len(usable)} usable; the soft switch has one of its own", values=values
        )
    says = "one usable: the soft switch and the guests share it"
    return Finding(
        "cpus", GROUP, "limited", says, "use a machine with two or more, or widen the cpuset", values=values
    )


def _fifo() -> Finding:
    tried = trial.in_child(lambda: os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1)))
    runtime = _read("/proc/sys/kernel/sched_rt_runtime_us")
    if tried.ok:
        return Finding("sched_fifo", GROUP, "yes", "the soft switch and probes stand above other processes")
    cure = "run as root, or set an rtprio limit for this user (limits.conf)"
    if os.geteuid() == 0 and runtime == "0":
        cure = "give the control group real-time runtime (cpu.rt_runtime_us)"
    says = f"refused ({tried.error}); frames and probes are late while other processes are busy"
    return Finding("sched_fifo", GROUP, "no", says, cure)


def _deadline() -> Finding:
    number = _SCHED_SETATTR.get(platform.machine())
    if number is None:
        return Finding("sched_deadline", GROUP, "untried", f"no system call number for {platform.machine()}")

    def work() -> None:
        # size, policy, flags, nice, priority, runtime, deadline, period
        attributes = struct.pack(
            "=IIQiIQQQ", 48, _SCHED_DEADLINE, _RESET_ON_FORK, 0, 0, 2_000_000, 10_000_000, 10_000_000
        )
        trial.checked(trial.libc().syscall(number, 0, ctypes.c_char_p(attributes), 0), "sched_setattr")

    tried = trial.in_child(work)
    if tried.ok:
        return Finding("sched_deadline", GROUP, "yes", "a reservation of 2 ms every 10 ms is accepted")
    return Finding(
        "sched_deadline",
        GROUP,
        "no",
        f"refused: {tried.error}",
        "run as root, on a kernel with SCHED_DEADLINE",
    )


def _clock() -> Finding:
    folder = Path("/sys/devices/system/clocksource/clocksource0")
    current, there = _read(folder / "current_clocksource"), _read(folder / "available_clocksource").split()
    begin = time.perf_counter_ns()
    for _ in range(2000):
        time.clock_gettime_ns(time.CLOCK_MONOTONIC)
    cost_ns = (time.perf_counter_ns() - begin) // 2000
    values = {"current": current, "available": there, "read_cost_ns": cost_ns}
    if not current:
        return Finding("clock_source", GROUP, "untried", "not visible here", values=values)
    fast = current in ("tsc", "kvm-clock", "arch_sys_counter", "hyperv_clocksource_tsc_page")
    state: State = "yes" if fast else "limited"
    cure = "" if fast else "boot with tsc=reliable where the processor has a constant TSC"
    return Finding(
        "clock_source", GROUP, state, f"{current}, about {cost_ns} ns a reading", cure, values=values
    )


def _frequency() -> Finding:
    governors = sorted({_read(path) for path in _SYS_CPU.glob("cpu[0-9]*/cpufreq/scaling_governor")})
    boost = _read(_SYS_CPU / "cpufreq/boost") or _inverted(_read(_SYS_CPU / "intel_pstate/no_turbo"))
    values = {"governors": governors, "boost": boost}
    if not governors:
        return Finding("frequency", GROUP, "untried", "no frequency scaling is visible here", values=values)
    if governors == ["performance"]:
        return Finding("frequency", GROUP, "yes", "fixed by the performance governor", values=values)
    says = f"scales (governor {', '.join(governors)}): idle guests answer slower"
    cure = "as root 'cpupower frequency-set -g performance'"
    return Finding("frequency", GROUP, "limited", says, cure, values=values)


def _inverted(text: str) -> str:
    return {"0": "1", "1": "0"}.get(text, "")


def _idle_states() -> Finding:
    states = [
        {"name": _read(folder / "name"), "exit_us": int(_read(folder / "latency") or 0)}
        for folder in sorted(_SYS_CPU.glob("cpu0/cpuidle/state*"))
        if _read(folder / "disable") != "1"
    ]
    values: dict[str, Any] = {"states": states, "driver": _read(_SYS_CPU / "cpuidle/current_driver")}
    if not states:
        return Finding("idle_states", GROUP, "untried", "no idle states are visible here", values=values)
    deepest = max(states, key=lambda state: int(str(state["exit_us"])))
    text = ", ".join(f"{state['name']} {state['exit_us']} us" for state in states)
    if int(str(deepest["exit_us"])) <= 10:
        return Finding("idle_states", GROUP, "yes", text, values=values)
    cure = "limit them for a run: 'idle: poll' in the file, or boot with processor.max_cstate=1"
    return Finding("idle_states", GROUP, "limited", f"{text}: waking takes that long", cure, values=values)


def sleep_overshoot_ns() -> list[int]:
    """How late each of some hundred short sleeps ended, sorted."""
    trial.without_timer_slack()
    late = []
    for _ in range(_SLEEPS):
        until = time.monotonic_ns() + _SLEEP_NS
        time.sleep(_SLEEP_NS / 1e9)
        late.append(max(time.monotonic_ns() - until, 0))
    return sorted(late)


def _sleep_overshoot() -> Finding:
    tried = trial.in_child(sleep_overshoot_ns, timeout_s=30)
    if not tried.ok:
        return Finding("sleep_overshoot", GROUP, "untried", str(tried.error))
    late = tried.value
    values = {f"p{share}_ns": late[len(late) * share // 100] for share in (50, 90, 99)}
    values["max_ns"] = late[-1]
    p50_us, p99_us, most_us = (values[name] / 1000 for name in ("p50_ns", "p99_ns", "max_ns"))
    says = f"sleeps end late by p50 {p50_us:.0f}, p99 {p99_us:.0f}, at most {most_us:.0f} us"
    if values["p99_ns"] <= 250_000:
        return Finding("sleep_overshoot", GROUP, "yes", says, values=values)
    cure = "stop what else runs; in a virtual machine give it processors of its own"
    return Finding("sleep_overshoot", GROUP, "limited", says, cure, values=values)


def _control_groups() -> Finding:
    mounts = [line.split() for line in _read("/proc/self/mounts").splitlines()]
    unified = next((mount[1] for mount in mounts if mount[2] == "cgroup2"), None)
    legacy: dict[str, str] = {}
    for mount in mounts:
        if mount[2] == "cgroup":
            for word in mount[3].split(","):
                if word in ("cpu", "cpuset", "memory", "cpuacct"):
                    legacy[word] = mount[1]
    controllers = _read(Path(unified) / "cgroup.controllers").split() if unified else []
    kind = (
        "version 2" if unified and not legacy else "hybrid" if unified else "version 1" if legacy else "none"
    )
    places = {name: path for name, path in legacy.items() if os.access(path, os.W_OK)}
    if unified and os.access(unified, os.W_OK):
        places |= dict.fromkeys(controllers, unified)
    values: dict[str, Any] = {"kind": kind, "unified": unified, "controllers": controllers, "legacy": legacy}
    values["writable"] = sorted(places)
    if {"cpu", "memory"} <= set(places):
        return Finding("control_groups", GROUP, "yes", f"{kind}: limits of CPU and memory", values=values)
    lacking = sorted({"cpu", "memory"} - set(places))
    cure = "run as root" if os.geteuid() != 0 else "mount the controllers, or run where they are writable"
    says = f"{kind}; {' and '.join(lacking)} cannot be limited here: no cpu_quota, no memory limit of guests"
    return Finding("control_groups", GROUP, "limited" if places else "no", says, cure, values=values)


def _descriptors() -> Finding:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    values = {"soft": soft, "hard": hard}
    if hard == resource.RLIM_INFINITY or hard >= 4096:
        return Finding(
            "limits.descriptors", GROUP, "yes", f"{_amount(hard)} open files (soft {soft})", values=values
        )
    says = f"{hard} open files: room for about {max(hard - 64, 0) // 4} guests"
    return Finding(
        "limits.descriptors",
        GROUP,
        "limited",
        says,
        "raise nofile in limits.conf, or 'ulimit -n'",
        values=values,
    )


def _memory_lock() -> Finding:
    names = {"memlock_bytes": resource.RLIMIT_MEMLOCK, "processes": resource.RLIMIT_NPROC}
    values = {name: resource.getrlimit(which)[1] for name, which in names.items()}
    values["rtprio"] = resource.getrlimit(resource.RLIMIT_RTPRIO)[1]
    text = f"{_amount(values['processes'])} processes, {_amount(values['memlock_bytes'])} locked bytes"
    few = values["processes"] != resource.RLIM_INFINITY and values["processes"] < 1024
    cure = "raise nproc in limits.conf" if few else ""
    return Finding("limits.processes", GROUP, "limited" if few else "yes", text, cure, values=values)


def _amount(limit: int) -> str:
    return "any number of" if limit == resource.RLIM_INFINITY else str(limit)


def _read(path: Path | str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8").strip()
    except OSError:
        return ""
