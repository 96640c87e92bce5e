"""`figures.yaml`: every mistake is found without running anything; published numbers find their places."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.study_figures import check_rows
from tests.unit.report.report_specimen import experiment_text, write_dataset
from tools.drawable import names_of_experiment
from tools.figures import check_figures

from virtlab.analysis.claims import PublishedReference, parse_claim
from virtlab.errors import ExperimentError
from virtlab.report import write_report
from virtlab.report.figures.plots import figures_of
from virtlab.report.gather.dataset import gather
from virtlab.report.gather.model import Factor
from virtlab.report.gather.sources import published
from virtlab.report.gather.sources.source_figures import PublishedColumns, read_figures

GOOD = """\
source: a study
figures:
  - {figure: Figure 1, shows: delay, experiment: specimen.yaml, plots: [probe-rtt-p95-by-streams-per-switches-load]}
  - {figure: Table 1, shows: prices, why_not: nothing is measured}
  - {figure: Table 2, shows: values, experiment: specimen.yaml, plots: [table-of-probe-rtt, topology, ecdf-of-probe-rtt]}
"""
TABLE = """\
study,location,switches,load_bytes,metric,unit,value,qualifier
s,5.1,1,30000,rtt_mean,ms,1.5,about
s,5.2,1 or 2,0,rtt_mean,ms,0.5,range_low
s,5.2,1 or 2,0,rtt_mean,ms,0.7,range_high
s,5.3,2,12345,rtt_mean,ms,9,exact
s,5.4,2,,rtt_mean,ms,8,exact
"""


def written(folder: Path, text: str) -> Path:
    (folder / "specimen.yaml").write_text(experiment_text())
    (folder / "figures.yaml").write_text(text)
    return folder / "figures.yaml"


@pytest.mark.slow
def test_a_good_file_has_no_problem(tmp_path: Path) -> None:
    assert check_figures(written(tmp_path, GOOD)) == []


@pytest.mark.slow
def test_a_plot_that_will_not_be_is_told_with_the_nearest_that_will(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD.replace("p95-by-streams", "p95-by-stream"))
    (problem,) = check_figures(path)
    assert str(problem) == (
        "Figure 1: no report of specimen.yaml holds 'probe-rtt-p95-by-stream-per-switches-load'; "
        "the nearest is 'probe-rtt-p95-by-streams-per-switches-load'"
    )


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("{figure: F, shows: x}", "has neither plots, nor a command, nor a why_not"),
        ("{figure: F, shows: x, command: virtlab platforms, why_not: y}", "has command and why_not"),
        (
            "{figure: F, shows: x, plots: [topology], why_not: y, experiment: specimen.yaml}",
            "has plots and why_not",
        ),
        ("{figure: F, why_not: y}", "does not say what it shows"),
        ("{figure: F, shows: x, plots: [topology]}", "names no experiment"),
    ],
)
def test_an_entry_is_whole(tmp_path: Path, entry: str, says: str) -> None:
    problems = check_figures(written(tmp_path, f"figures:\n  - {entry}\n"))
    assert says in [problem.what for problem in problems]


NEVER = """
version: 1
name: never
factors: {load: [1 kpacket/s, 2 kpacket/s]}
hosts: 2
topology: line
link: {rate: 100 Mbit/s}
roles:
  one: {workload: raw_stream, from: h1.g1, to: h2.g1, size: 64 B frame, rate: "${load}"}
  shared: {workload: raw_stream, from: h1.g1, to: h2.g1, size: 64 B frame, rate: "${load}", flows: 2}
  all: {workload: raw_stream, from: h1.g1, to: h2.g1, size: 64 B frame}
  ping: {workload: psping, test: latency, from: h1.g1, to: h2.g1}
"""
SEARCH = """
search: {variable: one.rate, low: 1 kpacket/s, high: wire, goals: [{loss: 0 %}]}
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plot", "drawn"),
    [
        ("shared-split-owd-mean-by-load", True),
        ("one-split-owd-mean-by-load", False),  # of one flow
        ("one-fairness-jain-by-load", False),
        ("all-achieved-share-ratio-by-load", False),  # as fast as possible falls short of nothing
        ("one-achieved-share-ratio-by-load", True),
        ("ping-rtt-mean-by-load", True),
        ("ping-bandwidth-mean-by-load", False),  # of another test of PsPing
        ("one-ndr-found-by-load", False),  # nothing is searched
        ("one-latency-mean-by-load", False),
        ("conditions", True),
        ("read-back", True),
    ],
)
def test_a_plot_that_no_role_can_fill_is_refused(tmp_path: Path, plot: str, drawn: bool) -> None:
    (tmp_path / "never.yaml").write_text(NEVER)
    path = tmp_path / "figures.yaml"
    path.write_text(f"figures:\n  - {{figure: F, shows: x, experiment: never.yaml, plots: [{plot}]}}\n")
    assert (check_figures(path) == []) is drawn


