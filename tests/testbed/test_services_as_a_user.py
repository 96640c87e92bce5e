"""Services in the world of an ordinary user: they serve, end, and are started again."""

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


def test_what_forks_and_floods_is_ended() -> None:
    def work() -> None:
        why = failure({"db": program(["sh", "-c", "setsid yes flood & yes flood"], ready={"port": 1})})
        assert "wrote more than 16 MiB" in why.what

    assert as_nobody(work) == ""
