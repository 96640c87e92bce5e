"""Seeds of queue disciplines that draw at random where virtlab plays them: of each direction of a link its own
stream.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from virtlab.catalogue import QDISCS
from virtlab.plan.seeds import stream_seed


def draws(queue: Mapping[str, Any]) -> bool:
    """Whether a queue, as the arms write it, draws at random."""
    return queue["kind"] in QDISCS and QDISCS[queue["kind"]].draws


def seeded(queue: dict[str, Any], seed: int, link: str, direction: str) -> dict[str, Any]:
    """The queue with the seed of its draws; one that does not draw as it is."""
    if not draws(queue):
        return queue
    own = stream_seed(seed, queue["kind"], link, direction)
    return {**queue, "parameters": {**queue.get("parameters", {}), "seed": own}}
