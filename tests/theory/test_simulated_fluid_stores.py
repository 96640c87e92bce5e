"""What a store sends in bulk, as a fluid against packets: the same recovery and the same operations, within 5 %.

Also what has to hold of a fluid by itself: what enters the switch leaves it, a slow link takes as long as its rate
says, and nothing is sent by or to a node that is lost.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from tests.contract.test_backend_contract import Kept, Watcher
from tests.theory.simulated import Values, counters, parsed

from virtlab.catalogue.workloads.objects import ENDINGS
from virtlab.experiment import load_text
from virtlab.plan import Trial
from virtlab.planner import plan_run
from virtlab.simulator import Simulator

WITHIN = 0.05
MS = 1_000_000
HEAD_BYTES, OBJECT_BYTES, FRAME_BYTES, HEADS_BYTES = 64, 48, 1514, 66
TIMES = ("known", "first", "half", "most", "whole")
FILE = """
version: 1
name: bulk
hosts:
  c: {guests: {a: {}}}
  n0: {guests: {a: {}}}
  n1: {guests: {a: {}}}
  n2: {guests: {a: {}}}
  n3: {guests: {a: {}}}
host: {platform: qemu, disk: {size: 10 GB, rate: 400 MB/s, latency: 0.1 ms}}
topology: {shape: star, switches: 1}
link: {rate: 1 Gbit/s, queue: {kind: fifo, limit: LIMIT packets}}
services:
  depot: {kind: store, on: [n0.a, n1.a, n2.a, n3.a], timeout: TIMEOUT, STORE}
roles:
  fill: {workload: objects, from: c.a, to: depot, folder: same, operations: create, size: SIZE, count: COUNT, threads: 1}
  load: {workload: objects, from: c.a, to: depot, folder: same, operations: read, size: SIZE, LOAD}
timeline:
  - {id: fill, do: run, role: fill}
  - {id: load, do: run, role: load, after: fill.finished}
MORE
limits: {run: 1000 s}
"""
LOST = """
  - {id: lose, do: call, service: depot, op: wipe_node, args: {guest: n1.a}, after: load.started}
  - {id: whole, do: wait, until: {call: depot.recovered, every: 1 ms}, timeout: 3 s, on_timeout: censor, after: lose.done}
