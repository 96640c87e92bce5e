"""Services in guests with files of their own, started by the leader inside: the same requests, and all that they
start.
"""

from __future__ import annotations

from typing import Any

import container_world as containers
import machine_world as machines
import pytest
import testbed_world as worlds

from virtlab.errors import GuestError
from virtlab.plan import Trial
from virtlab.testbed import Testbed

PLATFORMS = [
    pytest.param(
        containers.beside_a_namespace,
        id="container",
        marks=pytest.mark.skipif(containers.missing() is not None, reason=str(containers.missing())),
    ),
    pytest.param(
        machines.beside_a_namespace,
        id="qemu",
        marks=pytest.mark.skipif(machines.missing() is not None, reason=str(machines.missing())),
    ),
]
pytestmark = [pytest.mark.timeout(400), pytest.mark.parametrize("world", PLATFORMS)]

# The server is a child of the service's own process, which has to end with it before the port is free again.
HTTP = ["sh", "-c", "busybox httpd -f -p 8080 & echo up; wait"]
PATIENCE_NS = 60_000_000_000


def service(argv: list[str], **ready: Any) -> dict[str, Any]:
    return {"kind": "program", "on": ["g1"], "argv": argv, "ready": {**ready, "timeout_ns": PATIENCE_NS}}


def test_a_service_is_ready_failed_and_healed_inside(world: Any) -> None:
    timeline = [
        {"id": "again", "do": "call", "service": "web", "op": "restart"},
        {
            "id": "ask",
            "do": "exec",
            "guest": "g1",
            "argv": ["busybox", "id"],
            "after": {"event": "again.done"},
        },
        {"id": "lose", "do": "call", "service": "web", "op": "fail", "after": {"event": "ask.finished"}},
        {"id": "back", "do": "call", "service": "web", "op": "heal", "after": {"event": "lose.done"}},
    ]
    plan = worlds.plan(
        {**world(), "services": {"web": service(HTTP, port=8080)}},
        timeline=timeline,
        limits={"run_ns": 2 * PATIENCE_NS},
    )
    with Testbed().open(plan, worlds.Patient()) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert "back.done" in outcome.marks
    assert sink.artefacts["service-web-g1.log"].count(b"up\n") == 3
    assert b"uid=" in sink.artefacts["ask.out"]


def test_a_service_inside_is_another_user_where_it_asks_to_be(world: Any) -> None:
    said = service(["sh", "-c", "busybox id -u; busybox id -g; echo up; busybox sleep 1000"], line="up")
    wait = {"id": "pass", "do": "wait", "for_ns": 100_000_000}
    plan = worlds.plan({**world(), "services": {"as": {**said, "user": "4711"}}}, timeline=[wait])
    with Testbed().open(plan, worlds.Patient()) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert sink.artefacts["service-as-g1.log"] == b"4711\n4711\nup\n"


def test_a_service_that_dies_inside_is_told_with_its_output(world: Any) -> None:
    broken = service(["sh", "-c", "echo no store; exit 3"], port=8080)
    with (
        pytest.raises(
            GuestError, match="in g1 it ended with code 3; its output ends with: no store"
        ) as caught,
        Testbed().open(worlds.plan({**world(), "services": {"web": broken}}), worlds.Patient()),
    ):
        pass
    assert caught.value.where == "services.web"
