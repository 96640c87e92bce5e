"""Reality: lowers a Plan, has agents apply it, reads it back."""

from virtlab.testbed.backend import Testbed

__all__ = ["Testbed"]
