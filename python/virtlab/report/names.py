"""Names of plots and tables: stable, readable, known before anything ran.

A name is the slug of a sentence about what is drawn, so an experiment file alone says which plots its report
will hold:

| plot | sentence |
|---|---|
| interval plot | `ROLE.METRIC.STATISTIC by FACTOR per FACTOR ...` (no factor: `ROLE.METRIC.STATISTIC`) |
| distribution | `ecdf of ROLE.METRIC` |
| exemplar runs | `series of ROLE.METRIC` |
| quantiles per interval | `ROLE.METRIC over time` |
| runs beside each other | `runs of ROLE.METRIC` |
| histogram | `histogram of ROLE.METRIC` |
| table of a histogram's buckets | `buckets of ROLE.METRIC` |
| table of variances within and between runs | `recurrence of ROLE.METRIC` |
| table of run-level values | `table of ROLE.METRIC` |
| processors during each test | `cpu of cores during tests` |
| waits and drops of classes | `waits of classes`, `drops of classes` |
| trials of a search | `search of ROLE`, table `trials of ROLE` |
| tests after a search | `latency of ROLE by load`, `latency quantiles of ROLE by load`, `frame loss of ROLE by load` |
| table of them | `tests of ROLE` |
| picture of the world | `topology` |
| machine, kernel, versions | `conditions` |
| objects as intended, applied, read back | `read-back` |

A factor counts when it has at least two levels among the design points; `per` lists the others in the file's
order.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

OfMetric = Literal["ecdf", "series", "runs", "histogram", "buckets", "recurrence", "table"]
OfProcessing = Literal["over time", "by load"]
OfSearch = Literal["search", "trials", "tests"]
ByLoad = Literal["latency", "latency quantiles", "frame loss"]
_OTHER = re.compile(r"[^a-z0-9]+")
REALISATION = "links"  # the panel and column of the link realisation, where a dataset holds several
CORES_PLOT = "cpu-of-cores-during-tests"
WRITES_PLOT = "writes-of-disks-by-load"
MOVES_PLOT = "memory-left-of-moves-over-time"
AROUND_MOVES_PLOTS = {
    "response times": "response-times-around-moves",
    "processors": "processors-around-moves",
    "writes": "writes-around-moves",
}
CLASS_WAITS_PLOT = "waits-of-classes"
CLASS_DROPS_PLOT = "drops-of-classes"
CONDITIONS, READ_BACK = "conditions", "read-back"


def slug(sentence: str) -> str:
    """Lower case; every run of characters other than a-z and 0-9 becomes one hyphen.

    >>> slug("probe.rtt.p99 by load per streams switches")
    'probe-rtt-p99-by-load-per-streams-switches'
    """
    return _OTHER.sub("-", sentence.lower()).strip("-")


def interval_plot(role: str, metric: str, statistic: str, x: str | None, factors: Sequence[str]) -> str:
    """The name of an interval plot with factor `x` on its axis.

    >>> interval_plot("probe", "rtt", "mean", "load", ["switches", "load", "streams"])
    'probe-rtt-mean-by-load-per-switches-streams'
    >>> interval_plot("probe", "rtt", "mean", None, [])
    'probe-rtt-mean'
    """
    others = [factor for factor in factors if factor != x]
    by = f" by {x}" if x else ""
    per = f" per {' '.join(others)}" if others else ""
    return slug(f"{role}.{metric}.{statistic}{by}{per}")


def of_metric(kind: OfMetric, role: str, metric: str) -> str:
    """The name of a plot or table of one metric that is no interval plot.

    >>> of_metric("ecdf", "probe", "rtt"), of_metric("table", "bulk", "goodput")
    ('ecdf-of-probe-rtt', 'table-of-bulk-goodput')
    """
    return slug(f"{kind} of {role}.{metric}")


def over_time(role: str, metric: str) -> str:
    """The name of a plot of quantiles per interval.

    >>> over_time("clients", "response_time")
    'clients-response-time-over-time'
    """
    return slug(f"{role}.{metric} over time")


def of_search(kind: OfSearch, role: str) -> str:
    """The name of a plot or table of a search, or of the tests after it.

    >>> of_search("search", "flows"), of_search("tests", "flows")
    ('search-of-flows', 'tests-of-flows')
    """
    return slug(f"{kind} of {role}")


def by_load(quantity: ByLoad, role: str) -> str:
    """The name of a plot against load, of the tests after a search.

    >>> by_load("frame loss", "flows")
    'frame-loss-of-flows-by-load'
    """
    return slug(f"{quantity} of {role} by load")


def processing(share: str, plot: OfProcessing) -> str:
    """The name of a plot of the share of processors: of the host's, or of those that guests may use.

    >>> processing("host", "over time"), processing("guests", "by load")
    ('cpu-of-host-over-time', 'cpu-of-guests-by-load')
    """
    return slug(f"cpu of {share} {plot}")


def search_section(role: str) -> str:
    """The group of figures of a search and the tests after it."""
    return f"search of {role}"
