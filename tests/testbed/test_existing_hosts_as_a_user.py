"""Existing hosts as an ordinary user of theirs: what works without root there, and what is refused with its cure."""

from __future__ import annotations

from typing import Any

import far_world as far_worlds
import pytest
import testbed_world as worlds
from test_existing_hosts import opened, plan_of, untouched

from virtlab.errors import GuestError
from virtlab.plan import Plan, Role, Trial
from virtlab.testbed import Testbed
from virtlab.testbed.leader import far_ledger

pytestmark = [
    pytest.mark.skipif(far_worlds.missing() is not None, reason=str(far_worlds.missing())),
    pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing())),
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("reached"),
]
COUNT = 20
SHORT_NS = 150_000_000
WORK: dict[str, dict[str, Any]] = {
    "rtt/1": {"workload": "rtt", "protocol": "udp", "ip_packet_bytes": 200, "interval_ns": 5_000_000, "count": COUNT},
    "packet/1": {"workload": "udp_stream", "payload_bytes": 500, "rate_bit_per_s": 1_000_000, "duration_ns": SHORT_NS},
    "interval/1": {"workload": "tcp_stream", "duration_ns": SHORT_NS},
    "transaction/1": {"workload": "tcp_rr", "request_bytes": 1, "response_bytes": 1, "duration_ns": SHORT_NS},
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def _privileged_ping(far: far_worlds.FarHosts) -> None:
    for name in far_worlds.NAMES:
        far.run(name, "sh", "-c", "echo 1 0 > /proc/sys/net/ipv4/ping_group_range")


def as_a_user(network: str = "own", **role: Any) -> Plan:
    """The Plan of two existing hosts, logged in as somebody who may do little."""
    plan = plan_of(f"{far_worlds.USER}@host-a", f"{far_worlds.USER}@host-b", network=network)
    if role:
        role |= {"from": "a", "to": "b"}
        plan = plan.model_copy(update={"roles": {"probe": Role.model_validate(role)}})
    return plan


@pytest.mark.parametrize("schema", WORK)
def test_udp_and_tcp_roles_are_played_by_an_ordinary_user_and_nothing_is_left(
    far: far_worlds.FarHosts, schema: str
) -> None:
    before = [untouched(far, name) for name in far_worlds.NAMES]
    plan = as_a_user(**WORK[schema])
    assert Testbed().check(plan) == []
    with opened(plan) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        assert sink.rows("probe", schema) > 0
        told = session.realised.objects["guests.a"].read_back
        assert told["root"] is False
        assert "ping_group_range" in told["reach"], "the kernel lets nobody but root send echoes there"
    assert [untouched(far, name) for name in far_worlds.NAMES] == before
    assert far.ended()
    assert [far.agents(name) for name in far_worlds.NAMES] == [[], []]
    assert list(far_ledger.folder().glob("*")) == []


def test_icmp_of_a_user_who_may_not_is_refused_with_ways_out(far: far_worlds.FarHosts) -> None:
    refused = pytest.raises(
        GuestError, match=r"roles\.probe: guest a, client: .*ping_group_range, or use protocol udp"
    )
    with opened(as_a_user()) as session, refused:
        session.run(Trial("t0", 1), worlds.MemorySink())
    assert far.ended()


def test_whole_frames_of_a_user_are_refused_by_the_capability_that_is_lacking(
    far: far_worlds.FarHosts,
) -> None:
    plan = as_a_user(workload="raw_stream", frame_bytes=64, rate_pps=100, duration_ns=SHORT_NS)
    refused = pytest.raises(GuestError, match=r"roles\.probe: guest b, server: .*CAP_NET_RAW")
    with opened(plan) as session, refused:
        session.run(Trial("t0", 1), worlds.MemorySink())
    assert far.ended()


def test_a_vxlan_of_a_user_is_refused_before_anything_is_made_there(far: far_worlds.FarHosts) -> None:
    before = [untouched(far, name) for name in far_worlds.NAMES]
    with pytest.raises(GuestError, match=r"guests\.a: only root may make a VXLAN at .*; log in as root"):
        opened(as_a_user("vxlan"))
    assert [untouched(far, name) for name in far_worlds.NAMES] == before
    assert far.ended()
