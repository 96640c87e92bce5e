"""A namespace is what `GuestPlatform` is when nothing is added."""

from virtlab.testbed.kinds.platform import GuestPlatform

IMPLEMENTATION = GuestPlatform()
