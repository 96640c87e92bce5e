"""A link with a smaller MTU between two routers, on both arms: as many packets are lost until their sender knows.

What a machine adds to times says nothing here, so counts are compared, which other work does not change: which echoes were
answered, and how many segments had to go again. On the testbed the check that all is up has told the guests of the path
before a run begins, so there they are made to forget it.
"""

from __future__ import annotations

import json

import pytest
from tests.contract.test_backend_contract import PLAYED, Kept, Watcher, backend_of
from tests.theory.test_simulated_path_mtu import ECHOES, narrowed

from virtlab.plan import Plan, Trial

TRIES = 3
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
    plan = forgetful(plan) if arm == "testbed" else plan
    backend = backend_of(arm)
    assert not backend.check(plan)
    with backend.open(plan, Watcher()) as session:
        return kept if session.run(Trial("t0", 7), kept).status in PLAYED else None


def some(arm: str, plan: Plan) -> list[Kept]:
    """A few runs: a machine with other work spoils one."""
    found = [one for _ in range(1 if arm == "simulator" else TRIES) if (one := played(arm, plan)) is not None]
    if not found:
        pytest.skip("this machine played no run to its end")
    return found


@pytest.mark.parametrize(("version", "lost"), [(4, 0), (6, 2)])
def test_the_same_echoes_are_answered_on_both_arms(version: int, lost: int) -> None:
    plan = narrowed(ECHOES, version=version)
    (simulated,) = (one.column("probe", "rtt/1", "seq").tolist() for one in some("simulator", plan))
    assert simulated == list(range(lost, 10))
    measured = [sorted(one.column("probe", "rtt/1", "seq").tolist()) for one in some("testbed", plan)]
    assert simulated in measured
    assert all(set(each) <= set(simulated) for each in measured), "what is too long gets through on no arm"


@pytest.mark.parametrize("version", [4, 6])
def test_a_first_window_of_segments_that_are_too_long_is_sent_again_in_pieces(version: int) -> None:
    plan = narrowed(REQUEST, version=version)
    for arm in ("simulator", "testbed"):
        for kept in some(arm, plan):
            rows = [
                block
                for (stream, _), blocks in kept.blocks.items()
                if stream == "counters"
                for block in blocks
            ]
            told = {
                str(name): int(value)
                for block in rows
                for mark, entity, name, value in zip(
                    block["mark"], block["entity"], block["counter"], block["value"], strict=True
                )
                if mark == "stop" and entity == "probe/client"
            }
            assert told["transactions"] > 0, (arm, json.dumps(told))
            assert 10 <= told["retransmits"] <= 10 * PIECES + 5, (arm, json.dumps(told))
