"""The yardstick is exact where it can be, the same for a seed, and small."""

from __future__ import annotations

import json

import pytest
from typer.testing import CliRunner

from virtlab.cli.prediction.bench import app
from virtlab.errors import ExperimentError
from virtlab.simulator.yardstick import star

TIMES = {"cpu_s", "packets_per_cpu_s", "peak_rss_bytes"}


def test_constant_arrivals_take_244_16_us_every_one() -> None:
    found = star(32, "constant", 200_000_000)
    assert set(found["delay_ns"].values()) == {244_160}
    assert found["undelivered"] == 0
    assert found["packets"] == sum(-(-(200_000_000 - host * 246_080 // 32) // 246_080) for host in range(32))


def test_the_same_seed_gives_the_same_figures() -> None:
    first, again, other = (star(16, "poisson", 100_000_000, seed) for seed in (3, 3, 4))
    same = [
        {name: value for name, value in each.items() if name not in TIMES} for each in (first, again, other)
    ]
    assert same[0] == same[1]
    assert same[0] != same[2]
    assert first["delay_ns"]["min"] == 244_160 < first["delay_ns"]["p99"]


@pytest.mark.slow
def test_the_core_needs_less_than_17_mib_for_128_hosts() -> None:
    found = star(128, "poisson", 200_000_000)
    assert 0 < found["peak_rss_bytes"] < 17 * 2**20


def test_one_host_is_refused() -> None:
    with pytest.raises(ExperimentError, match="hosts"):
        star(1, "constant", 1_000_000)


def test_the_command_prints_one_json_object() -> None:
    result = CliRunner().invoke(app, ["star", "--hosts", "4", "--arrivals", "constant", "--seconds", "0.1"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["delay_ns"]["max"] == 244_160
