"""The life of a libvirt domain around a run: started if it is shut off, stopped again by its starter.

`virsh` is an ordinary program of the system; libvirt's Python binding is not needed. A domain lives in its daemon,
not in our private world, so one that we start is in the ledger first: a dead owner's domain is stopped by the next
user of that connection. A domain that was running before is used as it is and left running.

The name of a domain is its user's, who may stop and start it himself at any time. So what is stopped is not
whatever has that name, but the one life of it that was started here: it bears a mark in its live metadata, which
libvirt forgets when that life ends. Starter and marker are one process that outlives its owner, and holds the
ledger's lock until both are done.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

from virtlab.errors import GuestError, MachineError
from virtlab.plan import Observer
from virtlab.testbed.leader import far_ledger
from virtlab.testbed.leader.environment import LOGIN, PLACES, of_program
from virtlab.testbed.platforms.ssh.connection import answers

PROGRAM = "virsh"
KIND = "libvirt"
TESTED = ("qemu:///", "test:///", "test+unix:///")
COMMAND_TIMEOUT_S = 60.0
SHUTDOWN_TIMEOUT_S = 30.0
STARTER_END_S = 5.0  # of one that was started when its owner was interrupted
MARK = "urn:virtlab:run"
BOOT_TIMEOUT_S = 300.0
LOOK_S = 0.5
# What virsh calls a domain that exists and does not run.
OFF = ("shut off", "crashed")
ON = ("running", "idle")
_NOT_MARKED = 2
_START = f"""
"$0" --quiet --connect "$1" start --domain "$2" || exit 1
"$0" --quiet --connect "$1" metadata --domain "$2" --live --uri {MARK} --key virtlab --set "<run mark='$3'/>" \\
    || exit {_NOT_MARKED}
