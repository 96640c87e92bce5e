"""The life of a libvirt domain around a run: started if it is shut off, stopped again by whoever started it.

`virsh` is an ordinary program of the system; libvirt's Python binding is not needed. A domain lives in its daemon, not in
our private world, so one that we start is in the ledger first: a dead owner's domain is stopped by whoever next uses that
connection. A domain that was running before is used as it is and left running.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from typing import Any

from virtlab.errors import GuestError, MachineError
from virtlab.plan import Observer
from virtlab.testbed import far_ledger

PROGRAM = "virsh"
URI = "qemu:///system"
KIND = "libvirt"
TESTED = ("qemu:///", "test:///", "test+unix:///")
COMMAND_TIMEOUT_S = 60.0
SHUTDOWN_TIMEOUT_S = 30.0
BOOT_TIMEOUT_S = 300.0
LOOK_S = 0.5
# What virsh calls a domain that exists and does not run.
OFF = ("shut off", "crashed")
ON = ("running", "idle")


def missing() -> str | None:
    """Why no domain can be driven from here; None when one can."""
    return None if shutil.which(PROGRAM) else f"{PROGRAM} is missing"


def untested(uri: str) -> bool:
    """Whether a connection is passed through without anybody having tried it.

    >>> untested("qemu:///system"), untested("xen:///system"), untested("qemu+ssh://far/system")
    (False, True, True)
    """
    return not uri.startswith(TESTED)


def virsh(where: str, uri: str, *words: str, timeout_s: float = COMMAND_TIMEOUT_S) -> str:
    """What virsh prints. GuestError with its words when it fails; MachineError when it cannot be run."""
    try:
        done = subprocess.run(
            [PROGRAM, "--quiet", "--connect", uri, *words], capture_output=True, text=True, check=False,
            stdin=subprocess.DEVNULL, timeout=timeout_s, env={**os.environ, "LC_ALL": "C"},
        )  # fmt: skip
    except OSError as error:
        raise MachineError(
            "libvirt", f"{PROGRAM} cannot be run ({error.strerror})", "install libvirt-clients"
        ) from error
    except subprocess.TimeoutExpired:
        raise GuestError(
            where, f"libvirt at {uri} did not answer '{words[0]}' within {timeout_s:g} s"
        ) from None
    if done.returncode != 0:
        said = " ".join(line.removeprefix("error: ") for line in done.stderr.split("\n") if line.strip())
        raise GuestError(where, f"libvirt at {uri}: {words[0]}: {said}", "try it by hand with virsh")
    return done.stdout.strip()


@dataclass(slots=True)
class Domain:
    """One domain; `where` names the guest in errors."""

    where: str
    uri: str
    name: str
    ours: bool = False
    _entry: far_ledger.Entry | None = field(default=None)

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
        self._entry = far_ledger.note(KIND, self.uri, self.name)
        try:
            virsh(self.where, self.uri, "start", "--domain", self.name)
        except BaseException:
            self._entry.close(gone=False)
            self._entry = None
            raise
        self.ours = True

    def await_ssh(self, address: str, observe: Observer) -> None:
        """Waits until ssh gets in. GuestError with ssh's last words, or when the domain ends meanwhile."""
        from virtlab.testbed.platforms.ssh.connection import answers

        deadline = time.monotonic() + BOOT_TIMEOUT_S
        while (why := answers(address)) is not None:
            if (state := self.state()) not in ON:
                raise GuestError(
                    self.where, f"domain {self.name} is {state} before ssh got in", "see its console"
                )
            if not self.ours or time.monotonic() > deadline:
                waited = f" within {BOOT_TIMEOUT_S:g} s of its start" if self.ours else ""
                raise GuestError(
                    self.where, f"domain {self.name} runs, and ssh did not get in{waited}: {why}"
                )
            if observe.cancelled():
                raise GuestError(self.where, "was still booting when the run was cancelled")
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
        gone = self._off()
        self._entry.close(gone=gone)
        self._entry, self.ours = None, False

    def _off(self) -> bool:
        """Asks it to shut down, and pulls the plug when it does not; whether it is off."""
        try:
            if self.state() in OFF:
                return True
            virsh(self.where, self.uri, "shutdown", "--domain", self.name)
            deadline = time.monotonic() + SHUTDOWN_TIMEOUT_S
            while time.monotonic() < deadline:
                if self.state() in OFF:
                    return True
                time.sleep(LOOK_S)
            virsh(self.where, self.uri, "destroy", "--domain", self.name)
            return self.state() in OFF
        except (GuestError, MachineError):
            return False

    def _stop_left(self, name: str) -> bool:
        """Stops what a dead owner had started."""
        return Domain(self.where, self.uri, name)._off()
