"""A rate of zero is "no load", as a level of a factor beside others; a stream that runs is not set to it."""

from __future__ import annotations

import pytest

from virtlab.experiment import Experiment, load_text
from virtlab.experiment.read.mistakes import FileMistakesError
from virtlab.planner import plan_run
from virtlab.prediction.simulation.simulate import simulate
from virtlab.simulator.profile import IDEAL_PROFILE

STREAMS = [("udp_stream", "0 bit/s", "40 Mbit/s"), ("raw_stream", "0 packet/s", "2 kpacket/s")]


def beside(workload: str, rates: str, more: str = "") -> Experiment:
    return load_text(
        f"""
version: 1
name: beside
factors: {{rate: [{rates}]}}
hosts: 2
host: {{guests: 2}}
topology: line
link: {{rate: 100 Mbit/s}}
roles:
  probe: {{workload: rtt, from: h1.g1, to: h2.g1, interval: 5 ms, count: 20}}
  load: {{workload: {workload}, as: load, from: h1.g2, to: h2.g2, rate: "${{rate}}"}}
{more}
repeat: 1
"""
    )


@pytest.mark.parametrize(("workload", "none", "some"), STREAMS)
def test_at_no_load_the_stream_is_not_there(workload: str, none: str, some: str) -> None:
    experiment = beside(workload, f"{none}, {some}")
    idle, loaded = (plan_run(experiment, point, 0) for point in experiment.points())
    assert (set(idle.roles), set(loaded.roles)) == ({"probe"}, {"probe", "load"})
    assert not [action.id for action in idle.timeline if action.role == "load"]


@pytest.mark.slow
@pytest.mark.parametrize("none", ["0 bit/s", "0 Mbit/s", "0.0 Gbit/s"])
def test_a_probe_is_slower_beside_a_stream_than_beside_none(none: str) -> None:
    table = simulate(beside("udp_stream", f"{none}, 80 Mbit/s"), IDEAL_PROFILE, repetitions=1)
    means = {
        row.levels["rate"]: row.value or 0.0
        for row in table.rows
        if (row.role, row.metric, row.statistic) == ("probe", "rtt", "mean")
    }
    offered = [row.levels["rate"] for row in table.rows if (row.role, row.metric) == ("load", "offered_load")]
    assert means["80 Mbit/s"] > means[none]
    assert offered == ["80 Mbit/s"]


@pytest.mark.parametrize(("workload", "none", "some"), STREAMS)
def test_a_stream_that_runs_is_not_set_to_nothing(workload: str, none: str, some: str) -> None:
    steps = f"""timeline:
  - {{id: go, do: start, role: load}}
  - {{id: change, do: set, role: load, parameter: rate, value: {none}, after: go.started}}
  - {{id: measure, do: run, role: probe, after: change.done}}
  - {{id: end, do: stop, role: load, after: measure.finished}}"""
    with pytest.raises(
        FileMistakesError, match=r"timeline\[1\].value: .*(carries nothing|less than what is possible)"
    ):
        beside(workload, f"{some}, {some[0]}1{some[1:]}", steps)


@pytest.mark.parametrize("wrong", ["0", "0 bit", "-0 bit/s", "0 kB"])
def test_nothing_else_is_a_rate_of_zero(wrong: str) -> None:
    with pytest.raises(FileMistakesError, match=r"roles.load.rate"):
        beside("udp_stream", f"{wrong}, 40 Mbit/s")


@pytest.mark.parametrize("off", ["rate: 0 bit/s", "rate: 1 Mbit/s, enabled: false"])
def test_what_is_not_there_is_not_searched(off: str) -> None:
    text = f"""
version: 1
name: searched
hosts: 2
topology: line
roles:
  probe: {{workload: rtt, from: h1.g1, to: h2.g1}}
  load: {{workload: udp_stream, from: h1.g1, to: h2.g1, {off}}}
search: {{variable: load.rate, low: 1 Mbit/s, high: wire, goals: [{{loss: 1 %}}]}}
"""
    with pytest.raises(FileMistakesError, match=r"search.variable: load is switched off or has no load"):
        load_text(text)
