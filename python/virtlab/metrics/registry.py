"""Every metric that virtlab has of its own, by key."""

from __future__ import annotations

from virtlab.metrics.benchmarks import BENCHMARKS
from virtlab.metrics.deadlines import DEADLINES
from virtlab.metrics.health import HEALTH
from virtlab.metrics.machines import MACHINES
from virtlab.metrics.metric import Metric, by_key
from virtlab.metrics.migration import MIGRATION
from virtlab.metrics.network import NETWORK
from virtlab.metrics.programs import PROGRAMS
from virtlab.metrics.rates import RATES
from virtlab.metrics.requests import REQUESTS
from virtlab.metrics.searches import SEARCHES
from virtlab.metrics.stores import STORES

METRICS: dict[str, Metric] = by_key(
    *NETWORK.values(),
    *RATES.values(),
    *REQUESTS.values(),
    *SEARCHES.values(),
    *BENCHMARKS.values(),
    *DEADLINES.values(),
    *HEALTH.values(),
    *MACHINES.values(),
    *MIGRATION.values(),
    *PROGRAMS.values(),
    *STORES.values(),
)
"""Every metric by key."""
