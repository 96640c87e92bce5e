"""Services on hosts that exist already, as root and as an ordinary user there: they serve, and nothing of them
stays.
"""

from __future__ import annotations

from typing import Any

import far_world as far_worlds
import pytest
import testbed_world as worlds
from test_existing_hosts import plan_of, untouched

from virtlab.errors import GuestError
from virtlab.plan import Plan, Trial
from virtlab.testbed import Testbed

pytestmark = [
    pytest.mark.skipif(far_worlds.missing() is not None, reason=str(far_worlds.missing())),
    pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing())),
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("reached"),
]
PYTHON = "/usr/bin/python3"
GET = "import sys, urllib.request; print(urllib.request.urlopen(f'http://{sys.argv[1]}/').status)"
LOGINS = pytest.mark.parametrize("login", ["", f"{far_worlds.USER}@"], ids=["root", "user"])


def plan_with(login: str, services: dict[str, Any], *timeline: dict[str, Any]) -> Plan:
    """Two existing hosts with services, and what a run does there."""
    plan = plan_of(f"{login}host-a", f"{login}host-b")
    world = plan.world.model_dump(mode="json", exclude_none=True, by_alias=True)
    limits = {"run_ns": 60_000_000_000}
    return worlds.plan({**world, "services": services}, timeline=list(timeline), limits=limits)


def service(argv: list[str], on: str = "b", **more: Any) -> dict[str, Any]:
    return {"kind": "program", "on": [on], "argv": argv, **more}


@LOGINS
def test_a_service_there_is_ready_healed_and_gone_with_the_run(far: far_worlds.FarHosts, login: str) -> None:
    before = [untouched(far, name) for name in far_worlds.NAMES]
    argv = ["sh", "-c", f"setsid sleep 987654 & exec {PYTHON} -u -m http.server 8080 --bind $0", "{on}"]
    web = service(argv, ready={"argv": [PYTHON, "-c", GET, "{on}:8080"], "timeout_ns": 60_000_000_000})
    ask = {
        "id": "ask", "do": "exec", "guest": "a", "argv": [PYTHON, "-c", GET, "10.77.0.2:8080"],
        "after": {"event": "back.done"},
    }  # fmt: skip
    lose = {"id": "lose", "do": "call", "service": "web", "op": "fail"}
    back = {"id": "back", "do": "call", "service": "web", "op": "heal", "after": {"event": "lose.done"}}
    with Testbed().open(plan_with(login, {"web": web}, lose, back, ask), worlds.Patient()) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        assert sink.artefacts["ask.out"] == b"200\n"
        assert far.processes(far_worlds.NAMES[1])
    assert far.ended()
    assert [untouched(far, name) for name in far_worlds.NAMES] == before


@LOGINS
def test_a_service_there_that_dies_is_told_with_its_output(far: far_worlds.FarHosts, login: str) -> None:
    plan = plan_with(login, {"db": service(["sh", "-c", "echo no store; exit 3"], ready={"port": 1})})
    with pytest.raises(GuestError) as caught, Testbed().open(plan, worlds.Patient()):
        pass
    assert (caught.value.where, caught.value.what) == (
        "services.db",
        "in b it ended with code 3; its output ends with: no store",
    )
    assert far.ended()


def test_root_there_changes_users_and_an_ordinary_user_is_told_that_it_may_not(
    far: far_worlds.FarHosts,
) -> None:
    as_another = service(["sh", "-c", "id -u; echo up; sleep 1000"], user="4711", ready={"line": "up"})
    wait = {"id": "pass", "do": "wait", "for_ns": 100_000_000}
    with Testbed().open(plan_with("", {"db": as_another}, wait), worlds.Patient()) as session:
        sink = worlds.MemorySink()
        session.run(Trial("t0", 1), sink)
        assert sink.artefacts["service-db-b.log"] == b"4711\nup\n"
    login = f"{far_worlds.USER}@"
    with (
        pytest.raises(GuestError, match="in b: cannot become user 4711") as caught,
        Testbed().open(plan_with(login, {"db": as_another}, wait), worlds.Patient()),
    ):
        pass
    assert "/etc/passwd" in caught.value.cure
    assert far.ended()
