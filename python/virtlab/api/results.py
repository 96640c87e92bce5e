"""A dataset in Python: verdicts, values, samples and plots of what was run."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from virtlab.api.pictures import Picture
from virtlab.api.tables import Table
from virtlab.errors import ExperimentError
from virtlab.units import did_you_mean

if TYPE_CHECKING:
    from virtlab.campaign import Ending
    from virtlab.report.figures.grammar.figure import Figure
    from virtlab.report.gather.gathered import Gathered
    from virtlab.report.gather.model import Verdict
    from virtlab.results import Dataset, RunRecord

VERDICT_COLOURS = {"holds": "#1a7f37", "refuted": "#cf222e"}


def _parts(record: RunRecord, role: str) -> set[str]:
    """Parts of a role of a run that have values of their own, and '' for the role itself; nothing of another."""
    from virtlab.catalogue import WORKLOADS

    if role not in record.plan.roles:
        return set()
    entry = record.plan.roles[role]
    rows = WORKLOADS[entry.workload].part_rows
    return {"", *(rows(entry.parameters) if rows is not None else ())}


class Results:
    """What an experiment found. `path` is the dataset's folder."""

    def __init__(self, dataset: Dataset, ending: Ending | None = None) -> None:
        self._dataset = dataset
        self._ending = ending
        self.path: Path = dataset.path

    @cached_property
    def _data(self) -> Gathered:
        from virtlab.report.gather.dataset import gather

        return gather(self._dataset)

    @cached_property
    def _figures(self) -> dict[str, Figure]:
        from virtlab.report.figures.plots import figures_of

        return {one.name: one for one in figures_of(self._data) if not one.empty}

    @property
    def verdicts(self) -> Sequence[Verdict]:
        """Each claim as judged: `.verdict`, `.sentence`, `.estimate`, `.claim`, `.more_runs`."""
        return self._data.verdicts

    @property
    def notes(self) -> Sequence[str]:
        """Warnings that a reader needs before the first number."""
        return self._data.notes

    @property
    def lacking(self) -> dict[int, str]:
        """Design points with too few good runs, and why; empty for a dataset that was opened and not run."""
        return dict(self._ending.lacking) if self._ending is not None else {}

    @property
    def exit_code(self) -> int:
        """As of `virtlab run`: 0 all claims hold, 1 one is refuted, 4 one is undecided or points lack good runs."""
        rulings = {verdict.verdict for verdict in self.verdicts}
        return 1 if "refuted" in rulings else 4 if self.lacking or "undecided" in rulings else 0

    def _views(self) -> Any:
        """Samples and runs as views; the caller keeps it open."""
        from virtlab.results.views import database

        return database(self._dataset.runs())

    def values(self) -> Table:
        """One row per good run, role, metric and statistic, with the levels of the factors."""
        from virtlab.cli.dataset.export import value_rows

        return Table.of(*value_rows(self._dataset))

    def samples(self, kind: str, *, all_runs: bool = False) -> Table:
        """Every sample of a kind (`rtt`, `packet`, `series`, ...) of the good runs, or of all; in no particular
        order.
        """
        from virtlab.results.export import kinds
        from virtlab.results.parquet import quoted

        there = kinds(self._dataset)
        if kind not in there:
            raise ExperimentError(
                "samples", f"the dataset has no samples of '{kind}'", did_you_mean(kind, there)
            )
        where = "" if all_runs else " WHERE status = 'ok'"
        return Table(self._views(), f"SELECT * FROM {quoted(kind)}{where}")  # noqa: S608 - a known kind

    def over_time(self, role: str, *, metric: str = "response_time", every: str = "1 s") -> Table:
        """The requests of a role in each interval of each good run, and the median, p99 and maximum of their times.

        `metric` is `response_time`, `transaction_time` or `operation_time`; of the last `role` may be a part of one,
        such as `load.read_10kB`. An interval without a request has no row.
        """
        from virtlab.catalogue.kinds import POSITIVE_DURATION
        from virtlab.report.gather.distributions.over_time import TIMED, intervals
        from virtlab.report.gather.distributions.samples import declare_windows

        if metric not in TIMED:
            what = f"'{metric}' is not a time of requests"
            raise ExperimentError("over_time", what, f"name {' or '.join(sorted(TIMED))}")
        records = [record for record in self._dataset.runs() if record.status == "ok"]
        own, _, part = role.partition(".")
        if not any(part in _parts(record, own) for record in records):
            raise ExperimentError("over_time", f"no good run has a role '{role}'", "see `.values()`")
        try:
            width_ns = POSITIVE_DURATION.parse(every)
        except ValueError as error:
            what, _, cure = str(error).partition("; ")
            raise ExperimentError("over_time", what, cure) from None
        with self._views() as db:
            declare_windows(db, records)
            return Table.of(*intervals(db, role, metric, width_ns))

    def runs(self) -> Table:
        """One row per run and attempt, with its status."""
        return Table(self._views(), "SELECT * FROM runs ORDER BY run")

    @property
    def figures(self) -> list[str]:
        """The names of the plots."""
        return list(self._figures)

    def figure(self, name: str) -> Picture:
        """A plot of the report by its name."""
        if name not in self._figures:
            raise ExperimentError("figure", f"there is no plot '{name}'", did_you_mean(name, self._figures))
        found = self._figures[name]
        return Picture(found.name, found.title, found.alt, found)

    def report(self) -> Path:
        """Writes the report and returns its page."""
        from virtlab.report import write_report

        return write_report(self._dataset, data=self._data)

    def as_json(self) -> dict[str, Any]:
        """The object that `virtlab report --json` prints."""
        from virtlab.report import as_json

        return as_json(self._dataset, None, self._data)

    def _repr_html_(self) -> str:
        from markupsafe import escape

        rows = "".join(
            f'<tr><td style="color: {VERDICT_COLOURS.get(one.verdict, "#9a6700")}"><b>{escape(one.verdict)}</b></td>'
            f'<td style="text-align: left">{escape(one.sentence)}</td></tr>'
            for one in self.verdicts
        )
        return f"<p><b>{escape(self._data.origin.title)}</b></p><table><tbody>{rows}</tbody></table>"

    def __repr__(self) -> str:
        tally = ", ".join(f"{one.name or one.claim}: {one.verdict}" for one in self.verdicts)
        return f"<Results {self.path}: {tally or 'no claims'}>"


def open_results(path: str | Path) -> Results:
    """The results in `path`, the folder of a dataset. DatasetError when the folder is not a dataset."""
    from virtlab.results import Dataset

    return Results(Dataset.open(Path(path)))
