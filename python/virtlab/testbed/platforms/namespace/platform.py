"""A namespace is what `GuestPlatform` is when nothing is added."""

from virtlab.testbed.platforms.protocol import GuestPlatform

IMPLEMENTATION = GuestPlatform()
