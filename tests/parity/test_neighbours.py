"""Guests that ask for hardware addresses, on both arms: as many frames, and the first echo alone waits for the answer.

How long a machine's first echo takes says nothing, so what is compared are counts of frames, which a busy machine does
not change, and which echo waited before it left: the wait is the round trip without the path's part.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

import numpy as np
import pytest
from tests.contract.test_backend_contract import PLAYED, Kept, Watcher, backend_of, plan_of

from virtlab.plan import Plan, Trial

PROBES = 8
TRIES = 3
LINKS = 2
QUESTION_NS = {4: 2 * LINKS * (64 + 8) * 80, 6: 2 * LINKS * (90 + 8) * 80}
ADDRESSES = {4: ("10.0.0.1/24", "10.0.0.2/24"), 6: ("fd00::1/64", "fd00::2/64")}


def plan(version: int, arp: str, packet_bytes: int = 1500, *, forgetful: bool = False) -> Plan:
    """`forgetful`: guests forget at the beginning whom the testbed's check that all is up has made them know."""
    values = json.loads(
        plan_of(count=PROBES, interval_ns=20_000_000, ip_packet_bytes=packet_bytes).canonical()
    )
    values["world"]["arp"] = arp
    for guest, address in zip("ab", ADDRESSES[version], strict=True):
        values["world"]["guests"][guest]["vnics"]["eth0"]["ip"] = [address]
    values["collect"]["counters"] = ["vnics"]
    if forgetful:
        measure = values["timeline"][0]
        measure["after"] = {"all": ["forget-a.done", "forget-b.done"]}
        for guest in "ab":
            argv = ["ip", "neigh", "flush", "all"]
            values["timeline"].append({"id": f"forget-{guest}", "do": "exec", "guest": guest, "argv": argv})
    return Plan.parse(json.dumps(values))


@dataclass(frozen=True, slots=True)
class Played:
    """Frames that each guest sent, and each echo's wait before it left."""

    sent: tuple[int, int]
    waits_ns: tuple[int, ...]
    rtt_ns: tuple[int, ...]


def played(arm: str, chosen: Plan) -> Played | None:
    """One run; None when nothing was played to its end, or an echo was lost."""
    kept = Kept()
    with backend_of(arm).open(chosen, Watcher()) as session:
        if session.run(Trial("t0", 7), kept).status not in PLAYED:
            return None
    rtt, path = (kept.column("probe", "rtt/1", name) for name in ("rtt_ns", "path_rtt_ns"))
    if len(rtt) < PROBES:
        return None
    read: dict[tuple[str, str, str], int] = {}
    for block in kept.blocks["counters", "counter/1"]:
        for mark, entity, counter, value in zip(
            *(block[name] for name in ("mark", "entity", "counter", "value")), strict=True
        ):
            read[mark, entity, counter] = int(value)
    a, b = (
        read["end", path, "sent_packets"] - read.get(("begin", path, "sent_packets"), 0)
        for path in ("guests.a.vnics.eth0", "guests.b.vnics.eth0")
    )
    waits = np.asarray(rtt) - np.asarray(path)
    return Played((a, b), tuple(int(each) for each in waits), tuple(int(each) for each in rtt))


def some(arm: str, chosen: Plan) -> list[Played]:
    """A few runs: a machine with other work spoils one."""
    found = [one for _ in range(TRIES) if (one := played(arm, chosen)) is not None]
    if not found:
        pytest.skip("this machine played no run to its end")
    return found


@pytest.mark.parametrize("version", [4, 6])
def test_both_arms_ask_once_and_answer_once_before_the_first_echo(version: int) -> None:
    for arm in ("simulator", "testbed"):
        found = some(arm, plan(version, "live", forgetful=True))
        assert (PROBES + 1, PROBES + 1) in {one.sent for one in found}, (arm, found)
        assert all(one.waits_ns[0] >= QUESTION_NS[version] for one in found), (arm, found)
        assert any(one.waits_ns[0] > np.median(one.waits_ns[1:]) for one in found), (arm, found)


@pytest.mark.parametrize(("version", "fragments"), [(4, 3), (6, 3)])
def test_who_knows_its_neighbours_sends_the_same_fragments_on_both_arms_and_nothing_else(
    version: int, fragments: int
) -> None:
    chosen = plan(version, "static", packet_bytes=4000)
    (simulated,) = {(one.sent, min(one.rtt_ns)) for one in some("simulator", chosen)}
    assert simulated[0] == (PROBES * fragments, PROBES * fragments)
    measured = some("testbed", chosen)
    assert simulated[0] in {one.sent for one in measured}, measured
    assert all(min(one.rtt_ns) >= simulated[1] for one in measured), "no machine is faster than its links"
