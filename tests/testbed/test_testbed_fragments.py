"""Datagrams whose last fragments were lost do not spoil what comes after them."""

from __future__ import annotations

import sys
import time

import pytest
import testbed_world as worlds

from virtlab.agents.requests.leader import Apply, Ping
from virtlab.testbed import Testbed
from virtlab.testbed.leader.execution import Command
from virtlab.testbed.session import TestbedSession
from virtlab.testbed.steps.operations import SysctlSet

pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))

INCOMPLETE = 2000
FRAGMENTED_BYTES = 3000
# First fragments only: each IPv4 packet says that more is to come, and nothing does.
SENDER = f"""
import socket, struct, time
out = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
for number in range({INCOMPLETE}):
    header = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 1500, number + 1, 0x2000, 64, 17, 0,
                         socket.inet_aton("10.0.0.1"), socket.inet_aton("10.0.0.2"))
    out.sendto(header + bytes(1480), ("10.0.0.2", 0))
"""


def flood(session: TestbedSession) -> None:
    """Has guest g1 leave its incomplete datagrams with g2."""
    control = session.leader.control
    command = Command(control, 30_000, session.lowered.guests["g1"], [sys.executable, "-c", SENDER])
    command.start()
    end = time.monotonic() + 30
    while time.monotonic() < end:
        for message in control.messages(0.2):
            if getattr(message, "name", "") == "exited":
                assert message.details["code"] == 0, command.errors  # type: ignore[union-attr]
                return
    pytest.fail("the sender of fragments did not end")


def fragmented_echo(session: TestbedSession) -> int | None:
    pair = {"namespace": session.lowered.guests["g1"], "to": "10.0.0.2", "ip_packet_bytes": FRAGMENTED_BYTES}
    answer = session.leader.control.call(Ping(pairs=[pair], deadline_ns=10**9), timeout_s=10)
    return answer["answers"][0]  # type: ignore[no-any-return]


def opened() -> TestbedSession:
    session = Testbed().open(worlds.plan(worlds.one_host()), worlds.Patient())
    assert isinstance(session, TestbedSession)
    return session


def test_a_fragmented_echo_passes_after_thousands_of_incomplete_datagrams() -> None:
    with opened() as session:
        flood(session)
        assert fragmented_echo(session) is not None


def test_with_the_kernel_s_own_limits_it_would_not() -> None:
    with opened() as session:
        for key, value in (("high_thresh", str(4 << 20)), ("time", "30")):
            step = SysctlSet(session.lowered.guests["g2"], f"net/ipv4/ipfrag_{key}", value)
            session.leader.control.call(Apply(batch=[step.json()]))
        flood(session)
        assert fragmented_echo(session) is None


def test_what_a_guest_holds_of_fragments_is_read_back() -> None:
    with opened() as session:
        held = session.realised.objects["guests.g1"].read_back["sysctls"]
        assert held["net/ipv4/ipfrag_time"] == "2"
        assert int(held["net/ipv4/ipfrag_high_thresh"]) > 4 << 20
