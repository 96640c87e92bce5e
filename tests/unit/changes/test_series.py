"""Series over datasets: values of one setting belong together, however its levels are written."""

from __future__ import annotations

import pytest

from virtlab.changes import Baseline, trend


def dataset(name: str, load: str, share_of: str = "") -> Baseline:
    measured = {"levels": {"load": load}, "links": "soft_switch", "values": [1.0, 2.0], "share_of": share_of}
    quantity = {"path": "probe.rtt.mean", "unit": "ns", "better": "lower", "goal": "", "measured": [measured]}
    return Baseline.model_validate(
        {
            "schema": "virtlab.baseline/1", "name": name, "created": f"2026-01-0{name}T00:00:00Z",
            "backend": "testbed", "experiment_sha256": "0", "runs": 2, "facts": {}, "quantities": [quantity],
        }
    )  # fmt: skip


@pytest.mark.parametrize(("first", "second", "count"), [
    ("30 kB", "30000 B", 1),
    ("0 B", "0 kB", 1),
    ("0 B", "1 B", 2),
    ("fifo", "pie", 2),
])  # fmt: skip
def test_one_setting_written_in_two_ways_is_one_series(first: str, second: str, count: int) -> None:
    assert len(trend([dataset("1", first), dataset("2", second)])) == count


@pytest.mark.parametrize(("shares", "titles"), [
    (["", "vCPUs"], ["probe.rtt.mean"]),
    (["processors", "vCPUs"], ["probe.rtt.mean of processors", "probe.rtt.mean of vCPUs"]),
])  # fmt: skip
def test_shares_of_different_things_are_two_series(shares: list[str], titles: list[str]) -> None:
    found = trend([dataset(str(number), "1 B", share) for number, share in enumerate(shares, 1)])
    assert len(found) == len(titles)
    assert len({one.title for one in found}) == len(titles)
