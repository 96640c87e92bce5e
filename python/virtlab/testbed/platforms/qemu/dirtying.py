"""How fast virtual machines dirty their memory, as QEMU measures it: by sampling pages, or by KVM's dirty ring.

QEMU takes some pages of a machine at random, keeps a checksum of each, and looks after a while how many have changed
(`calc-dirty-rate`, mode page-sampling). That works under emulation, too, and takes a second at least; it tells how many
different bytes were written in that time per second, so at most the working set. Where KVM runs a machine and notes
each page that is written to in a ring (KVM_CAP_DIRTY_LOG_RING), QEMU counts those instead (mode dirty-ring): all pages,
and not some. Which of both it was is a condition of the run. (The rate per round of a migration, `dirty_rate`, is
another method; so is what a writer of memory counts itself.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from virtlab.catalogue.collected import DIRTY_RATE
from virtlab.lazy import np
from virtlab.plan import Columns, SeriesRequest
from virtlab.testbed.platforms.qemu.monitor import Monitor
from virtlab.units.factors import NS_PER_S

METRIC = "sampled_dirty_rate"
PAGES_PER_GIB = 16_384  # QEMU's largest; its own choice, 512, is 128 pages of a machine of 256 MiB
RING_ENTRIES = 4096  # of QEMU's own example; a power of two
METHOD = f"QEMU's page sampling, {PAGES_PER_GIB} pages per GiB"
_MIB = 1 << 20


def ring_of(accelerator: str, most: int) -> int:
    """Entries of the ring that a machine gets whose dirty rate is wanted, of so many at most; 0: its pages are sampled.

    >>> ring_of("kvm", 65536), ring_of("kvm", 1024), ring_of("tcg", 65536)
    (4096, 0, 0)
    """
    return RING_ENTRIES if accelerator == "kvm" and most >= RING_ENTRIES else 0


def method_of(ring: int) -> str:
    """By which a machine's dirty rate is measured, as the run's conditions say it.

    >>> method_of(4096)
    "KVM's dirty ring, 4096 pages of each processor"
    """
    return f"KVM's dirty ring, {ring} pages of each processor" if ring else METHOD


@dataclass(slots=True)
class Dirtying:
    """The measurements of a session."""

    now: Callable[[], int]
    rings: Callable[[str], int] = lambda _: 0  # entries of a machine's ring
    seconds: int = 0  # of one measurement; 0: none is wanted
    _due: dict[str, int] = field(default_factory=dict)  # machine -> when its measurement will be over
    _rows: list[tuple[int, str, float]] = field(default_factory=list)

    def begin(self, wanted: Iterable[SeriesRequest]) -> None:
        """From now on machines are measured, if the series is wanted."""
        periods = [each.every_ns for each in wanted if each.source == DIRTY_RATE.name]
        self.seconds = max(1, -(-min(periods) // NS_PER_S)) if periods else 0

    def look(self, monitors: Mapping[str, Monitor]) -> None:
        """Takes what was measured of these machines, and begins again; of those that are left out nothing is asked
        now.
        """
        now_ns = self.now()
        for name, monitor in monitors.items() if self.seconds else ():
            if now_ns < self._due.get(name, 0):
                continue
            said = monitor.execute("query-dirty-rate")
            if said["status"] == "measuring":
                continue
            if said["status"] == "measured" and name in self._due and int(said["dirty-rate"]) >= 0:
                self._rows.append((now_ns, f"guests.{name}", float(said["dirty-rate"]) * _MIB))
            method: dict[str, object] = {"mode": "page-sampling", "sample-pages": PAGES_PER_GIB}
            if self.rings(name):
                method = {"mode": "dirty-ring"}
            monitor.execute("calc-dirty-rate", {"calc-time": self.seconds, **method})
            self._due[name] = now_ns + self.seconds * NS_PER_S

    def forget(self, name: str) -> None:
        """A machine continues in another process, where nothing was measured yet."""
        self._due.pop(name, None)

    def end(self) -> Iterator[Columns]:
        """The rows."""
        rows, self._rows = self._rows, []
        self._due.clear()
        if rows:
            yield {
                "t_ns": np.array([t_ns for t_ns, _, _ in rows], dtype=np.int64),
                "entity": np.array([entity for _, entity, _ in rows], dtype=object),
                "metric": np.array([METRIC] * len(rows), dtype=object),
                "value": np.array([value for _, _, value in rows], dtype=np.float64),
            }
