"""Services on guests: started in order, ready by a check, watched; those that misbehave are one line, and end the
run.
"""

from __future__ import annotations

import contextlib
import os
import time
from pathlib import Path
from typing import Any

import pytest
import testbed_world as worlds

from virtlab.errors import GuestError
from virtlab.plan import Outcome, Trial
from virtlab.testbed import Testbed

pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))

PYTHON = "/usr/bin/python3"
HTTP = [PYTHON, "-u", "-m", "http.server", "8080"]
FOREVER = ["sleep", "1000"]
if not Path(PYTHON).exists():
    pytest.skip(f"no {PYTHON}, which stands outside all homes", allow_module_level=True)


def program(argv: list[str], on: str = "b", **more: Any) -> dict[str, Any]:
    return {"kind": "program", "on": [on], "argv": argv, **more}


def shell(script: str, **more: Any) -> dict[str, Any]:
    return program(["sh", "-c", script], **more)


def played(
    services: dict[str, Any], *timeline: dict[str, Any], world: dict[str, Any] | None = None
) -> tuple[Outcome, worlds.MemorySink]:
    world = {**(world or worlds.bridged()), "services": services}
    actions = timeline or ({"id": "pass", "do": "wait", "for_ns": 1_500_000_000},)
    plan = worlds.plan(
        world, timeline=list(actions), limits={"run_ns": 30_000_000_000}, collect={"counters": ["guests"]}
    )
    with Testbed().open(plan, worlds.Patient()) as session:
        sink = worlds.MemorySink()
        return session.run(Trial("t0", 1), sink), sink


def failure(services: dict[str, Any]) -> GuestError:
    """Why a world with them is not even built."""
    plan = worlds.plan({**worlds.bridged(), "services": services})
    with pytest.raises(GuestError) as caught, Testbed().open(plan, worlds.Patient()):
        pass
    assert "\n" not in str(caught.value)
    return caught.value


def exec_(argv: list[str], guest: str = "a", **more: Any) -> dict[str, Any]:
    return {"id": "ask", "do": "exec", "guest": guest, "argv": argv, **more}


GET = "import urllib.request; print(urllib.request.urlopen('http://10.0.0.2:8080/').status)"


def test_a_service_that_is_ready_is_reached_from_another_guest() -> None:
    ready = {"port": 8080, "http": "/", "timeout_ns": 30_000_000_000}
    outcome, sink = played({"web": program(HTTP, ready=ready)}, exec_([PYTHON, "-c", GET]))
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert sink.artefacts["ask.out"] == b"200\n"
    assert b'"GET / HTTP/1.1" 200' in sink.artefacts["service-web-b.log"]
    counted = {(entity, counter) for (entity, counter) in sink.counters("begin")}
    assert ("services.web/b", "start_ns") in counted


def test_a_host_without_guests_serves() -> None:
    web = program(HTTP, ready={"port": 8080, "http": "/", "timeout_ns": 30_000_000_000})
    again = {"id": "again", "do": "call", "service": "web", "op": "restart"}
    ask = exec_([PYTHON, "-c", GET]) | {"after": {"event": "again.done"}}
    outcome, sink = played({"web": web}, again, ask, world=worlds.native())
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert sink.artefacts["ask.out"] == b"200\n"


def test_services_start_once_what_they_need_is_ready() -> None:
    late = shell("sleep 0.5; echo up; sleep 1000", ready={"line": "up"})
    after = program(FOREVER, on="a", needs=["late"], ready={"argv": ["test", "-e", "/proc/self"]})
    last = program(HTTP, needs=["after"], ready={"port": 8080})
    watched = worlds.Patient()
    plan = worlds.plan({**worlds.bridged(), "services": {"last": last, "after": after, "late": late}})
    with Testbed().open(plan, watched):
        started = [step.removeprefix("start ") for step in watched.steps if step.startswith("start ")]
    assert [name for name in started if name in {"late", "after", "last"}] == ["late", "after", "last"]


def test_a_service_has_its_own_environment_and_no_other() -> None:
    os.environ["VIRTLAB_SECRET"] = "hunter2"
    try:
        _, sink = played(
            {"env": shell("env; echo up; sleep 1000", environment={"MODE": "a b"}, ready={"line": "up"})}
        )
    finally:
        del os.environ["VIRTLAB_SECRET"]
    said = sink.artefacts["service-env-b.log"].decode().splitlines()
    assert "MODE=a b" in said
    assert not [line for line in said if "hunter2" in line]


