"""Plays Plans in virtual time, packet by packet, with the costs that a platform profile says."""

from virtlab.simulator.backend import Simulator

__all__ = ["Simulator"]
