"""A worst case that no run exceeds, by deterministic network calculus: `answer` gives it, the others are its parts."""

from virtlab.prediction.bound.answer import Bound, bounds_of, echo_bound
from virtlab.prediction.bound.curves import NoBoundError, frames_bits

__all__ = ["Bound", "NoBoundError", "bounds_of", "echo_bound", "frames_bits"]
