"""One ssh connection to an existing host, which ends as the control stream of an agent there.

The system's own client is used, so the user's configuration, keys, agents and jump hosts hold; it never asks
(BatchMode). A line of shell makes a file for our agent in a folder where programs may run, takes the agent through
the connection, and becomes it; the agent removes its file before anything else. What is left when all goes wrong is
that one file, and it is in the ledger under a name of its own before the connection is opened.

A connection that is cut is made again (`again`): the agent's own program, which has no file any more, is run there
a second time from the process that waits, and joins the new connection to it.
"""

from __future__ import annotations

import contextlib
import os
import platform
import select
import shlex
import shutil
import socket
import subprocess
import tempfile
import time
import uuid
from dataclasses import dataclass, field
from typing import IO

from virtlab.catalogue.kinds import shown
from virtlab.errors import GuestError, MachineError
from virtlab.testbed.image.elf import loaded_part
from virtlab.testbed.leader import far_ledger
from virtlab.testbed.leader.environment import LOGIN, PLACES, of_program
from virtlab.testbed.leader.process import agent_path

COMMAND = "VIRTLAB_SSH"
ANSWER_TIMEOUT_S = 60.0
COPY_TIMEOUT_S = 300.0
END_TIMEOUT_S = 10.0
AGAIN_TIMEOUT_S = 3
SWEEP_TIMEOUT_S = 20.0
KIND = "ssh"
# On the far side, where only a program that runs counts.
FOLDERS = '/tmp /var/tmp "$HOME" /dev/shm'  # noqa: S108 - files are made there exclusively, under names that cannot be guessed
_MARK = b"virtlab-host "
_MOST_BANNER_BYTES = 1 << 20
_USER_DIGITS = 10  # of a user's number at most, which has 32 bits
_TAIL_BYTES = 2000
_NEVER_IN = 255  # ssh's own code
_TIDY = (0, 1, 3, 4)  # codes with which agent and script end after their file is gone
# One line without single quotes: it passes through whatever the login shell is. In turn it says what is there,
# takes the agent, says how much of it came, waits for the order, and becomes it. Nothing but the last step outlives
# its own end.
_SCRIPT = (
    "umask 077; f=; "
    f"for d in {FOLDERS}; do f=$d/NAME; "
    'if (set -C; echo "#!/bin/sh" >"$f") 2>/dev/null; then '
    'if chmod 700 "$f" && "$f" 2>/dev/null; then break; fi; rm -f "$f"; fi; f=; done; '
    'trap "rm -f $f" EXIT; trap "exit 1" HUP INT TERM PIPE; '
    "set -- $SSH_CONNECTION; "
    'echo "virtlab-host $(uname -s) $(uname -m) $(id -u) ${3:--} ${f:--}"; '
    '[ -n "$f" ] || exit 3; head -c BYTES >"$f"; '
    'echo "virtlab-host $(wc -c <"$f")"; read go || exit 4; '
    '[ "$go" = go ] || exit 4; exec "$f" remote --remove "$f" --name NAME'
)
# Only where that process still is ours: its number may have gone to another one.
_REJOIN = (
    "[ -O /proc/PROCESS ] && grep -q NAME /proc/PROCESS/cmdline && exec /proc/PROCESS/exe rejoin --name NAME"
)


def client() -> list[str]:
    """The ssh client: $VIRTLAB_SSH as a shell would split it, else `ssh`."""
    return shlex.split(os.environ.get(COMMAND, "")) or ["ssh"]


def client_missing() -> str | None:
    """Why nothing can be reached from here; None when the client is there."""
    program = client()[0]
    return None if shutil.which(program) else f"{program} is missing"


