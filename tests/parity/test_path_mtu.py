"""A link with a smaller MTU between two routers, on both arms: as many packets are lost until their sender knows.

What a machine adds to times says nothing here, so counts are compared, which other work does not change: which echoes
were answered, and how many segments had to go again. On the testbed the check that all is up has told the guests of the
path before a run begins, so there they are made to forget it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from tests.contract.test_backend_contract import PLAYED, Kept, Watcher, backend_of
from tests.theory.test_simulated_path_mtu import ECHOES, narrowed

from virtlab.plan import Plan, Trial

TRIES = 6
SEGMENT_BYTES, PIECES = 2948, 3  # of TCP at an MTU of 3000 B; packets of 1500 B that one is sent again in
REQUEST = {
    "workload": "tcp_rr",
    "request": f"{10 * SEGMENT_BYTES} B",
    "response": "1 B",
    "duration": "200 ms",
}


def forgetful(plan: Plan) -> Plan:
    """Both ends forget what they know of paths, then the role begins."""
    values = json.loads(plan.canonical())
    flush = "ip route flush cache; ip -6 route flush cache"
    ends = {role[key] for role in values["roles"].values() for key in ("from", "to")}
    first = next(action for action in values["timeline"] if action.get("role"))
    before = [first["after"]["event"]] if "after" in first else []
    plus_ns = first.get("after", {}).get("plus_ns", 0)
    told = [f"forget{number}.finished" for number in range(len(ends))]
    first["after"] = {"all": [*before, *told], "plus_ns": plus_ns}
    for number, guest in enumerate(sorted(ends)):
        argv = ["sh", "-c", flush]
        values["timeline"].append({"id": f"forget{number}", "do": "exec", "guest": guest, "argv": argv})
    return Plan.parse(json.dumps(values))


def played(arm: str, plan: Plan) -> Kept | None:
    """One run; None when nothing was played to its end."""
    kept = Kept()
    plan = forgetful(plan)
    backend = backend_of(arm)
    assert not backend.check(plan)
    with backend.open(plan, Watcher()) as session:
        return kept if session.run(Trial("t0", 7), kept).status in PLAYED else None


def some(arm: str, plan: Plan) -> Iterator[Kept]:
    """A few runs, for whoever asks for more: a machine with other work spoils one."""
    ended = 0
    for _ in range(1 if arm == "simulator" else TRIES):
        kept = played(arm, plan)
        ended += kept is not None
        if kept is not None:
            yield kept
    if not ended:
        pytest.skip("this machine played no run to its end")


def answered(kept: Kept) -> list[int]:
    return sorted(kept.column("probe", "rtt/1", "seq").tolist())


@pytest.mark.parametrize(("version", "lost"), [(4, 0), (6, 2)])
def test_the_same_echoes_are_answered_on_both_arms(version: int, lost: int) -> None:
    plan = narrowed(ECHOES, version=version)
    (simulated,) = map(answered, some("simulator", plan))
    assert simulated == list(range(lost, 10))
    for measured in map(answered, some("testbed", plan)):
        assert set(measured) <= set(simulated), "what is too long gets through on no arm"
        if measured == simulated:
            return
    pytest.fail("in no run were all the others answered")


def sent_again(kept: Kept) -> int:
    """Segments that the client sent again, in a run in which its requests were answered."""
    told = {
        str(name): int(value)
        for (stream, _), blocks in kept.blocks.items()
        if stream == "counters"
        for block in blocks
        for mark, entity, name, value in zip(
            block["mark"], block["entity"], block["counter"], block["value"], strict=True
        )
        if mark == "stop" and entity == "probe/client"
    }
    assert told["transactions"] > 0
    return told["retransmits"]


@pytest.mark.parametrize("version", [4, 6])
def test_a_first_window_of_segments_that_are_too_long_is_sent_again_in_pieces(version: int) -> None:
    plan = narrowed(REQUEST, version=version)
    for arm in ("simulator", "testbed"):
        again = []
        for count in map(sent_again, some(arm, plan)):
            assert count >= 10, arm
            again.append(count)
            # A machine that stalls sends more again, for want of an answer.
            if count <= 10 * PIECES + 5:
                break
        else:
            pytest.fail(f"{arm}: {again} segments were sent again")
