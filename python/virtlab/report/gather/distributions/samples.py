"""Where the single samples of a metric are, and which of them count: views, values and windows, as SQL for DuckDB."""

# ruff: noqa: S608 - the SQL is made of the constants below; names are parameters

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from virtlab.analysis.window import role_window
from virtlab.catalogue import WORKLOADS
from virtlab.lazy import duckdb
from virtlab.metrics import Metric
from virtlab.results import RunRecord


@dataclass(frozen=True, slots=True)
class Source:
    """Where the single samples of a metric are: the view, the value, the instant, and which rows count."""

    view: str
    value: str
    instant: str
    counts: str = "true"


# psping keeps rows of its own, whatever its test measures; a role has rows of one kind only.
_SHARED = "run, point, link_realisation, status, stream"
_REQUESTS = "FROM request WHERE seq >= 0 AND finished_ns >= 0"
_ROUND_TRIPS = (
    f"(SELECT {_SHARED}, seq, sent_ns, rtt_ns FROM rtt UNION ALL "
    f"SELECT {_SHARED}, seq, sent_ns, finished_ns - sent_ns AS rtt_ns {_REQUESTS})"
)
_TRANSACTIONS = (
    f"(SELECT {_SHARED}, started_ns, finished_ns FROM transaction UNION ALL "
    f"SELECT {_SHARED}, sent_ns AS started_ns, finished_ns {_REQUESTS})"
)
_RESPONSES = (
    f"(SELECT {_SHARED}, intended_ns AS due_ns, finished_ns - intended_ns AS response_ns FROM response "
    f"WHERE error IN (0, 2, 4) UNION ALL SELECT {_SHARED}, release_ns AS due_ns, response_ns FROM rt_job "
    "WHERE response_ns >= 0)"
)

# A row is of its role, and of each part of that whose values it has.
_OPERATIONS = (
    "(SELECT o.run, o.point, o.link_realisation, o.status, p.part AS stream, o.intended_ns, o.finished_ns, o.thread "
    "FROM operation o JOIN role_parts p ON p.run = o.run AND p.stream = o.stream "
    "AND coalesce(p.operation, o.operation) = o.operation AND coalesce(p.object_bytes, o.object_bytes) = o.object_bytes "
    "WHERE o.outcome = 0)"
)
# Drawn over time, and not as a distribution.
OPERATION_TIME = Source(_OPERATIONS, "finished_ns - intended_ns", "intended_ns")

SAMPLED: dict[str, Source] = {
    "rtt": Source(_ROUND_TRIPS, "rtt_ns", "sent_ns", "s.seq >= w.first_seq"),
    "path_rtt": Source("rtt", "path_rtt_ns", "sent_ns", "path_rtt_ns >= 0"),
    "owd": Source("packet", "user_ns - sent_ns", "sent_ns", "user_ns > 0"),
    "path_owd": Source("packet", "received_ns - sent_ns", "sent_ns"),
    "burst_time": Source("burst", "finished_ns - sent_ns", "intended_ns", "finished_ns >= 0"),
    "transaction_time": Source(_TRANSACTIONS, "finished_ns - started_ns", "finished_ns"),
    "response_time": Source(_RESPONSES, "response_ns", "due_ns"),
    "client_wait": Source("response", "sent_ns - intended_ns", "intended_ns", "sent_ns >= 0"),
    "connect_time": Source("request", "finished_ns - sent_ns", "sent_ns", "seq >= 0 AND finished_ns >= 0"),
}


def source_of(metric: Metric) -> Source | None:
    """Where the single samples of a metric are; None where it has none that can be drawn. A file declares its name,
    which is of small letters, digits and _.
    """
    if metric.over_time:
        return Source("value", "value", "t_ns", f"metric = '{metric.key}'")
    return SAMPLED.get(metric.key)


def declare_windows(db: duckdb.DuckDBPyConnection, records: Iterable[RunRecord]) -> None:
    """A table `role_windows` (run, stream, begin_ns, end_ns): when each role's samples count, as in the analysis; and
    `role_parts` (run, stream, part, operation, object_bytes): which of its operations are of which part, or of it.
    """
    db.execute("SET enable_progress_bar = false")
    db.execute(
        "CREATE TEMP TABLE role_windows "
        "(run VARCHAR, stream VARCHAR, begin_ns BIGINT, end_ns BIGINT, first_seq BIGINT)"
    )
    db.execute(
        "CREATE TEMP TABLE role_parts "
        "(run VARCHAR, stream VARCHAR, part VARCHAR, operation BIGINT, object_bytes BIGINT)"
    )
    rows, parts = [], []
    for record in records:
        for role, entry in record.plan.roles.items():
            window = role_window(record, role)
            edges = (-(2**62), 2**62) if window.whole else (window.begin_ns, window.end_ns)
            echoed = entry.parameters.get("protocol") == "icmp" and "warmup" in entry.parameters
            first_seq = int(entry.parameters["warmup"]) if echoed else -(2**62)
            rows.append([record.name, role, *edges, first_seq])
            part_rows = WORKLOADS[entry.workload].part_rows
            for part, held in (part_rows(entry.parameters) if part_rows is not None else {}).items():
                rows.append([record.name, f"{role}.{part}", *edges, first_seq])
                parts.append(
                    [record.name, role, f"{role}.{part}", held.get("operation"), held.get("object_bytes")]
                )
            parts.append([record.name, role, role, None, None])
    for table, found in (("role_windows", rows), ("role_parts", parts)):
        if found:
            db.executemany(f"INSERT INTO {table} VALUES (?, ?, ?, ?, ?)", found)


def rows_of(source: Source, *, counted: bool = True, also: str = "") -> str:
    """SQL of the samples of a role (one parameter): run, point, link_realisation, t_ns, value. `counted`: those that
    count; else all of a run, without a warm-up. `also`: a further column, as ", s.NAME".
    """
    counts = f" AND s.{source.instant} >= w.begin_ns AND s.{source.instant} < w.end_ns" if counted else ""
    return (
        f"SELECT s.run, s.point, s.link_realisation, s.{source.instant} AS t_ns, ({source.value}) AS value{also} "
        f"FROM {source.view} s JOIN role_windows w ON w.run = s.run AND w.stream = s.stream "
        f"WHERE s.stream = ? AND s.status = 'ok' AND ({source.counts}){counts}"
    )
