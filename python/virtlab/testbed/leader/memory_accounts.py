"""What the machine's control groups say of a container: its limits, and what it used; version 1 and version 2.

A runtime makes a group of one path in every hierarchy of version 1, or one group of version 2. These groups outlive a
SIGKILL of everything in them, so their paths are in the ledger before the runtime is started.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

CGROUP_ROOT = Path("/sys/fs/cgroup")
_KEYS_V2 = {"usage_usec": "cpu_ns", "throttled_usec": "throttled_ns"}


# File of a group -> key in it, empty where it holds one number -> counter. Version 1, then version 2.
MEMORY_FILES: Mapping[str, Mapping[str, str]] = {
    "memory.usage_in_bytes": {"": "memory_bytes"},
    "memory.max_usage_in_bytes": {"": "memory_max_bytes"},
    "memory.failcnt": {"": "memory_limit_hits"},
    "memory.current": {"": "memory_bytes"},
    "memory.peak": {"": "memory_max_bytes"},
    "memory.events": {"max": "memory_limit_hits"},
    "memory.swap.current": {"": "swap_bytes"},
}
FAULTS_V1 = {
    "total_pgfault": "page_faults",
    "total_pgmajfault": "major_page_faults",
    "total_swap": "swap_bytes",
    "total_workingset_refault_anon": "swapped_in_pages",
}
FAULTS_V2 = {
    "pgfault": "page_faults",
    "pgmajfault": "major_page_faults",
    "workingset_refault_anon": "swapped_in_pages",
}


def memory_of(group: Path) -> Iterator[tuple[str, int]]:
    """(counter, value) of a group of this kernel's, as of `memory_by`."""
    return memory_by(lambda file: _text_of(group / file))


def memory_by(read: Callable[[str], str | None]) -> Iterator[tuple[str, int]]:
    """(counter, value) of a group and all below it, whose files are read so.

    Memory now and at most, and what is in swap now; how often its limit was reached, which makes the kernel take back
    what it can; page faults, and those that had to read their page. Of version 2 for how long some task waited for
    memory (PSI), too. A group of another controller has none of these files.
    """
    for file, names in MEMORY_FILES.items():
        text = read(file)
        if text is not None and text.strip().isdigit():
            yield names.get("", ""), int(text)
        elif text is not None:
            yield from _keyed(text, names)
    stat = read("memory.stat") or ""
    yield from _keyed(stat, FAULTS_V1 if "total_pgfault " in stat else FAULTS_V2)
    yield from stalled(read("memory.pressure") or "")


def stalled(pressure: str) -> Iterator[tuple[str, int]]:
    """The time for which some task waited, of a `memory.pressure`, in ns.

    >>> list(stalled("some avg10=0.00 avg60=0.00 avg300=0.00 total=17\\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=3\\n"))
    [('memory_stalled_ns', 17000)]
    """
    for line in pressure.splitlines():
        kind, _, rest = line.partition(" ")
        if kind == "some":
            yield "memory_stalled_ns", 1000 * int(rest.rpartition("total=")[2])


def _text_of(path: Path) -> str | None:
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return None


def hierarchies(root: Path = CGROUP_ROOT) -> list[Path]:
    """Where groups can be made: the one mount of version 2, else every hierarchy of version 1 with what is beside
    it.
    """
    if (root / "cgroup.controllers").exists():
        return [root]
    return (
        sorted(path for path in root.iterdir() if path.is_dir() and not path.is_symlink())
        if root.is_dir()
        else []
    )


def accounts_for_swap(root: Path = CGROUP_ROOT) -> bool:
    """Whether the kernel bounds what a group has of swap; the first group of version 2 has no such file, others
    have.
    """
    if (root / "cgroup.controllers").exists():
        return any(True for _ in root.glob("*/memory.swap.max"))
    return (root / "memory" / "memory.memsw.limit_in_bytes").exists()


def counts_processes(root: Path = CGROUP_ROOT) -> bool:
    """Whether the kernel bounds how many processes a group has."""
    version_2 = root / "cgroup.controllers"
    if version_2.exists():
        return "pids" in version_2.read_text(encoding="ascii").split()
    return (root / "pids").is_dir()


@dataclass(frozen=True, slots=True)
class Account:
    """The control groups of one container, by path below each hierarchy."""

    path: str  # absolute, as the runtime is told
    root: Path = CGROUP_ROOT

    @property
    def version_2(self) -> bool:
        """Whether one hierarchy holds all controllers."""
        return (self.root / "cgroup.controllers").exists()

    def limits(self) -> dict[str, str]:
        """File -> value of the bounds, as the kernel has them."""
        files = (
            (("", "cpu.max"), ("", "memory.max"), ("", "memory.swap.max"), ("", "pids.max"))
            if self.version_2
            else (
                ("cpu", "cpu.cfs_quota_us"),
                ("cpu", "cpu.cfs_period_us"),
                ("memory", "memory.limit_in_bytes"),
                ("memory", "memory.memsw.limit_in_bytes"),
                ("pids", "pids.max"),
            )
        )
        found = {name: self._read(controller, name) for controller, name in files}
        return {name: text.strip() for name, text in found.items() if text is not None}

    def counters(self) -> Iterator[tuple[str, int]]:
        """(counter, value): CPU time and how long its quota held it back; memory and waits for it; kills for want of
        it.
        """
        if self.version_2:
            yield from _microseconds(self._read("", "cpu.stat") or "")
            yield from memory_by(partial(self._read, ""))
            yield from _keyed(self._read("", "memory.events") or "", {"oom_kill": "oom_kills"})
            return
        yield from self._whole("cpuacct", {"cpuacct.usage": "cpu_ns"})
        yield from _keyed(self._read("cpu", "cpu.stat") or "", {"throttled_time": "throttled_ns"})
        yield from memory_by(partial(self._read, "memory"))
        yield from _keyed(self._read("memory", "memory.oom_control") or "", {"oom_kill": "oom_kills"})

    def inside(self) -> list[str]:
        """Names of the groups right below, in whichever hierarchy has some."""
        found: set[str] = set()
        for hierarchy in hierarchies(self.root):
            group = hierarchy / self.path.lstrip("/")
            found |= {path.name for path in group.iterdir() if path.is_dir()} if group.is_dir() else set()
        return sorted(found)

    def starved(self) -> bool:
        """Whether something in it was killed because it needed more memory than it may have."""
        return dict(self.counters()).get("oom_kills", 0) > 0

    def _whole(self, controller: str, names: Mapping[str, str]) -> Iterator[tuple[str, int]]:
        for file, counter in names.items():
            text = self._read(controller, file)
            if text is not None and text.strip().isdigit():
                yield counter, int(text)

    def _read(self, controller: str, file: str) -> str | None:
        return _text_of(self.root / controller / self.path.lstrip("/") / file)


def _microseconds(text: str) -> Iterator[tuple[str, int]]:
    for counter, value in _keyed(text, _KEYS_V2):
        yield counter, value * 1000


def _keyed(text: str, names: Mapping[str, str]) -> Iterator[tuple[str, int]]:
    for line in text.splitlines():
        key, _, value = line.partition(" ")
        if key in names and value.strip().isdigit():
            yield names[key], int(value)
