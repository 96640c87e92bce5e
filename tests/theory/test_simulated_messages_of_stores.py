"""What a store says as messages without packets, against packets: the same rates, times, bytes and recoveries, within
5 %.

Also what has to hold of messages by themselves: a lost node says and hears nothing, a slow link takes as long as its
rate says, equal files give equal results, and what messages would do wrong is refused.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.contract.test_backend_contract import Kept, Watcher
from tests.theory.simulated import Values, parsed
from tests.theory.test_simulated_fluid_stores import (
    LOOKUPS,
    LOST,
    MEMORY,
    TIMES,
    WITHIN,
    of_links,
    played,
    slowed,
    took,
    towards,
    values_of,
)

from virtlab.catalogue.workloads.objects import ENDINGS
from virtlab.plan import Trial
from virtlab.simulator import Simulator

MESSAGES = "transfers: messages"


def both(store: str, operations: str = "read", **given: Any) -> tuple[Any, Any]:
    """What a file gives by packets, and as messages."""
    plans = [values_of(more, **given) for more in (store, f"{store}, {MESSAGES}")]
    for values in plans:
        values["roles"]["load"]["operations"] = {operations: 1.0}
    return played(plans[0]), played(plans[1])


def rate(rows: Any) -> float:
    return float(rows["finished_ns"].size / (rows["finished_ns"].max() - rows["intended_ns"].min()) * 1e9)


@pytest.mark.parametrize(
    ("size", "count", "threads"),
    [("10 kB", 1500, 1), ("10 kB", 1500, 32), ("1 MB", 40, 1), ("1 MB", 90, 3)],
)
@pytest.mark.parametrize("operations", ["create", "read"])
def test_a_closed_loop_is_as_fast_as_by_packets_and_loads_links_as_much(
    operations: str, size: str, count: int, threads: int
) -> None:
    given = {
        "size": size,
        "count": 40,
        "load": f"threads: {threads}, count: {count}",
        "more": "",
        "timeout": "10 s",
    }
    (rows, own, ends), (other_rows, other, other_ends) = both(f"copies: 3, {MEMORY}", operations, **given)
    assert set(rows["outcome"]) == set(other_rows["outcome"]) == {ENDINGS.index("done")}
    assert rate(other_rows) == pytest.approx(rate(rows), rel=WITHIN)
    assert np.mean(took(other_rows)) == pytest.approx(np.mean(took(rows)), rel=WITHIN)
    assert sum(of_links(other_ends).values()) == pytest.approx(sum(of_links(ends).values()), rel=WITHIN)
    for key in ("lookup_messages", "lookup_bytes", "messages", "message_bytes"):
        assert other[key] == pytest.approx(own[key], rel=0.02), key


@pytest.mark.slow
@pytest.mark.parametrize(("lookup", "store"), [("multicast", f"copies: 3, {MEMORY}"), ("ring", "copies: 3")])
def test_a_recovery_takes_as_long_as_by_packets(lookup: str, store: str) -> None:
    (_, own, ends), (_, other, other_ends) = both(f"{store}, {LOOKUPS[lookup]}", more=LOST)
    assert own["recovery_missing"] > 60
    for key in ("recovery_missing", "recovery_made", "recovery_bytes", "missing_copies", "lost_objects"):
        assert other[key] == own[key], key
    for name in TIMES[2:]:
        spans = [counted[f"recovery_{name}_ns"] - counted["recovery_known_ns"] for counted in (own, other)]
        assert spans[1] == pytest.approx(spans[0], rel=WITHIN), name
    heard = [towards(each, "n1.a") for each in (ends, other_ends)]
    assert heard[1] == pytest.approx(heard[0], rel=WITHIN)


@pytest.mark.slow
def test_a_link_that_is_slowed_slows_messages() -> None:
    given = {"size": "100 kB", "count": 300, "more": slowed("100 Mbit/s"), "limit": 100}
    (_, own, _), (_, other, _) = both(f"copies: 3, {MEMORY}, {LOOKUPS['ring']}", **given)
    assert other["recovery_whole_ns"] == pytest.approx(own["recovery_whole_ns"], rel=WITHIN)


@pytest.mark.slow
def test_nothing_goes_on_from_a_node_that_is_lost() -> None:
    also = "  - {id: also, do: call, service: depot, op: fail_node, args: {guest: n0.a}, after: lose.done + 600 ms}\n"
    given = {"size": "900 kB", "count": 130, "more": LOST + also}
    (_, own, ends), (_, other, other_ends) = both(f"copies: 2, {MEMORY}, {LOOKUPS['elastic_hash']}", **given)
    assert 0 < own["recovery_made"] < own["recovery_missing"]
    assert other["recovery_made"] == pytest.approx(own["recovery_made"], rel=WITHIN, abs=1)
    sent = [towards(each, "n0.a", "sent_bytes") for each in (ends, other_ends)]
    assert sent[1] == pytest.approx(sent[0], rel=WITHIN)


def test_what_enters_the_switch_leaves_it_and_equal_seeds_give_equal_results() -> None:
    values = values_of(f"copies: 3, {MEMORY}, {LOOKUPS['ring']}, {MESSAGES}", size="300 kB", count=60)
    (rows, own, ends), again = played(values), played(values)
    assert (own, ends) == again[1:]
    assert all((rows[name] == again[0][name]).all() for name in rows)
    assert own["recovery_made"] == own["recovery_missing"] > 10
    into = ["links.c-s1.ab", *(f"links.s1-n{number}.ba" for number in range(4))]
    for key in ("bytes", "packets"):
        each = of_links(ends, key)
        assert sum(each[name] for name in into) * 2 == sum(each.values()) > 0, key


def test_a_question_to_all_is_on_every_line_and_at_every_node() -> None:
    given = {"size": "10 kB", "count": 1, "load": "threads: 1, count: 50", "more": ""}
    (_, _, ends), (_, _, other_ends) = both(f"copies: 3, {MEMORY}", "stat", **given)
    for number in range(4):
        for key in ("packets", "bytes"):
            name = f"links.s1-n{number}.ab"
            packets, messages = of_links(ends, key)[name], of_links(other_ends, key)[name]
            assert messages == pytest.approx(packets, abs=20 if key == "packets" else 12_000)
        assert towards(other_ends, f"n{number}.a", "received_packets") >= 50


def _asking_for_addresses(values: Values) -> None:
    values["world"]["arp"] = "live"


def _by_flows(values: Values) -> None:
    values["world"]["links"]["c-s1"]["queue"]["ab"] = {"kind": "sfq"}


def _beside_packets(values: Values) -> None:
    parameters = {"interval_ns": 1_000_000, "count": 3, "size_bytes": 64}
    values["roles"]["other"] = {"workload": "rtt", "from": "c.a", "to": "n0.a", "parameters": parameters}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (_asking_for_addresses, "arp: live"),
        (_by_flows, "'sfq'"),
        (_beside_packets, "roles.other"),
    ],
)
def test_messages_are_refused_beside_what_they_do_not_wait_for(change: Any, said: str) -> None:
    values = values_of(f"copies: 3, {MEMORY}, {MESSAGES}")
    assert Simulator().check(parsed(values)) == []
    change(values)
    found = [one for one in Simulator().check(parsed(values)) if one.path == "services.depot.transfers"]
    assert [said in one.reason for one in found] == [True]


@pytest.mark.parametrize(("limit", "told"), [(60, True), (10_000, False)])
def test_a_run_tells_where_packets_would_have_been_lost(limit: int, told: bool) -> None:
    load = "threads: 32, count: 300"
    values = values_of(f"copies: 3, {MEMORY}, {MESSAGES}", count=40, load=load, more="", limit=limit)
    kept = Kept()
    with Simulator().open(parsed(values), Watcher()) as session:
        assert session.run(Trial("t0", 1), kept).status == "ok"
    texts = [str(event.details["text"]) for event in kept.events if event.what == "log.info"]
    assert any("links.c-s1.ba" in text and "packets would have been lost" in text for text in texts) is told
