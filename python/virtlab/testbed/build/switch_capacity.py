"""What the soft switch holds on this machine, as measured here and kept: frames per second, and the link that follows.

A link of rate R that is 80 % busy both ways brings 2 * 0.8 * R / (1538 * 8) full frames per second, all through the one
core of the soft switch. So the frames per second that it passed in a flood give the fastest link. The best measurement
is kept in the user's cache, for this processor, kernel and version. A machine that is busy measures too little, so
links up to a careful figure are never refused; where they are too fast all the same, late departures taint the run.
"""

from __future__ import annotations

import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from virtlab.testbed.build.machine import fingerprint
from virtlab.units.ethernet import FULL_FRAME_WIRE_BYTES
from virtlab.units.factors import BITS_PER_BYTE

BUSY_BOTH_WAYS = 2 * 0.8
CAREFUL_BIT_PER_S = 1_000_000_000  # what one core of a small machine held
FILE_NAME = "soft-switch.json"


@dataclass(frozen=True, slots=True)
class Capacity:
    """Frames per second that it passed, 64 B and 1518 B long, and the delay that it added beyond its model."""

    small_pps: int
    full_pps: int
    added_delay_p50_ns: int | None = None
    added_delay_p99_ns: int | None = None

    def rate_bit_per_s(self) -> int:
        """The fastest link that it holds.

        >>> Capacity(small_pps=400_000, full_pps=260_000).rate_bit_per_s()
        1999400000
        """
        return int(self.full_pps / BUSY_BOTH_WAYS * FULL_FRAME_WIRE_BYTES * BITS_PER_BYTE)


def folder() -> Path:
    """`virtlab` in the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(cache) if cache else Path.home() / ".cache") / "virtlab"


def _machine() -> dict[str, str]:
    known = fingerprint()
    return {key: known[key] for key in ("virtlab", "kernel", "machine", "cpu", "cpus", "user")}


def keep(capacity: Capacity) -> None:
    """Writes it down, unless a better one is there; a cache that cannot be written is no mistake."""
    before = stored()
    if before is not None and before.full_pps >= capacity.full_pps:
        return
    with suppress(OSError):
        folder().mkdir(parents=True, exist_ok=True)
        place = folder() / FILE_NAME
        new = place.with_suffix(f".{os.getpid()}")
        new.write_text(json.dumps({"machine": _machine(), **asdict(capacity)}), encoding="utf-8")
        new.replace(place)


def stored() -> Capacity | None:
    """The capacity measured on this machine, or None."""
    try:
        said = json.loads((folder() / FILE_NAME).read_text(encoding="utf-8"))
        if said.pop("machine") != _machine():
            return None
        return Capacity(**said)
    except (OSError, ValueError, KeyError, TypeError):
        return None


def limit() -> tuple[int, str]:
    """The fastest link, and where the figure is from."""
    found = stored()
    if found is None or found.rate_bit_per_s() < CAREFUL_BIT_PER_S:
        return CAREFUL_BIT_PER_S, "what a small machine holds; 'virtlab doctor' measures this one"
    return found.rate_bit_per_s(), f"it passed {found.full_pps} full frames/s here"
