"""Migrations by their model: `model` plays it, `enough` asks it for the guests of a Plan."""

from virtlab.prediction.migration.model import (
    Course,
    Fixed,
    Least,
    Mode,
    Moved,
    Order,
    Policy,
    Round,
    Rule,
    courses,
    least,
)

__all__ = [
    "Course",
    "Fixed",
    "Least",
    "Mode",
    "Moved",
    "Order",
    "Policy",
    "Round",
    "Rule",
    "courses",
    "least",
]