def test_what_a_search_finds_is_drawn_of_its_own_role_alone(tmp_path: Path) -> None:
    (tmp_path / "never.yaml").write_text(NEVER.replace('rate: "${load}"', "rate: 1 kpacket/s", 1) + SEARCH)
    names = names_of_experiment(tmp_path / "never.yaml")
    assert {"one-ndr-found-by-load", "one-ndr-rate-found-by-load", "search-of-one"} <= set(names)
    assert not {"one-pdr-found-by-load", "shared-ndr-found-by-load", "one-limit-rate-found-by-load"} & set(
        names
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plots", "says"), [("table", []), ("probe", ["the report of never.yaml holds none of its plots"])]
)
def test_an_experiment_that_holds_no_plot_of_its_entry_is_refused(
    tmp_path: Path, plots: str, says: list[str]
) -> None:
    """The topology, beside a table of the specimen's, is in both."""
    (tmp_path / "never.yaml").write_text(NEVER)
    both = f"experiment: [specimen.yaml, never.yaml], plots: [{plots}"
    path = written(tmp_path, GOOD.replace(f"experiment: specimen.yaml, plots: [{plots}", both))
    assert [problem.what for problem in check_figures(path)] == says


ROWS = """\
source,number,kind
a,Fig 1,measurement
a,Table 2,features
b,Fig 1,measurement
"""


@pytest.mark.parametrize(
    ("entries", "says"),
    [
        (["Fig 1", "Table 2", "Section 5"], []),
        (["Fig 1"], ["Table 2: has no entry"]),
        (["Fig 1", "Fig 1", "Table 2"], ["Fig 1: has 2 entries"]),
        (["Fig 1", "Table 2", "Fig 3"], ["Fig 3: is not a figure of a"]),
    ],
)
def test_each_row_of_the_table_of_figures_has_one_entry(
    tmp_path: Path, entries: list[str], says: list[str]
) -> None:
    (tmp_path / "figures.csv").write_text(ROWS)
    path = tmp_path / "figures.yaml"
    lines = [f"  - {{figure: {name}, shows: x, command: virtlab platforms}}" for name in entries]
    path.write_text("rows: a\nfigures:\n" + "\n".join(lines) + "\n")
    assert [str(one).rpartition(";")[0] for one in check_rows(path, tmp_path / "figures.csv")] == says


def test_few_figures_of_a_source_may_be_declined(tmp_path: Path) -> None:
    numbers = [f"Fig {number}" for number in range(1, 7)]
    (tmp_path / "figures.csv").write_text("source,number\n" + "".join(f"a,{name}\n" for name in numbers))
    path = tmp_path / "figures.yaml"
    path.write_text(
        "rows: a\nfigures:\n" + "".join(f"  - {{figure: {name}, shows: x, why_not: y}}\n" for name in numbers)
    )
    (problem,) = check_rows(path, tmp_path / "figures.csv")
    assert "6 figures are declined" in problem.what


def test_a_number_lies_at_the_level_at_which_the_source_took_it(tmp_path: Path) -> None:
    asked = {"columns": {"qdisc": "qdisc"}, "at": {"bed": "qemu"}, "where": {"bed": "KVM"}}
    (tmp_path / "beds.csv").write_text(BEDS)
    given = [PublishedColumns("beds.csv", "rtt_mean", "probe.rtt.mean", **asked)]
    found = published.overlays([], given, tmp_path, [BED, QDISC])["probe.rtt.mean"]
    assert [dict(one.point) for one in found] == [
        {"qdisc": "fifo", "bed": "qemu"},
        {"qdisc": "codel", "bed": "qemu"},
    ]


@pytest.mark.parametrize(
    "text", ["", "figures: 3", "figures: [3]", "figures: [{figure: F, plot: x}]", "a: [", "\x00"]
)
def test_what_is_no_such_file_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ExperimentError):
        read_figures(written(tmp_path, text))


@pytest.mark.slow
def test_published_numbers_lie_over_the_plots_they_speak_of(tmp_path: Path) -> None:
    (tmp_path / "published").mkdir()
    (tmp_path / "published" / "study.csv").write_text(TABLE)
    overlay = """\
published:
  - {file: study.csv, metric: rtt_mean, path: probe.rtt.mean, columns: {switches: switches, load_bytes: load}}
"""
    figures = written(tmp_path, GOOD + overlay)
    dataset = write_dataset(tmp_path / "specimen.results", runs=16, samples=60)
    data = gather(dataset, figures_file=figures)
    result = next(one for one in data.results if one.quantity.path == "probe.rtt.mean")
    numbers = {
        (one.point.get("switches"), one.point.get("load"), one.low, one.high) for one in result.published
    }
    assert numbers == {
        ("1", "30 kB", 1.5e6, 1.5e6),
        ("1", "0 B", 0.5e6, 0.7e6),
        ("2", "0 B", 0.5e6, 0.7e6),
        ("2", None, 8e6, 8e6),
    }
    figure = next(
        one for one in figures_of(data) if one.name == "probe-rtt-mean-by-load-per-switches-streams"
    )
    places = {(row["level"], row["colour"]) for row in figure.spec["data"]["values"] if "source" in row}
    assert places == {
        ("30 kB", "1"),
        ("0 B", "1"),
        ("0 B", "2"),
    }  # the number without a load has no place on this axis

    page = write_report(dataset, figures_file=figures, formats=()).read_text(encoding="utf-8")
    assert "probe-rtt-p95-by-streams-per-switches-load" in page
    assert "nothing is measured" in page
    kept = dataset.report_folder / "source"
    assert (kept / "figures.yaml").read_bytes() == figures.read_bytes()
    assert (kept / "published" / "study.csv").read_text() == TABLE


