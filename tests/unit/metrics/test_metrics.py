"""The registry is whole; quantities carry their units; the reference page is the registry."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from virtlab.catalogue import measuring
from virtlab.catalogue.metrics_page import page
from virtlab.metrics import METRICS, STATISTICS, MetricPath
from virtlab.units import SCALES, level_number, parse_quantity, show_interval, show_quantity

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "metrics.md"


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda metric: metric.key)
def test_every_metric_is_declared_whole(metric) -> None:  # type: ignore[no-untyped-def]
    assert metric.unit in SCALES
    assert metric.better in {"lower", "higher", "neither"}
    assert len(metric.definition) > 20 or metric.key == "stall"
    assert metric.source
    assert metric.statistics
    assert set(metric.statistics) <= set(STATISTICS)
    assert bool(measuring(metric.key)) is (metric.of == "role")
    assert all(
        MetricPath.parse(f"x.{metric.key}.{statistic}").unit in SCALES for statistic in metric.statistics
    )


def test_no_metric_is_plain_jitter() -> None:
    assert "jitter" not in METRICS
    with pytest.raises(ValueError, match="several meanings"):
        MetricPath.parse("probe.jitter.mean")


def test_the_reference_page_is_the_registry() -> None:
    assert PAGE.read_text() == page(), (
        "write it anew: python -m virtlab.catalogue.metrics_page > docs/reference/metrics.md"
    )


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("probe.rtt.p99.9", ("probe", "rtt", "p99.9")),
        ("h1.up.drops.total", ("h1.up", "drops", "total")),
        ("a-b.loss.ratio", ("a-b", "loss", "ratio")),
    ],
)
def test_dots_in_entities_and_statistics_are_told_apart(text: str, path: tuple[str, str, str]) -> None:
    found = MetricPath.parse(text)
    assert (found.role, found.metric, found.statistic) == path
    assert str(found) == text


@pytest.mark.parametrize(
    ("text", "unit", "value"),
    [
        ("244.16 us", "ns", 244_160.0),
        ("0.5 ns", "ns", 0.5),
        ("-3 ms", "ns", -3e6),
        ("95.2 Mbit/s", "bit/s", 95.2e6),
        ("0.1%", "ratio", 0.001),
        ("30 kB", "bytes", 30_000.0),
        ("5", "count", 5.0),
        ("12 k/s", "1/s", 12_000.0),
    ],
)
def test_quantities_are_read_into_the_metrics_unit(text: str, unit: str, value: float) -> None:
    assert parse_quantity(text, unit) == value


@pytest.mark.slow
@given(st.floats(min_value=1e-3, max_value=1e12), st.sampled_from(["ns", "bit/s", "bytes"]))
def test_what_is_shown_reads_back_to_four_digits(value: float, unit: str) -> None:
    shown = show_quantity(value, unit)
    assert parse_quantity(shown, unit) == pytest.approx(value, rel=6e-4)


def test_an_interval_is_shown_in_one_unit() -> None:
    assert show_interval(900.0, 1_100_000.0, "ns") == "0.0009 to 1.1 ms"
    assert show_interval(None, 0.001, "ratio") == "not estimable to 0.1 %"


def test_levels_are_compared_as_numbers_where_they_are_some() -> None:
    assert level_number("30 kB") == level_number("30000 B")
    assert level_number("1500 B ip_packet") == 1500.0
    assert level_number("off") is None