"""
MEMORY = "ack: memory, cache: 4 GB"
LOOKUPS = {
    "multicast": "lookup: multicast",
    "ring": "lookup: ring, partitions: 256",
    "elastic_hash": "lookup: elastic_hash",
}
QUIET = "threads: 1, count: 1"


def values_of(
    store: str,
    *,
    size: str = "100 kB",
    count: int = 150,
    load: str = QUIET,
    more: str = LOST,
    timeout: str = "400 ms",
    limit: int = 1000,
) -> Values:
    """A Plan of four nodes on links of their own."""
    text = FILE
    words = {
        "STORE": store,
        "SIZE": size,
        "COUNT": str(count),
        "LOAD": load,
        "MORE": more,
        "TIMEOUT": timeout,
        "LIMIT": str(limit),
    }
    for word, value in words.items():
        text = text.replace(word, value)
    experiment = load_text(text)
    values: Values = json.loads(plan_run(experiment, experiment.points()[0], 0).canonical())
    values["collect"]["counters"] = ["links", "vnics"]
    return values


def played(values: Values, seed: int = 1) -> tuple[Any, dict[str, int], dict[tuple[str, str], int]]:
    """Rows of the load, counters of the store, and all others at the end."""
    kept = Kept()
    with Simulator().open(parsed(values), Watcher()) as session:
        outcome = session.run(Trial("t0", seed), kept)
    assert outcome.status == "ok", outcome.reasons
    blocks = kept.blocks["load", "operation/1"]
    rows = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
    own = {
        key: value for (entity, key), value in counters(kept, "stop").items() if entity.startswith("load/")
    }
    return rows, own, counters(kept, "end")


def both(store: str, **given: Any) -> tuple[Any, Any]:
    """What a file gives by packets, and as a fluid."""
    return played(values_of(store, **given)), played(values_of(f"{store}, transfers: fluid", **given))


def of_links(ends: dict[tuple[str, str], int], key: str = "bytes") -> dict[str, int]:
    """By link and direction."""
    return {
        entity: value for (entity, name), value in ends.items() if entity.startswith("links.") and name == key
    }


def towards(ends: dict[tuple[str, str], int], guest: str, key: str = "received_bytes") -> int:
    return sum(
        value
        for (entity, name), value in ends.items()
        if entity.startswith(f"guests.{guest}.") and name == key
    )


def took(rows: Any) -> Any:
    return rows["finished_ns"] - rows["intended_ns"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("lookup", "store"),
    [
        ("multicast", f"copies: 3, {MEMORY}"),
        ("ring", "copies: 3, recovery_rate: 20 MB/s"),
        ("elastic_hash", f"copies: 2, {MEMORY}"),
    ],
)
def test_a_recovery_takes_as_long_and_clients_wait_as_long_as_by_packets(lookup: str, store: str) -> None:
    load = "rate: 100 request/s, arrivals: constant, duration: 1500 ms"
    (rows, own, ends), (fluid_rows, fluid, fluid_ends) = both(f"{store}, {LOOKUPS[lookup]}", load=load)
    assert own["recovery_missing"] > 60
    for key in ("recovery_missing", "recovery_made", "recovery_bytes", "missing_copies", "lost_objects"):
        assert fluid[key] == own[key], key
    for name in TIMES:
        key = f"recovery_{name}_ns"
        assert fluid[key] == pytest.approx(own[key], rel=WITHIN), key
    for name in TIMES[2:]:
        spans = [counted[f"recovery_{name}_ns"] - counted["recovery_known_ns"] for counted in (own, fluid)]
        assert spans[1] == pytest.approx(spans[0], rel=WITHIN), name
    assert set(fluid_rows["outcome"]) == set(rows["outcome"]) == {ENDINGS.index("done")}
    assert rows["outcome"].size == fluid_rows["outcome"].size > 100
    for of in (np.mean, np.median):
        assert of(took(fluid_rows)) == pytest.approx(of(took(rows)), rel=WITHIN)
    heard = [towards(each, "n1.a") for each in (ends, fluid_ends)]
    assert heard[1] == pytest.approx(heard[0], rel=WITHIN)


@pytest.mark.slow
@pytest.mark.parametrize("operations", ["overwrite", "read"])
def test_a_large_object_is_written_and_read_as_fast_as_by_packets(operations: str) -> None:
    given = {"size": "2 MB", "count": 20, "load": "threads: 3, count: 60", "more": "", "timeout": "10 s"}
    plans = [
        values_of(f"copies: 2, lookup: ring, partitions: 256{more}", **given)
        for more in ("", ", transfers: fluid")
    ]
    for values in plans:
        values["roles"]["load"]["operations"] = {operations: 1.0}
    (rows, _, ends), (fluid_rows, own, fluid_ends) = (played(values) for values in plans)
    assert set(fluid_rows["outcome"]) == {ENDINGS.index("done")}
    spans = [each["finished_ns"].max() - each["intended_ns"].min() for each in (rows, fluid_rows)]
    assert spans[1] == pytest.approx(spans[0], rel=WITHIN)
    assert np.mean(took(fluid_rows)) == pytest.approx(np.mean(took(rows)), rel=WITHIN)
    assert (own["missing_copies"], own["wrong_operations"]) == (0, 0)
    sums = [sum(of_links(each).values()) for each in (ends, fluid_ends)]
    assert sums[1] == pytest.approx(sums[0], rel=WITHIN), "all but acknowledgements"


@pytest.mark.slow
def test_what_enters_the_switch_leaves_it_and_a_node_hears_what_its_objects_are() -> None:
    values = values_of(f"copies: 3, {MEMORY}, {LOOKUPS['ring']}, transfers: fluid", size="500 kB", count=60)
    _, own, ends = played(values)
    links = of_links(ends)
    into = ["links.c-s1.ab", *(f"links.s1-n{number}.ba" for number in range(4))]
    for key in ("bytes", "packets"):
        each = of_links(ends, key)
        assert sum(each[name] for name in into) * 2 == sum(each.values()) > 0, key
    assert sum(of_links(ends, "drops").values()) == 0
    content = HEAD_BYTES + OBJECT_BYTES + 500_000
    size_bytes = content + -(-content // (FRAME_BYTES - HEADS_BYTES)) * HEADS_BYTES
    heard = towards(ends, "n1.a")
    assert own["recovery_made"] == own["recovery_missing"] > 20
    # Each was written to it once before it was lost, by packets.
    assert heard == pytest.approx(2 * own["recovery_made"] * size_bytes, rel=0.005)
    assert heard in links.values()


def slowed(rate: str) -> str:
    return LOST + (
        f"  - {{id: slow, do: set, link: s1-n1, parameter: rate, value: {rate}, after: lose.done + 450 ms}}\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize(("rate", "ends"), [("100 Mbit/s", True), ("100 kbit/s", False)])
def test_a_link_that_is_slowed_slows_a_transfer_and_one_that_is_as_good_as_cut_stops_it(
    rate: str, ends: bool
) -> None:
    given = {"size": "100 kB", "count": 300, "more": slowed(rate), "limit": 100}
    # A short queue: what waits in it as the link is slowed leaves at the old rate (decision 0196).
    (_, own, _), (_, fluid, _) = both(f"copies: 3, {MEMORY}, {LOOKUPS['ring']}", **given)
    assert ("recovery_whole_ns" in own, "recovery_whole_ns" in fluid) == (ends, ends)
    if ends:
        assert fluid["recovery_whole_ns"] == pytest.approx(own["recovery_whole_ns"], rel=WITHIN)
    assert fluid["recovery_made"] == pytest.approx(own["recovery_made"], rel=WITHIN, abs=2)
    assert fluid["recovery_made"] < fluid["recovery_missing"] or ends


@pytest.mark.slow
def test_nothing_goes_on_from_a_node_that_is_lost() -> None:
    """The only node that has what the first one lacks is lost, too, while it sends."""
    also = "  - {id: also, do: call, service: depot, op: fail_node, args: {guest: n0.a}, after: lose.done + 600 ms}\n"
    given = {"size": "900 kB", "count": 130, "more": LOST + also}
    (_, own, ends), (_, fluid, fluid_ends) = both(f"copies: 2, {MEMORY}, {LOOKUPS['elastic_hash']}", **given)
    assert 0 < own["recovery_made"] < own["recovery_missing"]
    assert fluid["recovery_made"] == pytest.approx(own["recovery_made"], rel=WITHIN, abs=1)
    sent = [towards(each, "n0.a", "sent_bytes") for each in (ends, fluid_ends)]
    assert sent[1] == pytest.approx(sent[0], rel=WITHIN)


@pytest.mark.slow
def test_equal_seeds_give_equal_fluids() -> None:
    values = values_of(f"copies: 3, {MEMORY}, transfers: fluid", size="50 kB", load="threads: 4, count: 100")
    first, again = played(values), played(values)
    assert first[1:] == again[1:]
    assert all((first[0][name] == again[0][name]).all() for name in first[0])


@pytest.mark.slow
def test_a_fluid_is_refused_where_its_way_does_what_it_has_no_part_for() -> None:
    values = values_of(f"copies: 3, {MEMORY}, transfers: fluid")
    assert Simulator().check(parsed(values)) == []
    lossy = {"kind": "netem", "limit_packets": 1000, "parameters": {"loss_ratio": 0.03}}
    for link in values["world"]["links"].values():
        link["queue"] = dict.fromkeys(("ab", "ba"), lossy)
    (found,) = Simulator().check(parsed(values))
    assert found.path == "services.depot.transfers"
    assert "netem" in found.reason
    cut = values_of(f"copies: 3, {MEMORY}, transfers: fluid")
    link = next(iter(cut["world"]["links"]))
    cut["timeline"].append({"id": "cut", "do": "set", "link": link, "args": {"state": "down"}})
    (found,) = Simulator().check(parsed(cut))
    assert f"the link '{link}' is cut" in found.reason
