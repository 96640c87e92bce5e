"""Actions of a timeline as this testbed plays them, each in the file of its name."""

from virtlab.catalogue import ACTIONS
from virtlab.testbed.kinds.registry import Registry
from virtlab.testbed.play.actions.action import ActionKind

actions: Registry[ActionKind] = Registry(ACTIONS, "virtlab.testbed.play.actions.{}")

__all__ = ["actions"]
