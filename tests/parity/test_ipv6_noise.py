"""What kernels say of themselves over IPv6, on both arms: as many frames of each interface, less those before a run.

Ten seconds hold all that an interface says when it comes up, and two solicitations. On the testbed it came up before
the run began, maybe by seconds on a busy machine: so some frames of the first two seconds may be missing, and one more
solicitation may come.
"""

from __future__ import annotations

import json

import pytest
from tests.contract.test_backend_contract import PLAYED, Kept, Watcher, backend_of, plan_of

from virtlab.plan import Plan, Trial

PROBES = 100
TRIES = 3
SOLICITATIONS, REPORTS, QUESTIONS = 2, 4, 1
SIZES = {"report": 90, "question": 86, "solicitation": 70}


def plan(*, noise: bool) -> Plan:
    values = json.loads(plan_of(count=PROBES, interval_ns=100_000_000).canonical())
    values["world"]["ipv6_noise"] = noise
    values["collect"]["counters"] = ["vnics", "links"]
    return Plan.parse(json.dumps(values))


def counted(arm: str, chosen: Plan) -> dict[tuple[str, str], int] | None:
    """Counters over a run; None when it was not played to its end, or an echo was lost."""
    kept = Kept()
    backend = backend_of(arm)
    assert not backend.check(chosen)
    with backend.open(chosen, Watcher()) as session:
        if session.run(Trial("t0", 7), kept).status not in PLAYED:
            return None
    if len(kept.column("probe", "rtt/1", "rtt_ns")) < PROBES:
        return None
    read: dict[tuple[str, str, str], int] = {}
    for block in kept.blocks["counters", "counter/1"]:
        columns = (block[name] for name in ("mark", "entity", "counter", "value"))
        for mark, entity, counter, value in zip(*columns, strict=True):
            read[mark, entity, counter] = int(value)
    return {
        (entity, counter): value - read.get(("begin", entity, counter), 0)
        for (mark, entity, counter), value in read.items()
        if mark == "end"
    }


def of(arm: str) -> dict[tuple[str, str], int]:
    for _ in range(TRIES):
        if (found := counted(arm, plan(noise=True))) is not None:
            return found
    pytest.skip("this machine played no run to its end")


def kinds(packets: int, octets: int) -> set[tuple[int, int, int]]:
    """Numbers of reports, questions and solicitations that are so many frames of so many bytes."""
    return {
        (reports, packets - reports - asked, asked)
        for reports in range(packets + 1)
        for asked in range(packets - reports + 1)
        if reports * SIZES["report"] + (packets - reports - asked) * SIZES["question"] + asked * SIZES["solicitation"]
        == octets
    }  # fmt: skip


def test_a_guest_sends_what_a_linux_interface_sends_on_both_arms() -> None:
    frames = {}
    for arm in ("simulator", "testbed"):
        found = of(arm)
        for guest in "ab":
            own = f"guests.{guest}.vnics.eth0"
            packets = found[own, "sent_packets"] - PROBES
            octets = found[own, "sent_bytes"] - PROBES * 1514
            frames[arm, guest] = kinds(packets, octets)
        frames[arm, "links"] = {
            tuple(value - PROBES for (_, name), value in found.items() if name == "packets")
        }
    for guest in "ab":
        assert (REPORTS, QUESTIONS, SOLICITATIONS) in frames["simulator", guest]
        assert any(
            reports <= REPORTS and questions <= QUESTIONS and 1 <= asked <= SOLICITATIONS + 1
            for reports, questions, asked in frames["testbed", guest]
        ), frames["testbed", guest]
    (simulated,), (measured,) = (frames[arm, "links"] for arm in ("simulator", "testbed"))
    assert len(simulated) == len(measured) == 4
    for ours, theirs in zip(simulated, measured, strict=True):
        assert 3 <= theirs <= ours + 3, (
            "three interfaces speak on each link, each one asks for routers at least once"
        )
