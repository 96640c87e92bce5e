"""What services cost in pools comes back from runs of a model that has these costs, and predicts what was left out."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from virtlab.campaign import CampaignObserver, run_campaign
from virtlab.cli.main import app
from virtlab.experiment import load_text
from virtlab.metrics import MetricPath
from virtlab.prediction.calibration.pools import MODEL_ERROR, Loads, Pooled, of_dataset
from virtlab.prediction.questions.explain import explain
from virtlab.prediction.simulation.simulate import simulate
from virtlab.prediction.validation import validate
from virtlab.results import Dataset
from virtlab.simulator import Simulator
from virtlab.simulator.profile import IDEAL_PROFILE, Parameter, Profile, load_profile

pytestmark = pytest.mark.slow
IDLE, REQUEST = "platform.namespace.idle_vcpu_ratio", "platform.namespace.request_ns"
CONTENTION, CROSSING = "pool.contention_ratio", "platform.namespace.crossing_ns"
TRUE = {IDLE: 0.012, REQUEST: 150_000.0, CONTENTION: 0.15, CROSSING: 20_000.0}
TRUTH = Profile(
    "true",
    4,
    {name: Parameter(value) for name, value in (*TRUE.items(), ("vswitch.linux_bridge.packet_ns", 0.0))},
)
CASES = """
    2x1: {guests: 2, threads: 1, servers: [h1.app1, h1.app2]}
    2x4: {guests: 2, threads: 4, servers: [h1.app1, h1.app2]}
    5x2: {guests: 5, threads: 2, servers: [h1.app1, h1.app2, h1.app3, h1.app4, h1.app5]}"""
ONE_CASE = """
    2x1: {guests: 2, threads: 1, servers: [h1.app1, h1.app2]}"""


def file_of(cases: str = CASES, *, cpus: int = 1) -> str:
    return f"""
version: 1
name: pooled
factors:
  case: {cases}
  load: [60 request/s, 160 request/s, 500 request/s]
hosts:
  h1:
    pools: {{cores: {{cpus: {cpus}}}, clients: {{cpus: 1}}}}
    guests:
      app: {{count: "${{case.guests}}", platform: namespace, pool: cores}}
      clients: {{platform: namespace, pool: clients}}
services:
  app: {{kind: demand_server, on: "${{case.servers}}", demand: 4 ms, demand_distribution: exponential,
        threads: "${{case.threads}}", backlog: 10000}}
roles:
  clients: {{workload: request_response, from: h1.clients, to: app, server: round_robin, rate: "${{load}}",
            arrivals: poisson, connections: 64, timeout: 5 s, duration: 1500 ms}}