@pytest.mark.parametrize(
    ("cell", "level", "column", "same"),
    [
        ("FQ-CODEL", "fq_codel", "qdisc", True),
        ("Linux bridge", "linux_bridge", "vswitch", True),
        ("CODEL", "fq_codel", "qdisc", False),
        ("30000", "30 kB", "load_bytes", True),
    ],
)
def test_a_cell_is_a_level_however_its_words_are_joined(
    cell: str, level: str, column: str, same: bool
) -> None:
    assert published._same(cell, level, column) is same


BEDS = """\
metric,bed,qdisc,unit,value
rtt_mean,Docker,FIFO,ms,1
rtt_mean,Docker,CODEL,ms,2
rtt_mean,KVM,FIFO,ms,3
rtt_mean,KVM,CODEL,ms,4
"""
QDISC = Factor("qdisc", ("fifo", "codel"))
BED = Factor("bed", ("container", "qemu"))


def drawn(
    tmp_path: Path, factors: list[Factor], *, asked: dict[str, Any] | None = None, claims: Sequence[Any] = ()
) -> dict[tuple[str | None, str | None], list[float]]:
    """Where numbers of the table lie, by (bed, qdisc), in ms."""
    (tmp_path / "beds.csv").write_text(BEDS)
    given = [PublishedColumns("beds.csv", "rtt_mean", "probe.rtt.mean", where={}, **asked)] if asked else []
    found: dict[tuple[str | None, str | None], list[float]] = {}
    for one in published.overlays(claims, given, tmp_path, factors).get("probe.rtt.mean", ()):
        found.setdefault((one.point.get("bed"), one.point.get("qdisc")), []).append(one.low / 1e6)
    return found


def test_a_cell_with_other_words_is_the_level_that_it_is_said_to_be(tmp_path: Path) -> None:
    asked = {
        "columns": {"bed": "bed", "qdisc": "qdisc"},
        "levels": {"Docker": "container", "KVM": "qemu"},
    }
    assert drawn(tmp_path, [BED, QDISC], asked=asked) == {
        ("container", "fifo"): [1], ("container", "codel"): [2], ("qemu", "fifo"): [3], ("qemu", "codel"): [4],
    }  # fmt: skip
    one = Factor("bed", ("qemu",))
    assert drawn(tmp_path, [one, QDISC], asked=asked) == {(None, "fifo"): [3], (None, "codel"): [4]}
    assert drawn(tmp_path, [QDISC], asked=asked) == {}, (
        "of which bed an experiment without beds is, none knows"
    )


@pytest.mark.parametrize(
    ("text", "where", "places"),
    [
        (
            "probe.rtt.mean: qdisc equivalent within 2 % where bed = qemu",
            {"bed": "KVM"},
            {("qemu", "fifo"): [3], ("qemu", "codel"): [4]},
        ),
        ("probe.rtt.mean: bed container < qemu where qdisc = fifo", {"qdisc": "FIFO"}, {}),
        ("probe.rtt.mean: qdisc codel - fifo within published +- 5 % where bed = qemu", {"bed": "KVM"}, {}),
        ("probe.rtt.mean: qdisc fifo < codel where bed != qemu", {}, {}),
        (
            "probe.rtt.mean <= 1 ms where bed = container, qdisc = fifo",
            {"bed": "Docker", "qdisc": "FIFO"},
            {("container", "fifo"): [1]},
        ),
    ],
)
def test_a_claims_numbers_lie_where_the_claim_speaks_and_nowhere_else(
    tmp_path: Path, text: str, where: dict[str, str], places: dict[Any, list[float]]
) -> None:
    claim = parse_claim(text, published=PublishedReference("beds.csv", "rtt_mean", where))
    assert drawn(tmp_path, [BED, QDISC], claims=[claim]) == places


def test_every_claim_on_a_path_puts_its_numbers_there(tmp_path: Path) -> None:
    claims = [
        parse_claim(
            f"probe.rtt.mean: qdisc fifo < codel where bed = {level}",
            published=PublishedReference("beds.csv", "rtt_mean", {"bed": cell}),
        )
        for level, cell in (("container", "Docker"), ("qemu", "KVM"))
    ]
    assert drawn(tmp_path, [BED, QDISC], claims=claims) == {
        ("container", "fifo"): [1], ("container", "codel"): [2], ("qemu", "fifo"): [3], ("qemu", "codel"): [4],
    }  # fmt: skip


def test_levels_that_are_no_mapping_are_refused(tmp_path: Path) -> None:
    wrong = "published:\n  - {file: a.csv, metric: m, path: probe.rtt.mean, levels: [KVM]}\n"
    with pytest.raises(ExperimentError, match="is not a mapping"):
        read_figures(written(tmp_path, GOOD + wrong))
