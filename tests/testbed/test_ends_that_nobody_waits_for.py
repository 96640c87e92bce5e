"""Guests, and what carries them, that end while nobody asks for news: between trials, and while others still boot."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import container_world as containers
import machine_world as machines
import process_world as processes
import pytest
import testbed_world as worlds

from virtlab.agents.requests.leader import Kill
from virtlab.errors import GuestError, VirtlabError
from virtlab.plan import Action, Trial
from virtlab.testbed import Testbed
from virtlab.testbed.leader import control
from virtlab.testbed.platforms.qemu import machines as runtime
from virtlab.testbed.play.run import Pass
from virtlab.testbed.play.timeline import Timeline
from virtlab.testbed.session import TestbedSession

pytestmark = pytest.mark.timeout(300)
MACHINES = pytest.mark.skipif(machines.missing() is not None, reason=str(machines.missing()))
CONTAINERS = pytest.mark.skipif(containers.missing() is not None, reason=str(containers.missing()))


class Meddler(worlds.Patient):
    """Does something once, as soon as what is done is of a kind."""

    def __init__(self, at: str, act: Callable[[], None]) -> None:
        super().__init__()
        self.at = at
        self.act: Callable[[], None] | None = act

    def cancelled(self) -> bool:
        if self.act is not None and any(self.at in step for step in self.steps):
            act, self.act = self.act, None
            act()
        return False


@pytest.mark.parametrize(
    ("platform", "word", "ended"),
    [
        pytest.param("qemu", b"guest=g3,", "its virtual machine ended with signal 9", marks=MACHINES),
        pytest.param("container", b"run\0", "its container ended with signal 9", marks=CONTAINERS),
    ],
)
def test_a_guest_that_no_role_is_in_and_that_ends_between_trials_fails_the_next(
    platform: str, word: bytes, ended: str
) -> None:
    world = worlds.one_host(3)
    world["guests"]["g3"]["platform"] = platform
    plan = worlds.echo_plan(world, source="g1", target="g2")
    # With series, questions to all guests pass over whatever news there is.
    plan = plan.model_validate(
        {
            **plan.model_dump(mode="json", by_alias=True),
            "collect": {
                "packets": ["probe"], "counters": ["vnics"], "series": [{"source": "host.cpu", "every_ns": 10**8}],
            },
        }
    )  # fmt: skip
    with Testbed().open(plan, worlds.Patient()) as session:
        assert isinstance(session, TestbedSession)
        before = session.run(Trial("t0", 1), worlds.MemorySink())
        assert before.status in {"ok", "tainted"}, before.reasons
        os.kill(processes.process_of(session, word), signal.SIGKILL)
        # What would be measured now would be measured in another world.
        try:
            after = session.run(Trial("t1", 2), worlds.MemorySink())
        except (
            GuestError
        ) as error:  # who has a kernel of its own is asked for its samples, and so missed at once
            reasons: tuple[str, ...] = (str(error),)
        else:
            assert after.status == "failed"
            reasons = after.reasons
    told = [reason for reason in reasons if "ended with" in reason]
    assert len(told) == 1, told
    assert told[0].startswith(f"guests.g3: {ended}")


@pytest.mark.parametrize(
    ("platform", "word", "ended"),
    [
        pytest.param("qemu", b"guest=g1,", "its virtual machine ended with signal 9", marks=MACHINES),
        pytest.param("container", b"run\0", "its container ended with signal 9", marks=CONTAINERS),
    ],
)
def test_a_guest_that_ends_in_mid_run_is_told_once_however_slowly_the_news_comes(
    platform: str, word: bytes, ended: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That the guest ended, and that all in it did, are two pieces of news; between them its probe is asked to stop."""
    world = worlds.one_host(2)
    world["guests"]["g1"]["platform"] = platform
    plan = worlds.echo_plan(world, source="g1", target="g2", count=2000)
    with Testbed().open(plan, worlds.Patient()) as session:
        assert isinstance(session, TestbedSession)
        victim = processes.process_of(session, word)

        def kill() -> None:
            monkeypatch.setattr(control, "_CHUNK", 1)  # bytes read at once
            os.kill(victim, signal.SIGKILL)

        outcome = session.run(Trial("t0", 1), worlds.ActingSink(kill))
    assert outcome.status == "failed"
    told = [reason for reason in outcome.reasons if "ended with" in reason]
    assert len(told) == 1, told
    assert told[0].startswith(f"guests.g1: {ended}")