collect: {{series: {{guest.cpu: 250 ms}}}}
repeat: 2
"""


PLAIN = """
version: 1
name: plain
hosts: {h1: {guests: 2}}
roles: {probe: {workload: rtt, from: h1.g1, to: h1.g2, count: 20, interval: 1 ms, size: 100 B ip_packet}}
repeat: 1
"""


def measured(folder: Path, text: str, backend: Simulator) -> Dataset:
    place = folder / "pooled.results"
    experiment = load_text(text)
    with Dataset.create(place, text, name="pooled", seed=experiment.seed, backend="testbed") as dataset:
        run_campaign(experiment, dataset, backend, CampaignObserver())
    return Dataset.open(place)


@pytest.fixture(scope="module")
def known(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return measured(tmp_path_factory.mktemp("known"), file_of(), Simulator(TRUTH))


@pytest.fixture(scope="module")
def pooled(known: Dataset) -> Pooled:
    return of_dataset(known, IDEAL_PROFILE, processors=2, name="fit")


@pytest.mark.parametrize("name", TRUE)
def test_each_cost_comes_back(pooled: Pooled, name: str) -> None:
    found = pooled.profile.parameters[name]
    assert found.identified, found.why
    assert found.value == pytest.approx(TRUE[name], rel=0.01)
    assert found.low is not None
    assert found.high is not None
    assert found.low <= found.value <= found.high


def test_what_is_left_is_next_to_nothing(pooled: Pooled) -> None:
    found = {name: (count, median, p90) for name, count, median, p90 in pooled.residuals()}
    assert set(found) == {"response_time.mean", "response_time.p95", "answer_rate.mean", "cpu.mean"}
    for count, _, p90 in found.values():
        assert count == 9
        assert p90 < 0.005


def test_left_out_loads_and_allocations_are_predicted_and_the_nearest_level_is_far_worse(
    known: Dataset,
) -> None:
    found = validate(known)
    assert {str(one.path) for one in found.overall} == {
        "clients.response_time.mean",
        "clients.response_time.p95",
        "clients.answer_rate.mean",
    }
    for one in found.overall:
        assert one.median < 0.02, one
        assert one.naive_median is not None
        assert one.naive_median > 5 * one.median
    full = [one for one in found.errors if one.path.metric == "answer_rate"]
    assert {one.point["load"] for one in full} == {"500 request/s"}, (
        "elsewhere it is the rate of the requests"
    )
    assert {one.factor for one in found.errors} == {"case", "load"}


def test_costs_beneath_the_fit_stay_as_they_were(known: Dataset) -> None:
    found = of_dataset(known, TRUTH, processors=2, name="fit")
    assert CROSSING not in found.fitted
    assert found.profile.parameters[CROSSING] == TRUTH.parameters[CROSSING]
    assert found.profile.processors == TRUTH.processors


def test_a_cost_that_no_run_depends_on_is_named(tmp_path: Path) -> None:
    idle = Profile("some", 4, {**TRUTH.parameters, IDLE: Parameter(0.0)})
    dataset = measured(tmp_path, file_of(ONE_CASE, cpus=3), Simulator(idle))
    found = of_dataset(dataset, IDEAL_PROFILE, processors=4, name="fit").profile.parameters[CONTENTION]
    assert not found.identified
    assert found.why == "no run depends on it"


def test_a_spin_as_long_as_a_kernels_is_told_from_nothing_by_no_number(tmp_path: Path) -> None:
    """Decision 0187. A fifth of the work is under a lock; threads that wait for it sleep at once, or after 10 us."""
    text = file_of().replace("threads:", "lock: 20 %, threads:")
    dataset = measured(tmp_path, text, Simulator(TRUTH))
    spinning = replace(TRUTH, parameters={**TRUTH.parameters, "pool.spin_ns": Parameter(10_000.0)})
    loads = Loads.of(dataset.runs("ok"))
    places = range(len(loads.runs))
    by_cell: dict[tuple[int, MetricPath], list[float]] = {}
    for at, slept, spun in zip(places, loads.play(places, TRUTH), loads.play(places, spinning), strict=True):
        for path, value in slept.items():
            by_cell.setdefault((loads.runs[at].point, path), []).append(spun[path] / value - 1)
    changes = [abs(sum(each)) / len(each) for each in by_cell.values()]
    assert len(changes) == 36
    assert 0 < max(changes) < MODEL_ERROR


def test_the_command_writes_a_profile_that_capacity_asks_and_names_the_pool(
    known: Dataset, pooled: Pooled, tmp_path: Path
) -> None:
    run = CliRunner()
    target, file = tmp_path / "service.profile.toml", tmp_path / "pooled.yaml"
    file.write_text(known.experiment_text)
    printed = run.invoke(app, ["calibrate", str(known.path), "--output", str(target), "--json"])
    assert printed.exit_code == 0, printed.output
    assert {each["name"] for each in json.loads(printed.stdout)["parameters"]} == set(TRUE)
    assert load_profile(str(target)).value(IDLE) == pytest.approx(pooled.profile.value(IDLE), rel=1e-4)
    asked = run.invoke(app, [
        "capacity", str(file), "--until", "response_time.p95 < 60 ms", "--vary", "load", "--points", "case=2x4",
        "--from", "60 request/s", "--to", "260 request/s", "--step", "40 request/s", "--runs", "4", "--draws", "2",
        "--profile", str(target), "--json",
    ])  # fmt: skip
    assert asked.exit_code == 0, asked.output
    assert "pools.h1.cores" in asked.stdout


def test_the_terms_of_a_prediction_have_what_pools_cost_and_add_up(known: Dataset) -> None:
    experiment, path = load_text(known.experiment_text), MetricPath.parse("clients.response_time.mean")
    terms, total = explain(experiment, TRUTH, path, 4, repetitions=2)
    point = next(each for each in experiment.points() if each.index == 4)
    played = simulate(experiment, TRUTH, points=[4], repetitions=2).values(path, point.levels)
    assert total.point == pytest.approx(sum(played) / len(played))
    assert sum(term.estimate.point for term in terms) == pytest.approx(total.point)
    found = {term.name: term.estimate.point for term in terms}
    assert found["pools: idle vCPUs, contention and turns"] > 0.05 * total.point
    assert found["service and serialisation"] > 0.3 * total.point


def test_what_cannot_be_fitted_is_refused_with_the_cure(known: Dataset, tmp_path: Path) -> None:
    run = CliRunner()
    for arguments, what in [
        ([str(known.path)], "--output service.profile.toml"),
        ([str(known.path), "--quick", "--output", "x"], "nothing is measured"),
        (["--profile", "ideal"], "name a dataset"),
    ]:
        refused = run.invoke(app, ["calibrate", *arguments])
        assert refused.exit_code != 0
        assert what in str(refused.output) + str(refused.exception)
    plain = measured(tmp_path, PLAIN, Simulator())
    refused = run.invoke(app, ["calibrate", str(plain.path), "--output", str(tmp_path / "x.toml")])
    assert "work in a pool" in str(refused.output) + str(refused.exception)
