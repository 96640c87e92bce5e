"""A native guest has its host's namespace, and nothing has to be started."""

from virtlab.testbed.platforms.protocol import GuestPlatform

IMPLEMENTATION = GuestPlatform()
