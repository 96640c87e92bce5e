"""OpenTelemetry's protocol over HTTP, binary: gauges with attributes, one resource, one scope.

Source: 'OTLP specification' 1.x and opentelemetry/proto/metrics/v1 (ExportMetricsServiceRequest: 1 resource_metrics;
ResourceMetrics: 1 resource, 2 scope_metrics; ScopeMetrics: 1 scope, 2 metrics; Metric: 1 name, 2 description, 3 unit, 5
gauge; NumberDataPoint: 3 time_unix_nano, 4 as_double, 7 attributes). Names have dots and units are UCUM's, from which
receivers make the names that Prometheus uses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby

from virtlab import __version__
from virtlab.report.exchange.push.numbers import Number
from virtlab.report.exchange.push.protobuf import double, fields, fixed64, message, text
from virtlab.report.exchange.push.receiver import Receiver


def encoded(numbers: Sequence[Number]) -> bytes:
    """The body of one request."""
    resource = message(1, *_attributes(1, {"service.name": "virtlab", "service.version": __version__}))
    scope = message(1, text(1, "virtlab"), text(2, __version__))
    metrics = [_metric(list(group)) for _, group in groupby(numbers, key=lambda number: number.name)]
    return message(1, resource, message(2, scope, *metrics))


def _metric(members: Sequence[Number]) -> bytes:
    first = members[0]
    points = [
        message(
            1, fixed64(3, each.time_ns), double(4, each.value), *_attributes(7, each.labels)
        )
        for each in members
    ]  # fmt: skip
    unit = [text(3, first.unit.ucum)] if first.unit.ucum else []
    name = ".".join(("virtlab", *first.words))
    return message(2, text(1, name), text(2, first.about), *unit, message(5, *points))


def _attributes(field: int, labels: Mapping[str, str]) -> list[bytes]:
    return [message(field, text(1, name), message(2, text(1, value))) for name, value in labels.items()]


def refused(answer: bytes) -> str:
    """What a good answer did not take (partial_success: 1 rejected_data_points, 2 error_message), or an empty text."""
    try:
        told = [value for number, value in fields(answer) if number == 1]
        partial = dict(fields(told[0])) if told and isinstance(told[0], bytes) else {}
    except ValueError:
        return ""
    count, why = partial.get(1, 0), partial.get(2, b"")
    if not isinstance(count, int) or not count:
        return ""
    words = why.decode(errors="replace") if isinstance(why, bytes) else ""
    return f"{count} numbers were rejected: {words}".rstrip(": ")


RECEIVER = Receiver("otlp", "URL", encoded, {"Content-Type": "application/x-protobuf"}, refused)
