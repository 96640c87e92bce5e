"""Every seed that virtlab derives: a pure function of the seed above it and of what it is for, never of when.

experiment -> run -> trial -> stream of one role's end; a prediction's draw hangs on its own seed. Both arms take the
streams from here, so that equal seeds give equal arrivals on a testbed and in the simulator. The byte orders differ
because every stored Plan and dataset holds what they gave: a seed that changes is a result that cannot be repeated.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Literal


def digest(*parts: object) -> bytes:
    """SHA-256 of parts that JSON can write, the same for equal parts on every machine."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, ensure_ascii=False).encode()).digest()


def run_seed(seed: int, levels: Mapping[str, str], repetition: int) -> int:
    """The seed of one run, from the experiment's seed and what the run is, not when it runs."""
    return int.from_bytes(digest(seed, "run", dict(levels), repetition)[:8], "big") >> 1


def trial_seed(seed: int, trial: str) -> int:
    """The seed of one trial of a run."""
    return _named("big", seed, trial) >> 1


def stream_seed(seed: int, *names: str) -> int:
    """The seed of one named random stream: adding a role changes no other's draws.

    >>> stream_seed(1, "load", "client"), stream_seed(1, "load", "server")
    (6780175431090021178, 6453850361189693858)
    """
    return _named("little", seed, *names) >> 1


def service_seed(seed: int, service: str, guest: str) -> int:
    """The seed of what a service draws in one of its guests, for all roles that ask it there."""
    return stream_seed(seed, service, guest, "server")


def draw_seed(seed: int, draw: int, parameter: str) -> int:
    """The seed of one draw of a profile's parameter from its interval."""
    return _named("little", seed, draw, parameter)


def _named(order: Literal["big", "little"], *parts: int | str) -> int:
    text = "\0".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], order)
