"""`http_get`: GET requests and their answers; what was answered with 200 is a transaction, what was not is an error.

Transactions count in the window; errors are the client's own count over its whole time, since they have no rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from virtlab.analysis.workloads import health, tcp_rr

if TYPE_CHECKING:
    from virtlab.analysis.context import RoleContext

ERRORS = ("status_errors", "timeouts", "broken_connections")


def values(context: RoleContext) -> None:
    """Transactions per second, the time of each, and requests that became none."""
    out, counters = context.out, context.counters
    tcp_rr.values(context)
    if "requests" not in counters:
        out.absent("request_errors", health.NOT_COUNTED)
        return
    errors = sum(counters[name] for name in ERRORS)
    ended = errors + counters["transactions"]
    out.add("request_errors", "ratio", errors / ended if ended else None, ended, "no request ended")
    out.add("request_errors", "count", errors, ended)
