"""Claims about guests, hosts and pools: what is at no design point is a mistake of the file, and a dataset that has
such a claim stays readable.
"""

from __future__ import annotations

import pytest

from virtlab.errors import ExperimentError
from virtlab.experiment import load_text

FILE = """
version: 1
name: places
factors: {guests: [1, 2]}
hosts:
  h1: {cpus: 4, pools: {cores: {cpus: 2}}, guests: "${guests}"}
  h2: {guests: 1}
topology: {shape: star, switches: 1}
roles: {probe: {workload: rtt, from: h1.g1, to: h2.g1, count: 10}}
claims: ["CLAIM"]
"""


@pytest.mark.parametrize(
    "path",
    [
        "guests.h1.g1.cpu", "guests.h1.g2.cpu", "guests.h1.g1.vcpu0.cpu", "hosts.h1.cpu", "pools.h1.cores.cpu_share",
        "host.cpu",
    ],
)  # fmt: skip
def test_what_is_at_some_design_point_can_be_claimed_about(path: str) -> None:
    assert load_text(FILE.replace("CLAIM", f"{path}.mean < 50 %")).claims


@pytest.mark.parametrize(
    ("path", "cure"),
    [
        ("guests.h1.g3.cpu", "did you mean 'guests.h1.g"),
        ("guests.h1.cpu", "there is no 'guests.h1'"),
        ("hosts.h3.cpu", "did you mean 'hosts.h"),
        ("pools.h2.cores.cpu_share", "did you mean 'pools.h1.cores'"),
    ],
)
def test_what_is_at_none_is_refused_with_the_nearest(path: str, cure: str) -> None:
    text = FILE.replace("CLAIM", f"{path}.mean < 50 %")
    with pytest.raises(ExperimentError) as caught:
        load_text(text)
    assert "at any design point" in str(caught.value)
    assert cure in str(caught.value)
    assert load_text(text, runs_max=None).claims, "a dataset of before stays readable"


def test_a_file_without_pools_has_none_to_claim_about() -> None:
    text = FILE.replace(", pools: {cores: {cpus: 2}}", "").replace(
        "CLAIM", "pools.h1.cores.cpu_share.mean < 1 %"
    )
    with pytest.raises(ExperimentError, match="the file has no pools; add some, or remove the claim"):
        load_text(text)