def test_a_probe_that_ends_once_its_role_has_is_what_the_run_fails_of(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nobody asks it anything between the end of the traffic and the collecting of its samples."""
    plan = worlds.echo_plan(worlds.one_host(2), source="g1", target="g2")
    with Testbed().open(plan, worlds.Patient()) as session:
        collect = Pass._collect

        def killing(self: Pass) -> None:
            channel = self.probes.channels["g1"]
            self.control.call(Kill(channel=channel, signal=9))
            while self.control.ended(channel) is None:
                self.control.await_news(1.0)
            collect(self)

        monkeypatch.setattr(Pass, "_collect", killing)
        outcome = session.run(Trial("t0", 1), worlds.MemorySink())
    assert outcome.status == "failed"
    # What follows, if anything, is that the machine was busy.
    assert outcome.reasons[0] == "the probe of guest g1 ended with signal 9", outcome.reasons
    assert not [each for each in outcome.reasons[1:] if "ended" in each or "failed" in each], outcome.reasons


def test_a_command_that_nobody_waits_for_is_no_news_of_the_next_trial() -> None:
    """The limit ends the trial, and the command in it; the next one's has the same channel."""
    action = {"id": "long", "do": "exec", "guest": "g1", "argv": ["sh", "-c", "echo begun; exec sleep 60"]}
    plan = worlds.plan(worlds.one_host(2), timeline=[action], limits={"run_ns": 3_000_000_000})
    with Testbed().open(plan, worlds.Patient()) as session:
        for number in range(3):
            sink = worlds.MemorySink()
            outcome = session.run(Trial(f"t{number}", 1), sink)
            assert outcome.reasons == ("limits.run_ns: not over within 3 s",)
            assert sink.artefacts["long.out"] == b"begun\n"


@MACHINES
def test_a_machine_that_ends_once_it_has_answered_is_told_by_name_while_others_boot(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    victims: list[str] = []
    look = runtime.Machines._look

    def killing(self: runtime.Machines, machine: runtime.Started) -> int:
        if not victims:
            victims.append(machine.name)
            (pid,) = processes.named(f"guest={machine.name},".encode())
            os.kill(pid, signal.SIGKILL)
        return look(self, machine)

    monkeypatch.setattr(runtime.Machines, "_look", killing)
    before = worlds.own_processes()
    plan = worlds.echo_plan(machines.machines(worlds.one_host(2)), source="g1", target="g2")
    with pytest.raises(
        GuestError, match=r"its virtual machine ended with signal 9; its console ends with: "
    ) as error:
        Testbed().open(plan, worlds.Patient())
    assert error.value.where == f"guests.{victims[0]}"
    assert error.value.cure
    assert worlds.own_processes() <= before


@MACHINES
def test_a_leader_that_ends_while_machines_boot_is_told_at_once() -> None:
    before = worlds.own_processes()

    def kill_leader() -> None:
        for pid in worlds.own_processes() - before:
            os.kill(pid, signal.SIGKILL)

    meddler = Meddler("boot 2 virtual machines", kill_leader)
    plan = worlds.echo_plan(machines.machines(worlds.one_host(2)), source="g1", target="g2")
    with pytest.raises(VirtlabError, match="the leader is gone"):
        Testbed().open(plan, meddler)
    assert meddler.act is None
    assert worlds.own_processes() <= before


@CONTAINERS
def test_more_commands_than_a_container_has_channels_run_in_it_one_after_the_other() -> None:
    actions = [
        {
            "id": f"say{number}", "do": "exec", "guest": "g1", "argv": ["sh", "-c", f"echo {number}"],
            **({"after": {"event": f"say{number - 1}.finished"}} if number else {}),
        }
        for number in range(20)
    ]  # fmt: skip
    limits = {"run_ns": 60_000_000_000}
    plan = worlds.plan(containers.beside_a_namespace(), timeline=actions, limits=limits)
    with Testbed().open(plan, worlds.Patient()) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    for number in range(20):
        assert sink.artefacts[f"say{number}.out"].decode().strip() == str(number)


@CONTAINERS
def test_more_commands_at_once_than_a_container_has_channels_are_refused_by_name() -> None:
    actions = [
        {"id": f"wait{number}", "do": "exec", "guest": "g1", "argv": ["sleep", "20"]} for number in range(20)
    ]
    limits = {"run_ns": 60_000_000_000}
    plan = worlds.plan(containers.beside_a_namespace(), timeline=actions, limits=limits)
    with Testbed().open(plan, worlds.Patient()) as session:
        outcome = session.run(Trial("t0", 1), worlds.MemorySink())
    assert outcome.status == "failed"
    told = [reason for reason in outcome.reasons if "and no more can at once" in reason]
    assert told
    assert all(reason.endswith("let some end first, with 'wait'") for reason in told)


def test_a_command_that_ends_by_itself_as_its_time_is_up_is_one_that_was_not_over(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever then asks for its end is told that nothing runs there: the news of it is on its way."""
    give_up = Pass._give_up

    def late(self: Pass, action: Action, timeline: Timeline) -> None:
        for channel in self.commands:
            self.control.call(Kill(channel=channel, signal=9))
            while self.control.ended(channel) is None:
                self.control.await_news(1.0)
        give_up(self, action, timeline)

    monkeypatch.setattr(Pass, "_give_up", late)
    action = {
        "id": "long", "do": "exec", "guest": "g1", "argv": ["sleep", "60"], "timeout_ns": 200_000_000,
        "on_timeout": "censor",
    }  # fmt: skip
    plan = worlds.plan(worlds.one_host(2), timeline=[action], limits={"run_ns": 30_000_000_000})
    with Testbed().open(plan, worlds.Patient()) as session:
        outcome = session.run(Trial("t0", 1), worlds.MemorySink())
    assert (outcome.status, outcome.reasons, outcome.censored) == ("ok", (), ("long",))


@MACHINES
def test_a_command_in_a_machine_that_is_reset_ends_with_what_it_wrote_until_then() -> None:
    actions = [
        {"id": "long", "do": "exec", "guest": "g1", "argv": ["sh", "-c", "echo begun; sleep 600"]},
        {
            "id": "away", "do": "reset", "guest": "g1", "for_ns": 0,
            "after": {"event": "long.started", "plus_ns": 2_000_000_000},
        },
        {
            "id": "again", "do": "exec", "guest": "g1", "argv": ["sh", "-c", "echo again"],
            "after": {"all": ["long.failed", "away.done"]},
        },
    ]  # fmt: skip
    limits = {"run_ns": 240_000_000_000}
    plan = worlds.plan(machines.beside_a_namespace(), timeline=actions, limits=limits)
    sink = worlds.MemorySink()
    with Testbed().open(plan, worlds.Patient()) as session:
        outcome = session.run(Trial("t0", 1), sink)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert sink.artefacts["long.out"] == b"begun\n"
    assert sink.artefacts["again.out"] == b"again\n"
    (told,) = [event for event in sink.events if event.what == "long.failed"]
    assert told.details == {"ended": "g1 was reset"}


@MACHINES
def test_a_machine_that_answers_no_more_is_told_by_name_with_its_console(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whoever is asked next may be any agent in it: which question that was says little."""
    wait = control.Control.wait

    def impatient(
        self: control.Control, asked: control.Pending[Any], *, timeout_s: float = control.CALL_TIMEOUT_S
    ) -> Any:
        return wait(self, asked, timeout_s=1.0 if asked.channel == leader else timeout_s)

    plan = worlds.echo_plan(machines.machines(worlds.one_host(3), "g3"), source="g1", target="g2")
    with Testbed().open(plan, worlds.Patient()) as session:
        assert isinstance(session, TestbedSession)
        leader, _ = session.leaders()["g3"]
        os.kill(processes.process_of(session, b"guest=g3,"), signal.SIGSTOP)
        monkeypatch.setattr(control.Control, "wait", impatient)
        with pytest.raises(
            GuestError, match=r"it gave no answer within 1 s; its console ends with: "
        ) as error:
            session.run(Trial("t0", 1), worlds.MemorySink())
    assert error.value.where == "guests.g3"
    assert "console-g3.log" in error.value.artefacts
