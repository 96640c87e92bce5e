"""A rate of requests is a whole number per second: another one is refused and never rounded."""

from __future__ import annotations

import pytest

from virtlab.experiment import FileMistakesError, load_text
from virtlab.planner import plan_run

FILE = """\
version: 1
name: rates
hosts: 1
host: {{guests: 2}}
topology: none
roles:
  clients: {{workload: request_response, from: h1.g1, to: h1.g2, rate: {rate}, duration: 1 s}}
"""


@pytest.mark.parametrize(
    ("rate", "per_s"), [("12 request/s", 12), ("1.5 krequest/s", 1500), ("0.07 krequest/s", 70)]
)
def test_a_whole_number_is_what_the_file_says(rate: str, per_s: int) -> None:
    experiment = load_text(FILE.format(rate=rate))
    plan = plan_run(experiment, experiment.points()[0], 0)
    assert plan.roles["clients"].parameters["rate_per_s"] == per_s


@pytest.mark.parametrize(
    ("rate", "near"), [("12.5 request/s", 12), ("0.0125 krequest/s", 12), ("99.9 request/s", 100)]
)
def test_a_part_of_a_request_is_refused_with_the_nearest_rate(rate: str, near: int) -> None:
    with pytest.raises(FileMistakesError) as error:
        load_text(FILE.format(rate=rate))
    (mistake,) = error.value.mistakes
    assert "is not a whole number of requests per second" in mistake.what
    assert f"write '{near} request/s'" in mistake.cure
