"""Disks that are mirrored while their guest moves: QEMU's `blockdev-mirror` to a server of the destination's QEMU.

The destination has a disk of its own, which the leader serves as any other, and offers it by NBD where it listens for
the guest's memory: what is mirrored goes the same way as that. All of the disk is copied first, as it is; from the
beginning what the guest writes is complete only once both disks have it (`write-blocking`), so when all is copied both
are alike, and stay so until the guest is paused. Then its memory is copied. By then every byte of the disk has been
written there: if there is no room for it, the move fails before.
"""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from typing import Any

from virtlab.errors import GuestError
from virtlab.testbed.kinds.lowered import Copied
from virtlab.testbed.platforms.qemu.command import DISK_NODE
from virtlab.testbed.platforms.qemu.monitor import Monitor

_JOB = _COPY = "copy"
_BUFFER_BYTES = 1 << 20  # by which the limit of the rate is kept: QEMU's own 16 MiB leave at once
_ENDED_S = 5.0
_LOOK_S = 0.01


def offer(there: Monitor, copied: Copied) -> None:
    """The machine at the destination takes what is written to its disk."""
    address = {"type": "inet", "data": {"host": copied.address, "port": str(copied.disk_port)}}
    there.execute("nbd-server-start", {"addr": address})
    export = {"type": "nbd", "id": DISK_NODE, "node-name": DISK_NODE, "writable": True}
    there.execute("block-export-add", export)


def withdraw(there: Monitor) -> None:
    """Its guest runs there, and writes to it alone."""
    there.execute("nbd-server-stop")


@dataclass(slots=True)
class Mirror:
    """The copy of one guest's disk."""

    guest: str
    source: Monitor
    copied: Copied
    byte_per_s: int  # at most
    sent_bytes: int = 0
    whole: bool = False  # both disks are alike
    failed: str | None = None

    def begin(self) -> None:
        """Has QEMU copy. `failed` where it cannot."""
        server = {"type": "inet", "host": self.copied.address, "port": str(self.copied.disk_port)}
        target = {"driver": "nbd", "node-name": _COPY, "server": server, "export": DISK_NODE}
        job = {
            "job-id": _JOB, "device": DISK_NODE, "target": _COPY, "sync": "full", "copy-mode": "write-blocking",
            "speed": self.byte_per_s, "buf-size": _BUFFER_BYTES,
        }  # fmt: skip
        try:
            self.source.execute("blockdev-add", target)
            self.source.execute("blockdev-mirror", job)
        except GuestError as error:
            self.failed = error.what

    def look(self) -> None:
        """Asks how far it is."""
        if self.failed is not None:
            return
        job = self._job()
        if job is None:
            self.failed = f"its disk could not be copied: {self._why() or 'nothing copies it'}"
            return
        self.sent_bytes, self.whole = int(job["offset"]), bool(job["ready"])

    def broken(self) -> str | None:
        """Why both disks are not alike any more, by what QEMU has told: it is not asked, as it may be busy."""
        if self.failed is None and (why := self._why()) is not None:
            self.failed = f"its disk could not be copied: {why}"
        return self.failed

    def give_up(self) -> None:
        """Nothing is copied any more, nor waited for on a link that is cut."""
        node = {"type": "block-node", "node-name": _COPY}
        with contextlib.suppress(GuestError):  # it has no connection by now
            self.source.execute_at_once("yank", {"instances": [node]})
        with contextlib.suppress(GuestError):  # nor a job
            self.source.execute("block-job-cancel", {"device": _JOB, "force": True})
        began = time.monotonic()
        while self._job() is not None:
            if time.monotonic() - began > _ENDED_S:
                what = f"the copy of its disk did not end within {_ENDED_S:g} s"
                raise GuestError(f"guests.{self.guest}", what, "see its console")
            time.sleep(_LOOK_S)
        nodes = self.source.execute("query-named-block-nodes", {"flat": True})
        if any(node["node-name"] == _COPY for node in nodes):
            self.source.execute("blockdev-del", {"node-name": _COPY})

    def _job(self) -> dict[str, Any] | None:
        return next((job for job in self.source.execute("query-block-jobs") if job["device"] == _JOB), None)

    def _why(self) -> str | None:
        """QEMU's word for how the copy ended; None while it has not."""
        told = [each for each in self.source.events() if each["event"] == "BLOCK_JOB_COMPLETED"]
        return str(told[-1]["data"].get("error", "it ended")) if told else None
