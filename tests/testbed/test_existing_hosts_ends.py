"""How the end of a connection, and what a dead owner left, are dealt with without anybody waiting for it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import far_world as far_worlds
import pytest
import testbed_world as worlds
from test_existing_hosts import existing, opened, plan_of
from test_existing_hosts_cut import await_none, kill_client

from virtlab.agents import Notice
from virtlab.agents.requests.every import ReadClock
from virtlab.errors import MachineError
from virtlab.testbed.leader import branch as branches
from virtlab.testbed.leader import far_ledger
from virtlab.testbed.platforms.ssh import connection as connections

pytestmark = [
    pytest.mark.skipif(far_worlds.missing() is not None, reason=str(far_worlds.missing())),
    pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing())),
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("reached"),
]
NAMES = ("virtlab-agent-0123456789abcdef", "virtlab-agent-0123456789abcdee", "virtlab-agent-0123456789abcded")


class Slow:
    """A connection whose ssh client takes its time to end after its stream did."""

    def __init__(self, real: Any) -> None:
        self._real = real
        self.over = False
        self.looks = self.agains = self.judged = 0

    def again(self, process: int) -> Any:
        self.agains += 1
        return self._real.again(process)

    def settled(self) -> bool:
        self.looks += 1
        return self.over

    def hopeless(self) -> bool:
        self.judged += 1
        return bool(self._real.hopeless())


def test_others_are_heard_while_an_ended_connection_has_not_said_why(
    far: far_worlds.FarHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(branches, "SETTLE_S", 60.0)
    with opened(plan_of()) as session:
        control = session.leader.control
        host = existing(session).hosts["b"]
        branch = control._branch(host.leader)
        assert branch is not None
        branch.renewal = slow = Slow(branch.renewal)
        kill_client(session, far, "b")
        deadline = time.monotonic() + 30
        while branch.cut_s is None and time.monotonic() < deadline:
            control.pump(0.05)
        assert branch.stream is None
        # Our own leader and the other host answer, and it is looked again and again whether the client ended.
        for channel in (0, existing(session).hosts["a"].leader):
            for _ in range(3):
                assert "raw_ns" in control.call(ReadClock(), channel=channel)
        while slow.looks < 5 and time.monotonic() < deadline:
            control.pump(0.05)
        assert (slow.looks >= 5, slow.agains, slow.judged) == (True, 0, 0)
        assert [each for each in control.messages(0.0) if isinstance(each, Notice)] == []
        slow.over = True
        assert "raw_ns" in control.call(ReadClock(), channel=host.leader)
        told = [each.name for each in control.messages(0.0) if isinstance(each, Notice)]
        assert told == ["cut", "mended"]
        assert (slow.agains, slow.judged) == (1, 1)
    for name in far_worlds.NAMES:
        await_none(far, name)


def left_behind(address: str) -> None:
    """As the deaths of owners would."""
    for name in NAMES:
        far_ledger.note("ssh", address, name).close(gone=False)


def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names whose removal is asked for from now on."""
    names: list[str] = []
    really = connections.Connection._remove_there

    def remove(connection: connections.Connection, name: str) -> bool:
        names.append(name)
        return really(connection, name)

    monkeypatch.setattr(connections.Connection, "_remove_there", remove)
    return names


def test_nobody_tidies_up_at_a_host_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    left_behind("host-nowhere")
    names = asked(monkeypatch)
    with pytest.raises(MachineError, match=r"guests\.b: host-nowhere cannot be reached by ssh: "):
        opened(plan_of(second="host-nowhere"))
    assert names == []
    assert len(list(far_ledger.folder().glob("*"))) == len(NAMES), "they are for whoever gets there"


def test_what_cannot_be_removed_is_tried_once_and_stands_in_the_record(
    far: far_worlds.FarHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_behind(f"{far_worlds.USER}@host-a")
    names = asked(monkeypatch)
    for name in NAMES:  # a folder is no file, and not the user's
        far.run("a", "mkdir", f"/tmp/{name}")
    try:
        plan = plan_of(f"{far_worlds.USER}@host-a", protocol="udp")
        with opened(plan) as session:
            told = session.realised.objects["guests.a"].read_back["left_by_others"]
            assert "left_by_others" not in session.realised.objects["guests.b"].read_back
    finally:
        for name in NAMES:
            far.run("a", "rmdir", f"/tmp/{name}")
    assert len(names) == 1
    assert sorted(told.split(", ")) == sorted(NAMES)
    with opened(plan) as session:
        assert "left_by_others" not in session.realised.objects["guests.a"].read_back
    assert len(names) == 1 + len(NAMES)
    assert list(far_ledger.folder().glob("*")) == []


def test_a_place_that_keeps_one_thing_is_not_asked_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    left_behind("host-a")
    far_ledger.note("ssh", "host-b", "virtlab-agent-of-another-place").close(gone=False)
    asked_for: list[str] = []

    def keep(name: str) -> bool:
        asked_for.append(name)
        return False

    swept = far_ledger.sweep("ssh", "host-a", keep, once=True)
    assert (len(asked_for), swept.gone, sorted(swept.stayed)) == (1, (), sorted(NAMES))
    swept = far_ledger.sweep("ssh", "host-a", lambda name: name == NAMES[0])
    assert len(swept.gone) + len(swept.stayed) == len(NAMES)
    assert len(list(far_ledger.folder().glob("*"))) == 1 + len(swept.stayed)
