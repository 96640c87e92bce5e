"""Services in the world of an ordinary user: they serve, end, are started again, and are the users that they ask to
be.
"""

from __future__ import annotations

import pytest
import testbed_world as worlds
from test_services import GET, PYTHON, WEB, call, exec_, failure, played, program, shell
from test_testbed_privileges import ROOT, as_nobody

pytestmark = [pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing())), ROOT]


def test_a_service_is_ready_failed_and_healed() -> None:
    def work() -> None:
        outcome, sink = played(
            {"web": WEB},
            call("lose", "fail"),
            call("back", "heal", "lose.done"),
            exec_([PYTHON, "-c", GET]) | {"after": {"event": "back.done"}},
        )
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        assert sink.artefacts["ask.out"] == b"200\n"

    assert as_nobody(work) == ""


def test_a_service_that_dies_is_told_with_its_output() -> None:
    def work() -> None:
        why = failure({"db": shell("echo no store; exit 3", ready={"port": 1})})
        assert why.what == "in b it ended with code 3; its output ends with: no store"

    assert as_nobody(work) == ""


def test_another_user_is_a_name_in_a_user_namespace_of_the_program() -> None:
    said = "id -u; id -g; touch mine && ls -ln mine | cut -d' ' -f3; grep CapEff /proc/self/status"
    script = f"{said}; exec {PYTHON} -u -m http.server 8080"

    def work() -> None:
        found = {"as": shell(script, user="4711", files={"a": "b"}, ready={"port": 8080})}
        outcome, sink = played(found, exec_([PYTHON, "-c", GET]))
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        assert sink.artefacts["ask.out"] == b"200\n"
        lines = sink.artefacts["service-as-b.log"].decode().split()
        assert lines[:5] == ["4711", "4711", "4711", "CapEff:", "0" * 16]

    assert as_nobody(work) == ""


def test_what_forks_and_floods_is_ended() -> None:
    def work() -> None:
        why = failure({"db": program(["sh", "-c", "setsid yes flood & yes flood"], ready={"port": 1})})
        assert "wrote more than 16 MiB" in why.what

    assert as_nobody(work) == ""