def test_a_program_finds_its_files_where_it_begins() -> None:
    files = {"www/index.html": "hello from a file\n", "page": "GET"}
    web = program(
        [PYTHON, "-u", "-m", "http.server", "8080", "--directory", "www"], files=files, ready={"port": 8080}
    )
    get = "import urllib.request; print(urllib.request.urlopen('http://10.0.0.2:8080/index.html').read())"
    outcome, sink = played({"web": web}, exec_([PYTHON, "-c", get]))
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert b"hello from a file" in sink.artefacts["ask.out"]


def test_words_of_a_service_refer_to_addresses_and_ports() -> None:
    said = 'echo "$@" "$WEB"; sleep 1000'
    words = ["sh", "-c", said, "sh", "{on}", "{web.address}:{web.port}", "{other}"]
    world = worlds.bridged()
    told = program(
        words, on="a", needs=["web"], environment={"WEB": "{web.port}"},
        ready={"argv": ["test", "{on}", "=", "10.0.0.1"]},
    )  # fmt: skip
    outcome, sink = played({"web": program(HTTP, ready={"port": 8080}), "told": told}, world=world)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert sink.artefacts["service-told-a.log"] == b"10.0.0.1 10.0.0.2:8080 {other} 8080\n"


def test_a_service_may_be_another_user() -> None:
    said = (
        "id -u; id -g; touch mine && ls -ln mine | cut -d' ' -f3; grep CapEff /proc/self/status; sleep 1000"
    )
    outcome, sink = played({"as": shell(said, user="4711", files={"a/b": "text"}, ready={"argv": ["id"]})})
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    said_lines = sink.artefacts["service-as-b.log"].decode().split()
    assert said_lines == ["4711", "4711", "4711", "CapEff:", "0" * 16]


def test_a_user_that_there_is_not_is_told() -> None:
    why = failure({"db": program(FOREVER, user="nobody-at-all")})
    assert (why.where, why.what) == ("services.db", "in b: there is no user 'nobody-at-all'")
    assert "/etc/passwd" in why.cure


def test_one_service_may_be_on_several_guests() -> None:
    both = {**program(HTTP, ready={"port": 8080}), "on": ["a", "b"]}
    outcome, sink = played(
        {"web": both}, exec_([PYTHON, "-c", GET], timeout_ns=20_000_000_000, on_timeout="fail")
    )
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert {"service-web-a.log", "service-web-b.log"} <= sink.artefacts.keys()


# Those that misbehave


def test_a_program_that_is_not_there_is_said_to_be_missing() -> None:
    why = failure({"db": program(["/nonexistent/server"])})
    assert why.where == "services.db"
    assert "in b: cannot execute '/nonexistent/server': No such file or directory" in why.what
    assert "install it" in why.cure


def test_a_service_that_dies_at_its_start_is_told_with_the_end_of_its_output() -> None:
    why = failure({"db": shell("echo one; echo cannot open the store >&2; exit 3", ready={"port": 1})})
    assert (why.where, why.what) == (
        "services.db",
        "in b it ended with code 3; its output ends with: one | cannot open the store",
    )
    assert why.artefacts["service-db-b.log"] == b"one\ncannot open the store\n"


def test_a_service_that_is_never_ready_is_told_with_the_last_check() -> None:
    begun = time.monotonic()
    why = failure(
        {"db": shell("echo waiting; sleep 1000", ready={"port": 5432, "timeout_ns": 1_500_000_000})}
    )
    assert "in b it was not ready within 1.5 s; the last check ended with code 1: " in why.what
    assert "refused" in why.what
    assert why.what.endswith("its output ends with: waiting")
    assert time.monotonic() - begun < 30


def test_a_status_of_the_server_that_is_an_error_is_not_ready() -> None:
    ready = {"port": 8080, "http": "/nothing", "timeout_ns": 3_000_000_000}
    assert "GET /nothing was answered with status 404" in failure({"web": program(HTTP, ready=ready)}).what


def test_a_service_that_goes_into_the_background_has_ended() -> None:
    why = failure({"db": shell("sleep 1000 & exit 0", ready={"line": "never"})})
    assert "in b it ended with code 0; it wrote nothing" in why.what
    assert "foreground" in why.cure


