"""A worst case that no run exceeds, by deterministic network calculus: `answer` gives it, the others are its parts."""

from virtlab.prediction.bound.answer import Bound, bounds_of, echo_bound, echo_bound_ns
from virtlab.prediction.bound.curves import NoBoundError, frames_bits

__all__ = ["Bound", "NoBoundError", "bounds_of", "echo_bound", "echo_bound_ns", "frames_bits"]
