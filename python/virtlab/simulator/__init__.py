"""Plays Plans in virtual time, packet by packet, on an ideal platform: every cost that the file does not name is zero."""

from virtlab.simulator.backend import Simulator

__all__ = ["Simulator"]
