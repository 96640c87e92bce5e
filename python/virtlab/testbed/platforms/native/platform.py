"""A native guest has its host's namespace, and nothing has to be started."""

from virtlab.testbed.kinds.platform import GuestPlatform

IMPLEMENTATION = GuestPlatform()