def test_a_service_that_dies_in_the_run_fails_it_at_once() -> None:
    begun = time.monotonic()
    outcome, sink = played(
        {"db": shell("echo up; sleep 1; echo lost its store; exit 1", ready={"line": "up"})},
        {"id": "pass", "do": "wait", "for_ns": 25_000_000_000},
    )
    assert outcome.status == "failed"
    assert time.monotonic() - begun < 20
    assert outcome.reasons[0].startswith(
        "services.db: in b it ended with code 1; its output ends with: up | lost its store"
    )
    assert len([reason for reason in outcome.reasons if reason.startswith("services.db")]) == 1
    assert sink.artefacts["service-db-b.log"] == b"up\nlost its store\n"


def test_a_service_that_floods_ends_the_run_at_once_and_its_output_is_bounded() -> None:
    outcome, sink = played(
        {"db": shell("echo up; sleep 0.3; yes flood", ready={"line": "up"})},
        {"id": "pass", "do": "wait", "for_ns": 25_000_000_000},
    )
    assert outcome.status == "failed"
    assert "pass.done" not in outcome.marks, "nothing waited for its end"
    assert "services.db: in b it wrote more than 16 MiB; its output ends with: flood" in outcome.reasons[0]
    assert len(sink.artefacts["service-db-b.log"]) == 16 << 20


def test_a_service_that_floods_at_its_start_does_not_hang_it() -> None:
    assert "wrote more than 16 MiB" in failure({"db": shell("yes flood", ready={"port": 1})}).what


def test_a_service_that_fills_its_folder_harms_only_itself() -> None:
    before = os.statvfs("/tmp").f_bavail
    fill = "head -c 1G /dev/zero > /tmp/all; echo code $?; ls /tmp; sleep 1000"
    outcome, sink = played({"db": shell(fill, ready={"line": "code"})})
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert b"No space left on device" in sink.artefacts["service-db-b.log"]
    state = os.statvfs("/tmp")
    assert (before - state.f_bavail) * state.f_bsize < 256 << 20


# What a timeline asks of them


def call(name: str, op: str, after: str | None = None, **more: Any) -> dict[str, Any]:
    trigger = {} if after is None else {"after": {"event": after}}
    return {"id": name, "do": "call", "service": "web", "op": op, **trigger, **more}


REFUSED = f"try:\n {GET}\nexcept OSError as error: print(error)"
WEB = program(HTTP, ready={"port": 8080, "http": "/"})


def test_a_service_that_is_failed_answers_no_more_until_it_is_healed() -> None:
    outcome, sink = played(
        {"web": WEB},
        call("lose", "fail"),
        {**exec_([PYTHON, "-c", REFUSED]), "id": "without", "after": {"event": "lose.done"}},
        call("back", "heal", "without.finished"),
        {**exec_([PYTHON, "-c", REFUSED]), "id": "with", "after": {"event": "back.done"}},
    )
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert b"refused" in sink.artefacts["without.out"]
    assert sink.artefacts["with.out"] == b"200\n"
    assert (
        outcome.marks["lose.done"].t_ns < outcome.marks["back.started"].t_ns < outcome.marks["back.done"].t_ns
    )


def test_a_restart_is_done_once_the_service_is_ready_again() -> None:
    slow = shell("echo up; sleep 0.7; exec " + " ".join(HTTP), ready={"port": 8080})
    outcome, sink = played(
        {"web": slow},
        call("again", "restart"),
        exec_([PYTHON, "-c", GET]) | {"after": {"event": "again.done"}},
    )
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert sink.artefacts["ask.out"] == b"200\n"
    assert outcome.marks["again.done"].t_ns - outcome.marks["again.started"].t_ns > 700_000_000
    assert sink.artefacts["service-web-b.log"].count(b"up\n") == 2


def test_one_guest_of_a_service_can_be_failed_alone() -> None:
    both = {**WEB, "on": ["a", "b"]}
    outcome, sink = played(
        {"web": both},
        call("lose", "fail", args={"guest": "a"}),
        exec_([PYTHON, "-c", GET]) | {"after": {"event": "lose.done"}},
    )
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert sink.artefacts["ask.out"] == b"200\n"


def test_a_wait_lasts_until_the_service_is_ready() -> None:
    outcome, _ = played(
        {"web": WEB},
        call("lose", "fail"),
        {"id": "pass", "do": "wait", "for_ns": 600_000_000, "after": {"event": "lose.done"}},
        call("back", "heal", "pass.done"),
        {
            "id": "whole", "do": "wait", "until": {"call": "web.ready", "every_ns": 50_000_000},
            "timeout_ns": 20_000_000_000, "on_timeout": "fail", "after": {"event": "lose.done"},
        },
    )  # fmt: skip
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert outcome.marks["whole.done"].t_ns >= outcome.marks["back.done"].t_ns


