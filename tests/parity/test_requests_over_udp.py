"""Requests in datagrams on both arms: what was lost, what came late, and what came twice are the same counts."""

from __future__ import annotations

import pytest
from tests.parity.responses import ARMS, played
from tests.requests_file import requests_file

SERVICE = "services: {app: {kind: demand_server, on: h2.g1, SERVER}}\n"
ENDED = ("answered", "refused", "lost", "broken", "open")


def counted(arm: str, text: str) -> dict[str, int]:
    """The client's counters."""
    kept = played(arm, text)
    found = {
        str(name): int(value)
        for (_, schema), blocks in kept.blocks.items()
        if schema == "counter/1"
        for block in blocks
        for entity, name, value in zip(block["entity"], block["counter"], block["value"], strict=True)
        if str(entity) == "clients/client"
    }
    assert found["requests"] == sum(found[f"{each}_requests"] for each in ENDED)
    return found


# Due every 50 ms; what a test counts lies 25 ms from any instant at which it would change.
COMMON = "protocol: udp, rate: 20 request/s, duration: 2 s, connections: 64"
PAUSED = "pause: 700 ms, timeout: 225 ms"  # those due after 0 to 450 ms are lost
LOST = {"answered_requests": 30, "lost_requests": 10, "late_answers": 10, "duplicate_answers": 0}
CASES: dict[str, tuple[str, dict[str, int]]] = {
    "answered": ("demand: 1 ms", {"answered_requests": 40, "late_answers": 0, "duplicate_answers": 0}),
    "lost": (PAUSED, LOST),
    "asked again": (
        "pause: 475 ms, retries: 9, retry_after: 150 ms",
        # The one due at once has 3 more tries; those due after 50 to 150 ms have 2, to 300 ms 1.
        {"answered_requests": 40, "late_answers": 0, "retries": 12, "duplicate_answers": 12},
    ),
    # Of those due until the pause ends, one has the thread and four wait.
    "refused": ("pause: 725 ms, backlog: 4", {"answered_requests": 30, "refused_requests": 10}),
}  # fmt: skip


@pytest.mark.parametrize("arm", ARMS)
@pytest.mark.parametrize("case", CASES)
def test_a_role_counts_what_came_of_its_requests(arm: str, case: str) -> None:
    role, expected = CASES[case]
    found = counted(arm, requests_file(f"{COMMON}, {role}"))
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("arm", ARMS)
def test_a_request_that_rests_before_its_next_try_may_be_answered_meanwhile(arm: str) -> None:
    """Its second try waits behind the first; its third is refused after 300 ms, and the first answered after 375 ms."""
    role = "rate: 1 request/s, duration: 2 s, pause: 375 ms, backlog: 1, retries: 9, retry_after: 150 ms"
    found = counted(arm, requests_file(f"protocol: udp, {role}"))
    expected = {
        "requests": 2,
        "answered_requests": 2,
        "retries": 2,
        "duplicate_answers": 1,
        "late_answers": 0,
    }
    assert {name: found[name] for name in expected} == expected


@pytest.mark.parametrize("arm", ARMS)
def test_a_service_is_asked_over_udp_too(arm: str) -> None:
    service = SERVICE.replace("SERVER", "pause: 700 ms")
    text = requests_file(f"{COMMON}, timeout: 225 ms", service).replace("to: h2.g1", "to: app")
    found = counted(arm, text)
    assert {name: found[name] for name in LOST} == LOST
