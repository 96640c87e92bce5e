"""A person in a guest: a shell or a command of a kept world, with this process's own terminal and streams."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import signal
import struct
import sys
import termios
import tty
from collections.abc import Iterator, Sequence
from typing import Any

from virtlab.agents import Data, Notice
from virtlab.agents.requests.leader import Resize
from virtlab.errors import AgentError, GuestError
from virtlab.testbed.leader.channels import TERMINAL
from virtlab.testbed.leader.control import Control, RefusedError
from virtlab.testbed.leader.execution import Command

CHUNK = 32 << 10


def attach(
    control: Control,
    namespace: str,
    argv: list[str],
    *,
    terminal: bool,
    inside: tuple[int, int] | None = None,
    cgroups: Sequence[str] = (),
) -> int:
    """Runs a command with this process's streams; its exit code (128 + signal when one ended it).

    `inside`: of a guest with a leader of its own, that leader's channel and the one for the command. `cgroups`:
    files by which it joins the guest's control groups. What a person types has that person's rights: it is not
    confined.
    """
    leader, channel = inside or (0, TERMINAL)
    if inside is not None:
        control.greet(leader)  # a process that speaks to a machine receives its answers
    own = os.isatty(0) and terminal
    size = _size() if own else (24, 80)
    command = Command(
        control,
        channel,
        namespace,
        argv,
        {"TERM": os.environ.get("TERM", "dumb")},
        leader=leader,
        cgroups=list(cgroups),
    )
    try:
        command.start(terminal=size if terminal else None)
    except RefusedError as error:
        raise GuestError("command", error.what) from error
    with (
        _raw() if own else contextlib.nullcontext(),
        _resizing(control, leader, channel) if own else contextlib.nullcontext(),
    ):
        return _pump(control, channel)


def _pump(control: Control, channel: int) -> int:
    listening: list[Any] = [0]
    while True:
        # First what a call before has already read from the socket: `select` knows nothing of it.
        for message in control.messages(0.0):
            if isinstance(message, Data):
                _write(2 if message.stream == 2 else 1, message.content)
            elif (
                isinstance(message, Notice)
                and message.name == "exited"
                and message.details["channel"] == channel
            ):
                code, number = message.details.get("code"), message.details.get("signal")
                return int(code) if code is not None else 128 + int(number or 0)
        if not control.open:
            raise AgentError("world", "it is gone")
        ready, _, _ = select.select([control, *listening], [], [])
        if 0 in ready:
            content = os.read(0, CHUNK)
            control.data(channel, content)
            if not content:
                listening = []


def _write(descriptor: int, content: bytes) -> None:
    (sys.stdout if descriptor == 1 else sys.stderr).flush()
    while content:
        content = content[os.write(descriptor, content) :]


def _size() -> tuple[int, int]:
    rows, columns, _, _ = struct.unpack("HHHH", fcntl.ioctl(0, termios.TIOCGWINSZ, b"\0" * 8))
    return rows or 24, columns or 80


@contextlib.contextmanager
def _raw() -> Iterator[None]:
    """The terminal passes every key on, and is as it was afterwards."""
    before = termios.tcgetattr(0)
    try:
        tty.setraw(0)
        yield
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _resizing(control: Control, leader: int, channel: int) -> Iterator[None]:
    def resize(_number: int, _frame: object) -> None:
        rows, columns = _size()
        control.tell(Resize(channel, rows, columns), channel=leader)

    before = signal.signal(signal.SIGWINCH, resize)
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)
