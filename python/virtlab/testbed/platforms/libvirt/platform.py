"""A domain of libvirt is an existing host that has to be started first: `ssh` reaches it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from virtlab.testbed.platforms.libvirt import domains
from virtlab.testbed.platforms.protocol import GuestPlatform
from virtlab.testbed.platforms.ssh import platform as ssh

if TYPE_CHECKING:
    from virtlab.testbed.build.machine import Findings


class LibvirtPlatform(ssh.SshPlatform):
    """Existing hosts whose domains are started for the run."""

    def missing(self, found: Findings) -> str | None:
        """The client of libvirt, or that of ssh."""
        return domains.missing() or ssh.SshPlatform.missing(self, found)

    @property
    def starter(self) -> GuestPlatform:
        """All existing hosts are met together, whoever started them."""
        return ssh.IMPLEMENTATION


IMPLEMENTATION = LibvirtPlatform()
