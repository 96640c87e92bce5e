"""Connections to existing hosts that are cut in mid-run, and come back: nothing is lost by it and nothing comes
twice.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import far_world as far_worlds
import numpy as np
import pytest
import testbed_world as worlds
from test_existing_hosts import existing, opened, plan_of

from virtlab.plan import Columns, Plan, Trial
from virtlab.testbed.platforms.ssh import connection as connections
from virtlab.testbed.session import TestbedSession

pytestmark = [
    pytest.mark.skipif(far_worlds.missing() is not None, reason=str(far_worlds.missing())),
    pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing())),
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("reached"),
]
COUNT = 400
LONG = 1000  # far longer than it takes to cut some connections
ENDED_S = 40.0


def client_pid(session: TestbedSession, guest: str) -> int:
    """The ssh client that holds a guest's connection at the moment."""
    return int(existing(session).hosts[guest].connection._process.pid)


def kill_client(session: TestbedSession, far: far_worlds.FarHosts, guest: str) -> None:
    """Cuts a connection here: its ssh client is killed."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(client_pid(session, guest), signal.SIGKILL)


def kill_server(session: TestbedSession, far: far_worlds.FarHosts, guest: str) -> None:
    """Cuts a connection there: whatever of sshd serves it is killed, what it had started is not."""
    for pid in far.processes(guest):
        with contextlib.suppress(OSError):
            if Path(f"/proc/{pid}/comm").read_text().startswith("sshd"):
                os.kill(pid, signal.SIGKILL)


def happened(sink: worlds.MemorySink, what: str) -> list[str]:
    """The guests of events of one kind, in order."""
    return [str(event.details["guest"]) for event in sink.events if event.what == f"connection.{what}"]


def one_of_each(sink: worlds.MemorySink, schema: str, count: int) -> bool:
    """Whether requests 0 to `count` - 1 have one row each."""
    numbers = [columns["seq"] for _, kind, columns in sink.blocks if kind == schema]
    return np.array_equal(np.sort(np.concatenate(numbers)), np.arange(count))


def await_none(far: far_worlds.FarHosts, name: str) -> None:
    """Returns when nothing runs in a host; what serves a connection that was cut ends a little after it."""
    deadline = time.monotonic() + ENDED_S
    while (left := far.processes(name)) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == []


@pytest.mark.parametrize("cut", [kill_client, kill_server])
def test_connections_cut_while_a_role_plays_lose_nothing_and_double_nothing(
    far: far_worlds.FarHosts, cut: Callable[[TestbedSession, far_worlds.FarHosts, str], None]
) -> None:
    with opened(plan_of(count=LONG)) as session:
        over = threading.Event()

        def cutting() -> None:
            for guest in ("a", "b", "a", "b"):
                if not over.wait(0.35):
                    cut(session, far, guest)

        sink = worlds.ActingSink(cutting, later_s=0.0)
        outcome = session.run(Trial("t0", 1), sink)
        over.set()
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        assert one_of_each(sink, "sent/1", LONG)
        assert one_of_each(sink, "rtt/1", LONG)
        assert {"a", "b"} <= set(happened(sink, "cut"))
        assert sorted(happened(sink, "mended")) == sorted(happened(sink, "cut"))
        # What was kept for a connection that broke is not left behind for the next trial.
        again = worlds.MemorySink()
        assert session.run(Trial("t1", 2), again).status in {"ok", "tainted"}
        assert one_of_each(again, "rtt/1", LONG)
    for name in far_worlds.NAMES:
        await_none(far, name)


class CuttingSink(worlds.MemorySink):
    """Cuts a connection each time that so many blocks have come: in the middle of the samples."""

    def __init__(self, every: int, cut: Callable[[], None]) -> None:
        super().__init__()
        self._every, self._cut = every, cut
        self.cuts = 0

    def block(self, stream: str, schema: str, columns: Columns) -> None:
        super().block(stream, schema, columns)
        if stream == "load" and len(self.blocks) % self._every == 0:
            self.cuts += 1
            self._cut()


def loaded() -> Plan:
    """As many datagrams as the hosts exchange in a second."""
    plan = plan_of()
    load: dict[str, Any] = {
        "workload": "udp_stream", "from": "a", "to": "b",
        "parameters": {"ip_packet_bytes": 200, "rate_bit_per_s": 100_000_000, "duration_ns": 2_000_000_000},
    }  # fmt: skip
    values = plan.model_dump(mode="json", exclude_none=True, by_alias=True)
    values["roles"] = {"load": {key: load[key] for key in ("workload", "from", "to")} | load["parameters"]}
    values["timeline"] = [{"id": "measure", "do": "run", "role": "load"}]
    values["collect"]["packets"] = ["load"]
    return Plan.model_validate(values)


@pytest.mark.parametrize("cut", [kill_client, kill_server])
def test_a_connection_cut_again_and_again_in_the_middle_of_the_samples_delivers_each_row_once(
    far: far_worlds.FarHosts, cut: Callable[[TestbedSession, far_worlds.FarHosts, str], None]
) -> None:
    with opened(loaded()) as session:
        sink = CuttingSink(3, lambda: cut(session, far, "b"))
        outcome = session.run(Trial("t0", 1), sink)
        assert not [reason for reason in outcome.reasons if "failed" in reason or "ended" in reason]
        assert sink.cuts >= 2
        assert "b" in happened(sink, "cut")
        counted = sink.counters("stop")
        rows = counted["load/server", "received_packets"] + counted["load/server", "duplicate_packets"]
        numbers = np.concatenate(
            [
                columns["seq"]
                for stream, kind, columns in sink.blocks
                if (stream, kind) == ("load", "packet/1")
            ]
        )
        assert len(numbers) == rows - counted.get(("load/server", "spool_overflow"), 0)
        assert len(np.unique(numbers)) == counted["load/server", "received_packets"]


def test_a_connection_that_comes_in_late_puts_off_the_one_that_holds_and_nothing_is_lost(
    far: far_worlds.FarHosts,
) -> None:
    with opened(plan_of(count=5 * COUNT)) as session:
        host = existing(session).hosts["b"]
        branch = session.leader.control._branch(host.leader)

        def late() -> None:
            kill_client(session, far, "b")
            while not happened(sink, "mended"):
                time.sleep(0.05)
            script = connections._REJOIN.replace("PROCESS", str(branch._line.far_process))
            command = f"sh -c '{script.replace('NAME', host.connection._name)}'"
            argv = [*connections.client(), "-T", host.connection.address, command]
            other = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            assert other.stdout is not None
            assert other.stdout.read(4) == b"VLAB"  # it was let in
            other.kill()
            other.wait()

        sink = worlds.ActingSink(late)
        outcome = session.run(Trial("t0", 1), sink)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        assert (happened(sink, "cut"), happened(sink, "mended")) == (["b", "b"], ["b", "b"])
        assert one_of_each(sink, "rtt/1", 5 * COUNT)


def test_a_network_that_is_away_for_a_while_is_waited_for(far: far_worlds.FarHosts) -> None:
    with opened(plan_of(count=LONG)) as session:

        def away() -> None:
            far.run("middle", "ip", "link", "set", "port2", "down")
            kill_client(session, far, "b")
            time.sleep(1.5)
            far.run("middle", "ip", "link", "set", "port2", "up")

        sink = worlds.ActingSink(away)
        outcome = session.run(Trial("t0", 1), sink)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        assert (happened(sink, "cut"), happened(sink, "mended")) == (["b"], ["b"])
        # The network lost echoes; the connection that was cut with it lost no row.
        assert one_of_each(sink, "sent/1", LONG)


def test_a_host_that_does_not_come_back_fails_the_run_and_its_agent_ends_by_itself() -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder, far_worlds.far_hosts(Path(folder)) as mortal:
        os.environ["VIRTLAB_SSH"] = mortal.command
        with opened(plan_of(count=4000)) as session:

            def cut() -> None:
                mortal.daemons["b"].kill()
                mortal.daemons["b"].wait()
                kill_server(session, mortal, "b")

            outcome = session.run(Trial("t0", 1), worlds.ActingSink(cut))
            assert outcome.status == "failed"
            assert any(
                reason.startswith("guests.b: its connection to host-b ") for reason in outcome.reasons
            ), outcome.reasons
        await_none(mortal, "b")


def test_nobody_but_the_same_user_gets_to_the_line_of_a_host(far: far_worlds.FarHosts) -> None:
    knock = (
        "import os, socket, sys; user = int(sys.argv[2]); os.setresuid(user, user, user); "
        "one = socket.socket(socket.AF_UNIX); one.settimeout(20); "
        "one.connect('\\0virtlab-line-' + sys.argv[1]); print(one.recv(64))"
    )
    with opened(plan_of()) as session:
        name = existing(session).hosts["a"].connection._name
        heard = far.run("a", "python3", "-c", knock, name, str(far_worlds._USER_ID))
        assert heard.strip() == "b''"
        sink = worlds.MemorySink()
        assert session.run(Trial("t0", 1), sink).status in {"ok", "tainted"}
        assert happened(sink, "cut") == []
