"""Our statistics and our Parquet files, beside what others make of the same numbers: statsmodels, pingouin, pyarrow,
polars.

They are 500 MB, so nothing installs them but `make oracles`; without them these tests are skipped.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import virtlab as vl
from virtlab.experiment.templates import template
from virtlab.lazy import duckdb
from virtlab.stats import (
    bootstrap_interval,
    cliffs_delta,
    compare,
    hedges_g,
    holm,
    mean_interval,
    proportion_interval,
)

ORACLES = ("statsmodels", "pingouin", "pyarrow", "polars")
LACKING = [name for name in ORACLES if find_spec(name) is None]
pytestmark = pytest.mark.skipif(bool(LACKING), reason=f"{', '.join(LACKING)} are not here: `make oracles`")
ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "tests" / "golden").rglob("*.parquet"))


def samples() -> Iterator[tuple[Any, Any]]:
    """Pairs of samples: of any size from 3, with equal and with very different spreads, skewed, far from zero."""
    random = np.random.default_rng(20)
    for number in range(40):
        first, second = random.integers(3, 60, 2)
        spread = 10.0 ** random.integers(-2, 3)
        a = random.normal(1000.0, 3.0, first)
        b = (
            random.normal(1001.0, 3.0 * spread, second)
            if number % 2
            else 1000.0 + random.gamma(2.0, spread, second)
        )
        yield a, b


PAIRS = list(samples())


@pytest.mark.parametrize("pair", PAIRS, ids=range(len(PAIRS)))
def test_difference_interval_and_p_are_those_of_statsmodels(pair: tuple[Any, Any]) -> None:
    from statsmodels.stats.weightstats import CompareMeans, DescrStatsW

    a, b = pair
    found = compare(a, b)
    assert found is not None
    peer = CompareMeans(DescrStatsW(a), DescrStatsW(b))
    assert found.p == pytest.approx(peer.ttest_ind(usevar="unequal")[1], rel=1e-9)
    low, high = peer.tconfint_diff(usevar="unequal")
    assert (found.difference.low, found.difference.high) == pytest.approx((low, high), rel=1e-9)
    mean = mean_interval(a, level=0.99)
    assert mean is not None
    assert (mean.low, mean.high) == pytest.approx(DescrStatsW(a).tconfint_mean(alpha=0.01), rel=1e-9)


@pytest.mark.parametrize("pair", PAIRS, ids=range(len(PAIRS)))
def test_equivalence_is_that_of_statsmodels(pair: tuple[Any, Any]) -> None:
    """Ours is twice theirs: at most 5 % exactly where the interval of 95 %, not that of 90 %, lies inside the
    margin.
    """
    from statsmodels.stats.weightstats import ttost_ind

    a, b = pair
    found = compare(a, b, margin=2.5)
    assert found is not None
    expected = min(1.0, 2 * ttost_ind(a, b, -2.5, 2.5, usevar="unequal")[0])
    assert found.p_equivalent == pytest.approx(expected, rel=1e-9, abs=1e-14)
    assert (found.finding == "equivalent") == (expected <= 0.05)


@pytest.mark.parametrize("pair", PAIRS, ids=range(len(PAIRS)))
def test_effect_sizes_are_those_of_pingouin(pair: tuple[Any, Any]) -> None:
    import pingouin

    a, b = pair
    assert hedges_g(a, b) == pytest.approx(pingouin.compute_effsize(a, b, eftype="hedges"), rel=2e-2)
    common = pingouin.compute_effsize(a, b, eftype="CLES")  # P(a > b) + P(a = b) / 2
    assert cliffs_delta(a, b) == pytest.approx(2 * common - 1, abs=1e-12)
    found = compare(a, b)
    assert found is not None
    assert found.p == pytest.approx(float(pingouin.ttest(a, b, correction=True).iloc[0]["p_val"]), rel=1e-9)


def test_holms_correction_is_that_of_statsmodels() -> None:
    from statsmodels.stats.multitest import multipletests

    random = np.random.default_rng(3)
    for count in (1, 2, 5, 40):
        for power in (1.0, 6.0):
            values = random.random(count) ** power
            assert holm(values.tolist()) == pytest.approx(multipletests(values, method="holm")[1].tolist())


def test_shares_have_the_exact_interval_of_statsmodels() -> None:
    from statsmodels.stats.proportion import proportion_confint

    for count in (1, 7, 400):
        for hits in {0, 1, count // 3, count - 1, count}:
            for level in (0.9, 0.95, 0.999):
                found = proportion_interval(hits, count, level=level)
                assert found is not None
                expected = proportion_confint(hits, count, alpha=1 - level, method="beta")
                low, high = (0.0 if hits == 0 else expected[0]), (1.0 if hits == count else expected[1])
                assert (found.low, found.high) == pytest.approx((low, high), rel=1e-9, abs=1e-12)


def test_the_bootstrap_is_near_that_of_pingouin() -> None:
    import pingouin

    values = np.random.default_rng(4).gamma(2.0, 1.0, 60)
    found = bootstrap_interval(values, seed=1, resamples=20_000)
    assert found is not None
    expected = pingouin.compute_bootci(values, func="mean", method="bca", n_boot=20_000, seed=1, decimals=6)
    assert (found.low, found.high) == pytest.approx(tuple(expected), rel=0.02)


@pytest.mark.parametrize("reader", ["pyarrow", "polars"])
def test_every_golden_parquet_file_is_read_with_the_same_columns_and_values(reader: str) -> None:
    assert len(FILES) > 200
    for file in FILES:
        relation = duckdb.sql(f"SELECT * FROM read_parquet('{file}')")
        expected = (
            dict(zip(relation.columns, zip(*rows, strict=True), strict=True))
            if (rows := relation.fetchall())
            else {}
        )
        found = _read(reader, file)
        assert list(found) == relation.columns, file
        for name, values in expected.items():
            assert list(values) == found[name], f"{file}: {name}"


@pytest.mark.parametrize("reader", ["pyarrow", "polars", "pandas"])
def test_a_table_of_results_is_taken_by_other_libraries_with_the_same_values(
    reader: str, tmp_path: Path
) -> None:
    (tmp_path / "demo.yaml").write_text(template("demo", "demo"))
    results = vl.run(tmp_path / "demo.yaml", backend="simulator", dataset=tmp_path / "demo.results")
    for table in (results.values(), results.samples("rtt"), results.runs()):
        assert len(table) > 0
        taken = _taken(reader, table)
        assert list(taken) == list(table.columns)
        rows = list(zip(*taken.values(), strict=True))
        assert sorted(rows, key=repr) == sorted((tuple(row) for row in table.rows()), key=repr)


def _taken(reader: str, table: vl.Table) -> dict[str, list[Any]]:
    """A library's own table of it, column by column."""
    if reader == "pyarrow":
        import pyarrow

        return dict(pyarrow.table(table).to_pydict())
    if reader == "polars":
        import polars

        return polars.DataFrame(table).to_dict(as_series=False)
    import pandas

    frame = pandas.DataFrame.from_arrow(table)
    return {
        str(name): frame[name].astype(object).where(frame[name].notna(), None).tolist()
        for name in frame.columns
    }


def _read(reader: str, file: Path) -> dict[str, list[Any]]:
    """Column by column, as Python's numbers and texts."""
    if reader == "pyarrow":
        from pyarrow import parquet

        return dict(parquet.ParquetFile(file).read().to_pydict())
    import polars

    return polars.read_parquet(file).to_dict(as_series=False)
