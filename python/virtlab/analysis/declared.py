"""The metrics that the experiment of a run declares, from the run's own Plan."""

from __future__ import annotations

from collections.abc import Mapping

from virtlab.errors import DatasetError
from virtlab.metrics import Declared, Metric, declared_of
from virtlab.plan.model import Role
from virtlab.results.parquet import CURE
from virtlab.results.record import RunRecord


def declared_by(record: RunRecord) -> Declared:
    """Role -> its own metrics, of the roles that have any. DatasetError where the Plan declares what is no metric."""
    found = ((name, _of_role(record, name, role)) for name, role in record.plan.roles.items())
    return {name: metrics for name, metrics in found if metrics}


def _of_role(record: RunRecord, name: str, role: Role) -> Mapping[str, Metric]:
    try:
        return declared_of(role.parameters)
    except ValueError as error:
        raise DatasetError(f"{record.name}: roles.{name}.metrics", str(error), CURE) from None
