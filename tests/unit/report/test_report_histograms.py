"""A histogram counts every request once, in the buckets that PsPing's -h would have."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtlab.catalogue import WORKLOADS
from virtlab.report.figures.samples.histograms import histogram_figure
from virtlab.report.gather.distributions.histograms import Histogram, Wish, buckets_of, edges_between
from virtlab.report.gather.distributions.samples import SAMPLED
from virtlab.report.gather.model import Factor

POINTS = {0: {"licence": "2.5 Mbit/s"}, 1: {"licence": "10 Mbit/s"}}


def dataset(*runs: tuple[int, str, list[int]], warmup: int = 0) -> object:
    """A connection with the views of a dataset: (point, link realisation, times in ns) of each run."""
    import duckdb

    db = duckdb.connect()
    db.execute("CREATE TABLE rtt (run VARCHAR, point INT, link_realisation VARCHAR, status VARCHAR, stream VARCHAR, "
               "seq BIGINT, sent_ns BIGINT, rtt_ns BIGINT)")  # fmt: skip
    db.execute("CREATE TABLE request (run VARCHAR, point INT, link_realisation VARCHAR, status VARCHAR, stream VARCHAR, "
               "seq BIGINT, sent_ns BIGINT, finished_ns BIGINT)")  # fmt: skip
    db.execute(
        "CREATE TABLE role_windows (run VARCHAR, stream VARCHAR, begin_ns BIGINT, end_ns BIGINT, first_seq BIGINT)"
    )
    for number, (point, realisation, times) in enumerate(runs):
        name = f"run{number}"
        db.execute("INSERT INTO role_windows VALUES (?, 'small', ?, ?, ?)", [name, -(2**62), 2**62, -(2**62)])
        for seq, time in enumerate(times):
            row = [name, point, realisation, "ok", "small", seq - warmup, 1_000, 1_000 + time]
            db.execute("INSERT INTO request VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
    return db


def counted(db: object, wish: Wish) -> list[tuple[str, str, tuple[float, ...], tuple[int, ...], int]]:
    return [
        (one.point["licence"], one.realisation, one.edges, one.counts, one.runs)
        for one in buckets_of(db, "small", SAMPLED["rtt"], POINTS, wish)  # type: ignore[arg-type]
    ]


@pytest.mark.slow
def test_the_buckets_are_those_that_psping_printed_for_the_times_that_it_printed() -> None:
    """`psping -4 -n 10 -w 2 -h 10` as PsPing v2.10 printed it, digits cut off: times in ms, ten buckets, their
    counts.
    """
    times_ms = [43.91, 43.50, 39.25, 41.05, 39.27, 40.40, 38.30, 43.74, 43.54, 41.26]
    printed = [38.30, 38.92, 39.55, 40.17, 40.79, 41.41, 42.04, 42.66, 43.28, 43.91]
    db = dataset((0, "shaping", [round(time * 1e6) for time in times_ms]))
    ((_, _, edges, counts, _),) = counted(db, Wish(buckets=10))
    assert counts == (1, 2, 0, 1, 2, 0, 0, 0, 3, 1)
    assert [edge / 1e6 for edge in edges[:-1]] == pytest.approx(printed, abs=0.0101)


@pytest.mark.slow
def test_the_last_of_equal_buckets_holds_the_largest_value() -> None:
    db = dataset((0, "shaping", [0, 10, 20, 30, 40]))
    assert counted(db, Wish(buckets=3)) == [("2.5 Mbit/s", "shaping", (0.0, 20.0, 40.0, 60.0), (2, 2, 1), 1)]


@pytest.mark.slow
def test_given_times_leave_the_outermost_buckets_open() -> None:
    db = dataset((0, "shaping", [5, 10, 15, 20, 900]))
    ((_, _, edges, counts, _),) = counted(db, Wish(edges=(10.0, 20.0, 30.0)))
    assert edges == (5.0, 10.0, 20.0, 30.0, 900.0)
    assert counts == (1, 2, 1, 1)


@pytest.mark.slow
def test_runs_of_a_setting_are_pooled_and_settings_and_realisations_never() -> None:
    db = dataset((0, "shaping", [1, 2]), (0, "shaping", [3]), (0, "netem", [4]), (1, "shaping", [5, 6]))
    found = [(level, links, sum(counts), runs) for level, links, _, counts, runs in counted(db, Wish())]
    assert found == [
        ("2.5 Mbit/s", "netem", 1, 1), ("2.5 Mbit/s", "shaping", 3, 2), ("10 Mbit/s", "shaping", 2, 1),
    ]  # fmt: skip


@pytest.mark.slow
def test_what_never_ended_and_what_warmed_up_is_in_no_bucket() -> None:
    db = dataset((0, "shaping", [7, 8, 9, -2_000]), warmup=1)
    ((_, _, _, counts, _),) = counted(db, Wish())
    assert sum(counts) == 2


@pytest.mark.slow
def test_requests_that_all_took_the_same_are_one_bucket() -> None:
    db = dataset((0, "shaping", [7, 7, 7]))
    ((_, _, edges, counts, _),) = counted(db, Wish())
    assert (edges, counts) == ((7.0, 7.0), (3,))


@pytest.mark.slow
def test_requests_that_all_took_the_same_are_drawn_as_a_thin_bar() -> None:
    db = dataset((0, "shaping", [7_000, 7_000]))
    settings = tuple(buckets_of(db, "small", SAMPLED["rtt"], POINTS, Wish()))  # type: ignore[arg-type]
    figure = histogram_figure(Histogram("small", "rtt", "ns", "RTT", (), settings), [], split=False)
    bars = [(row["y"], row["end"] - row["x"]) for row in figure.spec["layer"][0]["data"]["values"]]
    assert [count for count, _ in bars] == [0, 2, 0]
    assert bars[1][1] < sum(width for _, width in bars) / 20


@pytest.mark.slow
@given(st.lists(st.integers(0, 10**9), min_size=2, max_size=60), st.integers(2, 40))
def test_lower_edges_lead_evenly_from_the_smallest_value_to_the_largest(
    times: list[int], buckets: int
) -> None:
    low, high = float(min(times)), float(max(times))
    edges = edges_between(low, high, Wish(buckets=buckets))
    if low < high:
        assert np.allclose(edges[:-1], np.linspace(low, high, buckets), rtol=1e-12, atol=1e-6)
    else:
        assert edges == (low, high)


@pytest.mark.slow
def test_counts_are_those_of_numpy() -> None:
    times = [int(value) for value in np.random.default_rng(5).gamma(2.0, 1e6, 300)]
    ((_, _, edges, counts, _),) = counted(dataset((0, "shaping", times)), Wish())
    assert counts == tuple(np.histogram(times, bins=np.array(edges))[0])


@pytest.mark.slow
def test_the_plot_has_a_panel_per_setting_and_a_bar_per_bucket() -> None:
    db = dataset((0, "shaping", [1, 2, 3]), (1, "shaping", [5, 60, 7]))
    settings = tuple(buckets_of(db, "small", SAMPLED["rtt"], POINTS, Wish(buckets=5)))  # type: ignore[arg-type]
    found = Histogram("small", "rtt", "ns", "RTT", (), settings)
    figure = histogram_figure(found, [Factor("licence", ("2.5 Mbit/s", "10 Mbit/s"))], split=False)
    assert figure.name == "histogram-of-small-rtt"
    assert len(figure.spec["data"]["values"]) == 10
    assert "licence 10 Mbit/s: most of 3 requests (2)" in figure.alt


@pytest.mark.parametrize(
    ("written", "planned"),
    [(30, {"histogram_buckets": 30}), (["1 ms", "5 ms"], {"histogram_edges_ns": [1_000_000, 5_000_000]})],
)
def test_a_role_names_its_buckets_or_the_times_between_them(
    written: object, planned: dict[str, object]
) -> None:
    parameter = WORKLOADS["psping"].parameter("histogram")
    assert parameter is not None
    assert parameter.plan_values(written) == planned
    wish = Wish.of(planned)
    assert (wish.buckets, wish.edges) in {(30, ()), (20, (1e6, 5e6))}


@pytest.mark.parametrize("wrong", [0, 201, True, "20", [], ["5 ms", "1 ms"], ["0 ms"], [3]])
def test_buckets_that_cannot_be_are_refused_with_a_cure(wrong: object) -> None:
    parameter = WORKLOADS["psping"].parameter("histogram")
    assert parameter is not None
    with pytest.raises(ValueError, match="; "):
        parameter.plan_values(wrong)
