"""What an agent started on an existing host ends with it, whatever it made of itself and however the run ended."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import far_world as far_worlds
import pytest
import testbed_world as worlds
from test_existing_hosts import opened, plan_of
from test_existing_hosts_nothing_left import OWNER

from virtlab.plan import Plan, Trial

pytestmark = [
    pytest.mark.skipif(far_worlds.missing() is not None, reason=str(far_worlds.missing())),
    pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing())),
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("reached"),
]
ENDED_S = 40.0
MARK = "7777"  # seconds that nothing else here sleeps
# It leaves processes in a session of their own, with another parent, deaf to signals; then it stays, or not.
LEAVES = f"(setsid sh -c 'trap \"\" HUP TERM INT; (sleep {MARK} & sleep {MARK} & wait)' &); "
STAYS = LEAVES + f"exec sleep {MARK}"
SLEEPERS = 3


def commanded(user: str, command: str = STAYS) -> Plan:
    """The Plan of two existing hosts whose guest `a` runs the command while the role plays."""
    plan = plan_of(f"{user}@host-a", f"{user}@host-b", protocol="udp", count=400)
    values: dict[str, Any] = plan.model_dump(mode="json", exclude_none=True, by_alias=True)
    values["timeline"] = [
        {"id": "command", "do": "exec", "guest": "a", "argv": ["sh", "-c", command]},
        *values["timeline"],
    ]
    return Plan.model_validate(values)


def sleepers(far: far_worlds.FarHosts) -> list[int]:
    """Processes of host a that sleep for us."""
    found = []
    for pid in far.processes("a"):
        try:
            if MARK.encode() in Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0"):
                found.append(pid)
        except OSError:
            continue
    return found


def await_sleepers(far: far_worlds.FarHosts, count: int = SLEEPERS) -> None:
    deadline = time.monotonic() + ENDED_S
    while len(sleepers(far)) < count and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(sleepers(far)) == count, "the command never ran"


def await_none(far: far_worlds.FarHosts, name: str) -> None:
    deadline = time.monotonic() + ENDED_S
    while (left := far.processes(name)) and time.monotonic() < deadline:
        time.sleep(0.05)
    told = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in left if Path(f"/proc/{pid}").exists()]
    assert not left, shlex.join(text.decode(errors="replace") for text in told)


def owner_of(plan: Plan) -> subprocess.Popen[bytes]:
    argv = [sys.executable, "-c", OWNER, str(Path(__file__).parent)]
    owner = subprocess.Popen(
        argv, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    assert owner.stdin is not None
    owner.stdin.write(plan.canonical().encode())
    owner.stdin.close()
    return owner


@pytest.mark.parametrize("user", ["root", far_worlds.USER])
def test_commands_end_with_an_owner_that_is_killed(far: far_worlds.FarHosts, user: str) -> None:
    owner = owner_of(commanded(user))
    try:
        await_sleepers(far)
    finally:
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    for name in far_worlds.NAMES:
        await_none(far, name)


def test_commands_end_with_a_run_that_ends_well(far: far_worlds.FarHosts) -> None:
    with opened(commanded(far_worlds.USER, LEAVES)) as session:
        outcome = session.run(Trial("t0", 1), worlds.MemorySink())
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        await_sleepers(far, SLEEPERS - 1)  # a command that ended is not asked what it left
    for name in far_worlds.NAMES:
        await_none(far, name)


@pytest.mark.parametrize("victim", ["leader", "carrier"])
def test_commands_end_with_an_agent_that_is_killed(far: far_worlds.FarHosts, victim: str) -> None:
    owner = owner_of(commanded(far_worlds.USER))
    try:
        await_sleepers(far)
        # The agent's two processes have one command line; the carrier is what the shell of the login became.
        agents = [pid for pid in far.processes("a") if b"\0remote\0" in command_line(pid)]
        leader = next(pid for pid in agents if parent(pid) in agents)
        os.kill(leader if victim == "leader" else parent(leader), signal.SIGKILL)
        deadline = time.monotonic() + ENDED_S
        while sleepers(far) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert sleepers(far) == []
    finally:
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    for name in far_worlds.NAMES:
        await_none(far, name)


def command_line(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