def answers(address: str) -> str | None:
    """Why ssh does not get in, in its own words; None when it does."""
    with tempfile.TemporaryFile() as errors:
        process = _start(address, "true", subprocess.DEVNULL, subprocess.DEVNULL, errors)
        try:
            code = process.wait(SWEEP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return f"no answer within {SWEEP_TIMEOUT_S:g} s"
        errors.seek(0)
        return (
            None
            if code == 0
            else errors.read().decode(errors="replace").strip()[-_TAIL_BYTES:] or f"code {code}"
        )


@dataclass(frozen=True, slots=True)
class Far:
    """What the other side said of itself before it was given anything. `address`: its own end of the connection."""

    system: str
    machine: str
    user_id: int
    address: str | None
    file: str


@dataclass(slots=True)
class Connection:
    """A connection that is being made, and then is one agent's byte stream. `where` names the host in errors."""

    where: str
    address: str
    stream: socket.socket = field(init=False)
    far: Far | None = None
    left: tuple[str, ...] = ()  # names of what dead owners left there and could not be removed
    _process: subprocess.Popen[bytes] = field(init=False)
    _errors: IO[bytes] = field(init=False)
    _entry: far_ledger.Entry = field(init=False)
    _agent: bytes = b""
    _name: str = ""
    _read: bytearray = field(default_factory=bytearray)
    _again: bool = False

    def __post_init__(self) -> None:
        """Starts the client; it may still be asking its way when this returns."""
        self._name = f"virtlab-agent-{uuid.uuid4().hex}"
        self._agent = loaded_part(agent_path().read_bytes())
        script = _SCRIPT.replace("NAME", self._name).replace("BYTES", str(len(self._agent)))
        self._entry = far_ledger.note(KIND, self.address, self._name)
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the connection
        self.stream, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        with theirs:
            self._process = _start(
                self.address, f"sh -c '{script}'", theirs.fileno(), theirs.fileno(), self._errors
            )

    def introduce(self) -> Far:
        """Waits for what the other side says of itself. MachineError with ssh's own words when it is not reached."""
        line = self._line(ANSWER_TIMEOUT_S, "did not answer")
        words = line.split()
        if len(words) != 5 or not words[2].isdigit() or len(words[2]) > _USER_DIGITS:
            what = f"{self.address} answered '{shown(line.decode(errors='replace').strip())}'"
            raise GuestError(self.where, what, CURE)
        system, machine, user, address, file = (word.decode(errors="replace") for word in words)
        self.far = Far(system, machine, int(user), None if address == "-" else address, file)
        if (system, machine) != ("Linux", platform.machine()):
            what = (
                f"{self.address} is a {system} machine of architecture {machine}; "
                f"the agent here is for Linux on {platform.machine()}"
            )
            cure = (
                f"build the agent there or for {machine}, and run virtlab on a machine of that architecture"
            )
            raise GuestError(self.where, what, cure)
        if file == "-":
            raise GuestError(
                self.where,
                f"{self.address} has no folder where a program can be put and run (tried {FOLDERS})",
                "make one of them writable for that user and not mounted 'noexec'",
            )
        # Only now it is known that the host answers: tidying up never waits for a host that does not.
        self.left = far_ledger.sweep(KIND, self.address, self._remove_there, once=True).stayed
        return self.far

    def hand_over(self) -> None:
        """Sends the agent and has it started: from now on `stream` is its control stream."""
        self._send(self._agent)
        came = self._line(COPY_TIMEOUT_S, "took the agent too slowly")
        if came.strip() != str(len(self._agent)).encode():
            arrived = shown(came.decode(errors="replace").strip())
            what = f"{arrived} of {len(self._agent)} bytes of the agent arrived at {self.address}"
            raise MachineError(self.where, what, "make room there")
        self._agent = b""
        self._send(b"go\n")
        self.stream.setblocking(False)  # noqa: FBT003 - the standard library's own signature

    def again(self, process: int) -> socket.socket:
        """A new connection to the agent that waits there as `process`, in place of the one that was cut."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        self._again = True
        self.stream, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        script = _REJOIN.replace("PROCESS", str(process)).replace("NAME", self._name)
        with theirs:
            self._process = _start(
                self.address, f"sh -c '{script}'", theirs.fileno(), theirs.fileno(), self._errors, again=True
            )
        return self.stream

    def settled(self) -> bool:
        """Whether the client has ended."""
        return self._process.poll() is not None

    def hopeless(self) -> bool:
        """Whether what was started there ended by itself: ssh then passes its code on.

        One that joined and was put off ends well: a connection that was cut on its way may have come in after it.
        """
        code = self._process.poll()
        return code is not None and int(self._again) <= code < _NEVER_IN

    def started(self) -> None:
        """The agent runs, so its file is gone."""
        self._entry.close(gone=True)

    def death(self) -> str:
        """How the connection ended, with ssh's own words."""
        code = self._process.poll()
        how = (
            "was cut"
            if code is None
            else f"ended with code {code}"
            if code >= 0
            else f"ended by signal {-code}"
        )
        said = self._said()
        return f"its connection to {self.address} {how}{': ' + said if said else ''}"

    def close(self) -> None:
        """Ends it; a second call does nothing."""
        self.stream.close()
        if self._process.poll() is None:
            try:
                self._process.wait(END_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        never_in = self._process.returncode == _NEVER_IN and self.far is None and not self._read
        self._entry.close(gone=never_in or self._process.returncode in _TIDY)
        if not self._errors.closed:
            self._errors.close()

    def _line(self, timeout_s: float, late: str) -> bytes:
        """The rest of the next line that is ours; banners before it are skipped."""
        self.stream.setblocking(True)  # noqa: FBT003 - the standard library's own signature
        end = time.monotonic() + timeout_s
        while True:
            lines = bytes(self._read).split(b"\n")
            for number, line in enumerate(lines[:-1]):
                at = line.find(_MARK)
                if at >= 0:
                    self._read = bytearray(b"\n".join(lines[number + 1 :]))
                    return line[at + len(_MARK) :]
            left = end - time.monotonic()
            ready = select.select([self.stream], [], [], max(left, 0))[0]
            if not ready:
                self._process.kill()
                raise MachineError(
                    self.where, f"{self.address} {late} within {timeout_s:g} s{self._words()}", CURE
                )
            try:
                content = self.stream.recv(1 << 16)
            except ConnectionResetError:  # ssh ended with some of what it was sent unread
                content = b""
            if not content or len(self._read) > _MOST_BANNER_BYTES:
                raise self._refused()
            self._read += content

    def _send(self, content: bytes) -> None:
        self.stream.settimeout(COPY_TIMEOUT_S)
        try:
            self.stream.sendall(content)
        except OSError as error:
            raise self._refused() from error

    def _refused(self) -> MachineError:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        said = self._said() or f"code {self._process.poll()}"
        return MachineError(self.where, f"{self.address} cannot be reached by ssh: {said}", CURE)

    def _said(self) -> str:
        """The end of ssh's errors, in one line."""
        if self._errors.closed:
            return ""
        end = self._errors.seek(0, os.SEEK_END)
        self._errors.seek(max(0, end - _TAIL_BYTES))
        lines = self._errors.read().decode(errors="replace").splitlines()
        return " | ".join(line.strip() for line in lines if line.strip())[-600:]

    def _words(self) -> str:
        said = self._said()
        return f" ({said})" if said else ""

    def _remove_there(self, name: str) -> bool:
        """Removes a file of ours that a dead owner left there."""
        if not name.startswith("virtlab-agent-") or not name.removeprefix("virtlab-agent-").isalnum():
            return False
        script = f'for d in {FOLDERS}; do rm -f "$d/{name}" || exit 1; done'
        with tempfile.TemporaryFile() as errors:
            process = _start(
                self.address, f"sh -c '{script}'", subprocess.DEVNULL, subprocess.DEVNULL, errors
            )
            try:
                return process.wait(SWEEP_TIMEOUT_S) == 0
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
                return False


CURE = "try it by hand: ssh -o BatchMode=yes HOST true; keys, users and jump hosts go into ssh's own configuration"


def _start(
    address: str, command: str, given: int, taken: int, errors: IO[bytes], *, again: bool = False
) -> subprocess.Popen[bytes]:
    # A connection that died silently is noticed within 12 s, so that a call outlasts that and mending it. Nothing
    # else of the user's configuration is overruled but what would lead through another ssh's connection: that one's
    # silence is noticed by its own settings, a mended line would go through it again, and one begun by us would
    # outlive the run; and what would let that host use something of this machine, its keys' agent, display and
    # ports, or run a command here. Who can only log in so says it in $VIRTLAB_SSH: of an option said twice, ssh
    # takes the first.
    options = ["-T", "-o", "BatchMode=yes", "-o", "ServerAliveInterval=3", "-o", "ServerAliveCountMax=3"]
    options += ["-o", "ControlMaster=no", "-o", "ControlPath=none"]
    options += ["-a", "-x", "-o", "ClearAllForwardings=yes", "-o", "Tunnel=no", "-o", "PermitLocalCommand=no"]
    if again:  # many short tries: a network may be back at any moment
        options += ["-o", f"ConnectTimeout={AGAIN_TIMEOUT_S}"]
    argv = [*client(), *options, "--", address, command]
    try:
        return subprocess.Popen(
            argv,
            stdin=given,
            stdout=taken,
            stderr=errors,
            start_new_session=True,
            env=of_program(*PLACES, *LOGIN),
        )
    except OSError as error:
        raise MachineError(
            "ssh", f"{argv[0]} cannot be run ({error.strerror})", "install openssh-client"
        ) from error
