"""The buckets of a histogram: edges, how many requests, their share, and the share up to there."""

from __future__ import annotations

from dataclasses import dataclass

from virtlab.report import names
from virtlab.report.gather.distributions.histograms import Buckets, Histogram
from virtlab.report.gather.gathered import Gathered
from virtlab.report.tables.table import Block, in_unit, number, setting_columns, table
from virtlab.units import display


@dataclass(frozen=True, slots=True)
class _Bucket:
    """The bucket at a place of a setting's histogram."""

    setting: Buckets
    at: int

    @property
    def count(self) -> int:
        """The number of samples in the bucket."""
        return self.setting.counts[self.at]

    def share(self, count: int) -> str:
        """A count as a share of the setting's."""
        return f"{count / sum(self.setting.counts):.2%}"


def buckets_table(data: Gathered, histogram: Histogram) -> Block:
    """A row per bucket of each setting; with given edges the outermost buckets are open."""
    shown = display(histogram.unit, [edge for one in histogram.settings for edge in one.edges])

    def low(row: _Bucket) -> str:
        return "smallest" if histogram.given and row.at == 0 else shown.number(row.setting.edges[row.at], 5)

    def high(row: _Bucket) -> str:
        last = row.at == len(row.setting.counts) - 1
        return "largest" if histogram.given and last else shown.number(row.setting.edges[row.at + 1], 5)

    return table(
        [
            *setting_columns(data.design.varying, histogram.settings, lambda row: row.setting),
            number(in_unit("from", shown.unit), low),
            number(in_unit("below", shown.unit), high),
            number("requests", lambda row: str(row.count)),
            number("share", lambda row: row.share(row.count)),
            number("up to here", lambda row: row.share(sum(row.setting.counts[: row.at + 1]))),
        ],
        [_Bucket(one, at) for one in histogram.settings for at in range(len(one.counts))],
        name=names.of_metric("buckets", histogram.role, histogram.metric),
        title="histogram",
        caption=f"{histogram.role}.{histogram.metric}: requests per bucket, as PsPing's -h; all runs of a setting together"
        + ("" if histogram.given else "; the last of equal buckets holds the largest value"),
        out=lambda row: row.count == 0,
    )
