"""How busy the processors of a store's nodes and proxies are in the simulator: what each heard, times what that costs.
A node that works for a share of the time is busy for that share, and one that costs nothing has no series.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest
from tests.contract.test_backend_contract import Kept
from tests.theory.simulated import Values, parsed, simulated
from tests.theory.test_simulated_stores import LOOKUPS, MS, world

from virtlab.simulator.session import unsampled

EVERY_NS = MS
COUNT = 40
NODE_NS, PROXY_NS = 100_000, 50_000


def sampled(values: Values) -> Values:
    """With a series of the processors of guests."""
    values["collect"]["series"] = [{"source": "guest.cpu", "every_ns": EVERY_NS}]
    return values


def used_ns(kept: Kept) -> dict[str, float]:
    """By guest, the processor time that all samples of `cpu` together say was used."""
    found: dict[str, float] = {}
    for block in kept.blocks.get(("series", "series/1"), []):
        for entity, metric, value in zip(block["entity"], block["metric"], block["value"], strict=True):
            assert metric == "cpu"
            assert 0 <= value <= 1
            found[str(entity)] = found.get(str(entity), 0.0) + float(value) * EVERY_NS
    return found


@pytest.mark.parametrize(
    ("nodes", "proxies", "store", "messages"),
    [
        pytest.param(1, 0, LOOKUPS["elastic_hash"], {"n0": 1}, id="one-write-each"),
        pytest.param(1, 1, {"written_by": "proxy", **LOOKUPS["elastic_hash"]}, {"n0": 1, "p0": 2}, id="proxy"),
        pytest.param(
            4, 0, {"copies": 4, "write_quorum": 4, **LOOKUPS["multicast"]}, dict.fromkeys(("n0", "n1", "n2", "n3"), 2),
            id="question-and-copy",
        ),
    ],
)  # fmt: skip
def test_a_processor_is_busy_for_what_its_messages_cost(
    nodes: int, proxies: int, store: Values, messages: Mapping[str, int]
) -> None:
    costs = {"node_ns": NODE_NS, **({"proxy_ns": PROXY_NS} if proxies else {})}
    outcome, kept = simulated(sampled(world(nodes, store | costs, proxies=proxies, count=COUNT)))
    assert outcome.status == "ok", outcome.reasons
    each = {guest: PROXY_NS if guest.startswith("p") else NODE_NS for guest in messages}
    assert used_ns(kept) == pytest.approx(
        {f"guests.{guest}": COUNT * many * each[guest] for guest, many in messages.items()}
    )


def test_a_node_that_has_always_something_to_hear_is_busy_all_the_time() -> None:
    costs = {"node_ns": MS, "ack": "memory", "cache_bytes": 1 << 30, **LOOKUPS["elastic_hash"]}
    outcome, kept = simulated(sampled(world(1, costs, threads=16, count=400)))
    assert outcome.status == "ok", outcome.reasons
    blocks = kept.blocks["series", "series/1"]
    shares = np.concatenate([block["value"] for block in blocks])
    assert shares[10:390] == pytest.approx(np.ones(380))


def test_where_messages_take_no_time_the_series_is_missing_and_not_zero() -> None:
    values = sampled(world(1, LOOKUPS["elastic_hash"]))
    assert unsampled(parsed(values)) == ["series guest.cpu: an ideal platform has none to sample"]
    _, kept = simulated(values)
    assert not used_ns(kept)
    values["world"]["services"]["depot"]["node_ns"] = NODE_NS
    assert unsampled(parsed(values)) == []
