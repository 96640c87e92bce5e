"""Starting a leader: the agent as PID 1 of a private world, and its control stream."""

from __future__ import annotations

import contextlib
import os
import platform
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Self

import virtlab
from virtlab.agents.replies import Introduction
from virtlab.agents.requests.every import Bye
from virtlab.errors import AgentError, MachineError
from virtlab.testbed.leader.control import Control
from virtlab.testbed.leader.environment import of_program

END_TIMEOUT_S = 5.0
_DESCRIPTOR = 3
_ELF_MACHINES = {
    "x86_64": 62,
    "aarch64": 183,
    "riscv64": 243,
    "ppc64le": 21,
}  # e_machine of little-endian systems


def agent_path() -> Path:
    """The agent's binary: $VIRTLAB_AGENT, else the one inside the package. MachineError with the cure when none is.

    $VIRTLAB_NO_AGENT says that there is no agent, as where virtlab was built for the simulator alone.
    """
    if os.environ.get("VIRTLAB_NO_AGENT", "") not in {"", "0"}:
        cure = "use --backend simulator, or unset it where the agent is installed"
        raise MachineError(
            "agent", "VIRTLAB_NO_AGENT says that there is no agent, and a testbed needs one", cure
        )
    named = os.environ.get("VIRTLAB_AGENT")
    path = Path(named) if named else Path(virtlab.__file__).parent / "_bin" / "virtlab-agent"
    if not path.is_file():
        raise MachineError(
            "agent", f"{path} is missing", "build it with 'make agent', or install a wheel for this machine"
        )
    if not os.access(path, os.X_OK):
        raise MachineError("agent", f"{path} cannot be executed by this user", f"chmod a+rx {path}")
    _of_this_architecture(path)
    return path


def _of_this_architecture(path: Path) -> None:
    """MachineError when its ELF header names another machine (2 bytes at 18) than this system; unknown ones are
    tried.
    """
    with path.open("rb") as agent:
        head = agent.read(20)
    wanted = _ELF_MACHINES.get(platform.machine())
    if wanted is not None and head[:4] == b"\x7fELF" and int.from_bytes(head[18:20], "little") != wanted:
        cure = f"build it here with 'make agent', or install a wheel for this architecture ({platform.machine()})"
        raise MachineError("agent", f"{path} was built for another architecture", cure)


def cpus_of_world() -> tuple[list[int], int | None]:
    """CPUs for the world, and the one for the soft switch (None: there is only one CPU for all)."""
    available = sorted(os.sched_getaffinity(0))
    if len(available) < 2:
        return available, None
    return available[:-1], available[-1]


def usable_cpus(*, soft_switch: bool) -> list[int]:
    """CPUs that guests have: all but the soft switch's, where it has one of its own."""
    world, own = cpus_of_world()
    return world if soft_switch or own is None else [*world, own]


class Leader:
    """A leader process and its control stream. Leaving it ends the world."""

    def __init__(
        self, control: Control, process: subprocess.Popen[bytes], errors: IO[bytes], hello: Introduction
    ) -> None:
        self.control = control
        self.process = process
        self.hello = hello
        self._errors = errors
        self.rootless = "root" not in hello["capabilities"]
        self.number = process.pid

    @classmethod
    def start(cls, *, cpus: Sequence[int] = (), keep: bool = False, at: int = 0) -> Self:
        """A leader in a new, empty world. MachineError, with the cure, when this system does not allow one.

        `at`: its channel; below 0 where it only carries another world's leader.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the leader
        argv = [str(agent_path()), "leader", "--control-fd", str(_DESCRIPTOR)]
        if not keep:
            argv += ["--parent", str(os.getpid())]
        if cpus:
            argv += ["--cpus", ",".join(map(str, cpus))]
        with theirs:
            process = _spawn(argv, theirs, errors, keep=keep)
        control = Control(ours, at=at)
        try:
            hello = control.greet(at)
        except AgentError as error:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(END_TIMEOUT_S)
            said = _tail(errors)
            control.close()
            process.kill()
            process.wait()
            errors.close()
            raise _why(said, error) from error
        return cls(control, process, errors, hello)

    def tail(self) -> str:
        """The end of what the leader wrote as errors."""
        return _tail(self._errors)

    def end(self) -> None:
        """Ends the world; everything in it is gone from the kernel's point of view once this returns."""
        if self.control.open:
            with contextlib.suppress(AgentError):
                self.control.call(Bye(), channel=self.control.at, timeout_s=1.0)
        self.control.close()
        try:
            self.process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self._errors.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()


def _spawn(
    argv: list[str], theirs: socket.socket, errors: IO[bytes], *, keep: bool
) -> subprocess.Popen[bytes]:
    """The agent with the stream as descriptor 3. `posix_spawn` semantics are kept: no Python code runs in the child."""
    # pass_fds keeps a descriptor's number; the agent is told which it is instead of moving it.
    argv[argv.index("--control-fd") + 1] = str(theirs.fileno())
    try:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
            pass_fds=(theirs.fileno(),),
            start_new_session=keep,
            cwd="/",
            env=of_program(**_started_in()),
        )
    except OSError as error:
        machine = platform.machine()
        cure = f"the agent was built for another machine than this {machine}; build it here with 'make agent'"
        raise MachineError("agent", f"{argv[0]} cannot be executed ({error.strerror})", cure) from error


def _started_in() -> dict[str, str]:
    """The user's working folder, which commands of a file find empty; none where it was deleted."""
    try:
        return {"PWD": str(Path.cwd())}
    except FileNotFoundError:
        return {}


def _tail(errors: IO[bytes]) -> str:
    errors.seek(0, os.SEEK_END)
    errors.seek(max(0, errors.tell() - 4096))
    return errors.read().decode(errors="replace").strip()


def _why(words: str, error: AgentError) -> MachineError | AgentError:
    text = words.removeprefix("virtlab-agent: ")
    if "private world" in text:
        what, _, cure = text.partition("; ")
        return MachineError("machine", what, cure)
    return AgentError("leader", text or error.what, error.cure)
