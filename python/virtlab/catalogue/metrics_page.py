"""The registry as a page for people: docs/reference/metrics.md is written by this and checked against it.

`python -m virtlab.catalogue.metrics_page` prints the page.
"""

from __future__ import annotations

from collections.abc import Iterable
from textwrap import dedent

from virtlab.catalogue.workloads import measuring
from virtlab.metrics.benchmarks import BENCHMARKS
from virtlab.metrics.deadlines import DEADLINES
from virtlab.metrics.health import HEALTH
from virtlab.metrics.machines import MACHINES
from virtlab.metrics.metric import Metric
from virtlab.metrics.migration import MIGRATION
from virtlab.metrics.network import NETWORK
from virtlab.metrics.programs import PROGRAMS
from virtlab.metrics.rates import RATES
from virtlab.metrics.requests import REQUESTS
from virtlab.metrics.searches import SEARCHES
from virtlab.metrics.statistic import STATISTICS
from virtlab.metrics.stores import STORES

_HEAD = """\
    # Metrics

    A path names a value of a run: `<role>.<metric>.<statistic>`, e.g. `probe.rtt.p99`. Values are kept in SI units
    (ns, bit/s, bytes, ratios from 0 to 1) and shown in the unit that reads best.

    There is no plain *jitter*. What different tools call so is, here:

    | here | what it is | who calls it jitter |
    |---|---|---|
    | `rtt.mdev` | population standard deviation of round trips | users of `ping` |
    | `rtt.range` | longest minus shortest round trip | many papers |
    | `jitter_rfc3550.final` | smoothed absolute difference, J += (D - J)/16 | iperf, RTP |
    | `ipdv.*` | difference of consecutive delays | RFC 3393 |
    | `pdv.*` | delay minus the smallest delay | RFC 5481 |

    Application delay (`rtt`, `owd`) is from user space to user space; path delay (`path_rtt`, `path_owd`) ends at
    the kernel's stamp. Their difference is the machine's wake-up, not the network.

    A metric counts over the window `measured`; a role that began and ended inside it counts whole. Where a metric
    could not be had it is absent with a reason, never zero.

    A file may [declare metrics](workloads.md#program-a-program-of-your-own-in-a-guest-its-metrics-read-from-its-output)
    of its own programs; they have the statistics of `rtt`.
    """


def page() -> str:
    """The whole page as Markdown."""
    parts = [dedent(_HEAD).rstrip()]
    for title, metrics in (
        ("Delay, loss, order", NETWORK),
        ("Load and rates", RATES),
        ("Requests", REQUESTS),
        ("Found by searches", SEARCHES),
        ("Tested after searches", BENCHMARKS),
        ("Hard deadlines", DEADLINES),
        ("Health", HEALTH),
        ("Machines beside the load", MACHINES),
        ("Guests that move", MIGRATION),
        ("Programs of your own", PROGRAMS),
        ("Clients of stores", STORES),
    ):
        parts.append(f"\n## {title}\n")
        parts.append(_table(metrics.values()))
    parts.append("\n## Statistics\n\n| statistic | definition | samples needed |\n|---|---|---|")
    parts += [
        f"| `{key}` | {entry.definition} | {entry.least_samples} |" for key, entry in STATISTICS.items()
    ]
    return "\n".join(parts) + "\n"


def _table(metrics: Iterable[Metric]) -> str:
    lines = [
        "| metric | unit | better | definition | source | of | statistics |",
        "|---|---|---|---|---|---|---|",
    ]
    for metric in metrics:
        of = ", ".join(measuring(metric.key)) or "entities"
        statistics = ", ".join(metric.statistics)
        lines.append(
            f"| `{metric.key}` | {metric.unit} | {metric.better} | {_cell(metric.definition)} "
            f"| {_cell(metric.source)} | {of} | {statistics} |"
        )
    return "\n".join(lines)


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    import sys

    sys.stdout.write(page())
