"""A domain of libvirt is an existing host that has to be started first: `ssh` reaches it."""

from virtlab.testbed.kinds.platform import GuestPlatform
from virtlab.testbed.platforms.libvirt import domains
from virtlab.testbed.platforms.ssh.connection import client_missing
from virtlab.testbed.platforms.ssh.platform import existing_refusals, running

IMPLEMENTATION = GuestPlatform(lambda _: domains.missing() or client_missing(), existing_refusals, running)