@pytest.mark.parametrize(
    ("on_timeout", "status"),
    [("censor", {"ok", "tainted"}), ("cancel", {"ok", "tainted"}), ("fail", {"failed"})],
)
def test_a_wait_in_vain_ends_as_the_file_says(on_timeout: str, status: set[str]) -> None:
    outcome, _ = played(
        {"web": WEB},
        call("lose", "fail"),
        {
            "id": "whole", "do": "wait", "until": {"call": "web.ready"}, "timeout_ns": 500_000_000,
            "on_timeout": on_timeout, "after": {"event": "lose.done"},
        },
    )  # fmt: skip
    assert outcome.status in status, outcome.reasons
    assert outcome.censored == (("whole",) if on_timeout == "censor" else ())


def test_a_restart_that_is_never_ready_fails_the_run_with_its_output() -> None:
    once = "test -e /tmp/ran && echo no longer; touch /tmp/ran"
    broken = shell(f"{once}; sleep 1000", ready={"argv": ["sh", "-c", "exit 1"], "timeout_ns": 700_000_000})
    why = failure({"web": broken})
    assert "the last check ended with code 1" in why.what
    fragile = shell("echo $$ up; exec " + " ".join(HTTP), ready={"port": 8080, "timeout_ns": 4_000_000_000})
    blocked = exec_(
        [
            PYTHON,
            "-c",
            "import socket, time; s = socket.create_server(('', 8080)); print('has it', flush=True); time.sleep(60)",
        ],
        guest="b",
    )
    outcome, _ = played(
        {"web": fragile},
        call("lose", "fail"),
        {**blocked, "after": {"event": "lose.done"}},
        {"id": "pass", "do": "wait", "for_ns": 1_000_000_000, "after": {"event": "ask.started"}},
        call("back", "heal", "pass.done"),
    )
    assert outcome.status == "failed"
    assert outcome.reasons[0].startswith("services.web: in b it ended with code 1")
    assert "Address already in use" in outcome.reasons[0]


def test_each_trial_begins_with_its_services_whole() -> None:
    actions = [call("lose", "fail"), exec_([PYTHON, "-c", REFUSED]) | {"after": {"event": "lose.done"}}]
    look = [
        {**exec_([PYTHON, "-c", GET]), "id": "before"},
        *(
            {**each, "after": {"event": "before.finished"}} if each["id"] == "lose" else each
            for each in actions
        ),
    ]
    plan = worlds.plan(
        {**worlds.bridged(), "services": {"web": WEB}}, timeline=look, limits={"run_ns": 30_000_000_000}
    )
    with Testbed().open(plan, worlds.Patient()) as session:
        for number in range(2):
            sink = worlds.MemorySink()
            outcome = session.run(Trial(f"t{number}", number), sink)
            assert outcome.status in {"ok", "tainted"}, outcome.reasons
            assert sink.artefacts["before.out"] == b"200\n"


# Their end


def test_services_and_what_they_forked_end_with_the_world() -> None:
    before = worlds.own_processes()
    daemon = "setsid sh -c 'sleep 987654 & sleep 987654' & echo up; sleep 987654"
    services = {"db": shell(daemon, ready={"line": "up"}), "web": program(HTTP, on="a", ready={"port": 8080})}
    with Testbed().open(worlds.plan({**worlds.bridged(), "services": services}), worlds.Patient()):
        assert sleeping()
    deadline = time.monotonic() + 10
    while sleeping() and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not sleeping()
    assert worlds.own_processes() <= before


def sleeping() -> list[str]:
    """Processes of this machine with the services' own command line."""
    found = []
    for entry in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if (entry / "cmdline").read_bytes() == b"sleep\x00987654\x00":
                found.append(entry.name)
    return found


def test_a_command_of_the_timeline_runs_beside_services() -> None:
    outcome, sink = played({"web": program(HTTP, ready={"port": 8080})}, exec_(["echo", "hello"], guest="b"))
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert sink.artefacts["ask.out"] == b"hello\n"


def test_one_that_writes_where_files_are_read_only_is_told_where_it_may() -> None:
    error = failure({"web": shell("mkdir /var/lib/nginx-of-this-test; exit 1", ready={"port": 8080})})
    assert "Read-only file system" in error.what
    assert "below /tmp" in error.cure