"""
# It was started by its user; was removed by him; ended between two questions.
_NOT_OURS = ("metadata not found", "failed to get domain", "domain is not running")
_CURE = "try it by hand with virsh"
_CURE_BUSY = "see with `virsh list` whether its daemon answers, then run again"


def missing() -> str | None:
    """Why no domain can be driven from here; None when one can."""
    return None if shutil.which(PROGRAM) else f"{PROGRAM} is missing"


def untested(uri: str) -> bool:
    """Whether a connection is used without anybody having tried it.

    >>> untested("qemu:///system"), untested("xen:///system"), untested("qemu+ssh://far/system")
    (False, True, True)
    """
    return not uri.startswith(TESTED)


def virsh(where: str, uri: str, *words: str, timeout_s: float = COMMAND_TIMEOUT_S) -> str:
    """What virsh prints. GuestError with its words when it fails; MachineError when it cannot be run."""
    try:
        done = subprocess.run(
            [PROGRAM, "--quiet", "--connect", uri, *words], capture_output=True, text=True, check=False,
            stdin=subprocess.DEVNULL, timeout=timeout_s, env=_environment(),
        )  # fmt: skip
    except OSError as error:
        raise _cannot_run(error) from error
    except subprocess.TimeoutExpired:
        raise _silent(where, uri, words[0], timeout_s) from None
    if done.returncode != 0:
        raise GuestError(where, f"libvirt at {uri}: {words[0]}: {_line(done.stderr)}", _CURE)
    return done.stdout.strip()


def _environment() -> dict[str, str]:
    return of_program(*PLACES, *LOGIN, LC_ALL="C")


def _line(stderr: str) -> str:
    return " ".join(line.removeprefix("error: ") for line in stderr.split("\n") if line.strip())


def _cannot_run(error: OSError) -> MachineError:
    return MachineError("libvirt", f"{PROGRAM} cannot be run ({error.strerror})", "install libvirt-clients")


def _silent(where: str, uri: str, word: str, timeout_s: float) -> GuestError:
    return GuestError(where, f"libvirt at {uri} did not answer '{word}' within {timeout_s:g} s", _CURE_BUSY)


@dataclass(slots=True)
class Domain:
    """One domain; `where` names the guest in errors."""

    where: str
    uri: str
    name: str
    ours: bool = False
    _entry: far_ledger.Entry | None = field(default=None)
    _mark: str = ""
    _starter: subprocess.Popen[str] | None = field(default=None)

    def state(self) -> str:
        """In virsh's words."""
        return virsh(self.where, self.uri, "domstate", "--domain", self.name)

    def start(self, observe: Observer) -> None:
        """Starts it unless it runs; a paused one is not ours to wake."""
        far_ledger.sweep(KIND, self.uri, self._stop_left)
        state = self.state()
        if state in ON:
            return
        if state not in OFF:
            raise GuestError(self.where, f"domain {self.name} is {state}", "resume it, or shut it off")
        observe.progress(f"start domain {self.name}")
        self._mark = uuid.uuid4().hex
        self._entry = far_ledger.note(KIND, self.uri, f"{self._mark} {self.name}")
        try:
            self._start_marked(self._entry.descriptor)
        except BaseException:
            self.stop()
            raise
        self.ours = True

    def await_ssh(self, address: str, observe: Observer) -> None:
        """Waits until ssh gets in. GuestError with ssh's last words, or when the domain ends meanwhile."""
        deadline = time.monotonic() + BOOT_TIMEOUT_S
        while (why := answers(address)) is not None:
            if (state := self.state()) not in ON:
                raise GuestError(
                    self.where, f"domain {self.name} is {state} before ssh got in", "see its console"
                )
            if not self.ours or time.monotonic() > deadline:
                waited = f" within {BOOT_TIMEOUT_S:g} s of its start" if self.ours else ""
                what = f"domain {self.name} runs, and ssh did not get in{waited}: {why}"
                raise GuestError(self.where, what, f"make `ssh -o BatchMode=yes {address} true` work")
            if observe.cancelled():
                raise GuestError(self.where, "was still booting when the run was cancelled", "run it again")
            time.sleep(LOOK_S)

    def facts(self) -> dict[str, Any]:
        """For the record of a run."""
        return {
            "domain": self.name,
            "hypervisor": self.uri,
            "hypervisor_tested": not untested(self.uri),
            "domain_started_for_the_run": self.ours,
        }

    def stop(self) -> None:
        """Stops it if it was started here; a second call does nothing."""
        if self._entry is None:
            return
        entry, self._entry, self.ours = self._entry, None, False
        entry.close(gone=self._starter_ended() and self._off(self._mark))

    def _start_marked(self, lock: int) -> None:
        """Starts it and marks that life of it. GuestError with libvirt's words."""
        argv = ["sh", "-c", _START, PROGRAM, self.uri, self.name, self._mark]
        try:
            self._starter = subprocess.Popen(
                argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                env=_environment(), pass_fds=(lock,), start_new_session=True,
            )  # fmt: skip
            _, said = self._starter.communicate(timeout=COMMAND_TIMEOUT_S)
        except OSError as error:
            raise _cannot_run(error) from error
        except subprocess.TimeoutExpired:
            raise _silent(self.where, self.uri, "start", COMMAND_TIMEOUT_S) from None
        if self._starter.returncode == _NOT_MARKED:
            with contextlib.suppress(GuestError):  # it may have ended by itself
                virsh(self.where, self.uri, "destroy", "--domain", self.name)
            what = f"libvirt at {self.uri} does not mark what was started, so it was stopped: {_line(said)}"
            cure = "start it yourself before the run: one that runs is used and left running"
            raise GuestError(self.where, what, cure)
        if self._starter.returncode != 0:
            raise GuestError(self.where, f"libvirt at {self.uri}: start: {_line(said)}", _CURE)

    def _starter_ended(self) -> bool:
        """Whether nothing will start it any more; what still may holds the entry's lock."""
        if self._starter is None:
            return True
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._starter.wait(STARTER_END_S)
        return self._starter.returncode is not None

    def _runs(self, mark: str) -> bool:
        """Whether that life of it continues. GuestError when libvirt does not say."""
        try:
            if self.state() in OFF:
                return False
            words = ("metadata", "--domain", self.name, "--live", "--uri", MARK)
            return mark in virsh(self.where, self.uri, *words)
        except GuestError as error:
            if any(sign in error.what for sign in _NOT_OURS):
                return False
            raise

    def _off(self, mark: str) -> bool:
        """Asks that life of it to shut down, and pulls the plug when it does not; whether it is over."""
        try:
            if not self._runs(mark):
                return True
            with contextlib.suppress(GuestError):  # one that stands still hears nothing
                virsh(self.where, self.uri, "shutdown", "--domain", self.name)
            deadline = time.monotonic() + SHUTDOWN_TIMEOUT_S
            while time.monotonic() < deadline:
                if not self._runs(mark):
                    return True
                time.sleep(LOOK_S)
            with contextlib.suppress(GuestError):  # it may have ended by itself just now
                virsh(self.where, self.uri, "destroy", "--domain", self.name)
            return not self._runs(mark)
        except (GuestError, MachineError):
            return False

    def _stop_left(self, name: str) -> bool:
        """Stops what a dead owner had started."""
        mark, _, domain = name.partition(" ")
        return Domain(self.where, self.uri, domain)._off(mark)
