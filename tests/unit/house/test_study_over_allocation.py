"""The study of over-allocation at full size: the pool is full at the published loads, by closed form and in a run."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.contract.test_backend_contract import Kept, Watcher
from tests.shipped import shipped
from typer.testing import CliRunner

from virtlab.cli.main import app
from virtlab.plan import Plan, Trial
from virtlab.planner import plan_run
from virtlab.simulator import Simulator
from virtlab.simulator.profile import load_profile

STUDY = Path(__file__).parents[3] / "experiments" / "over-allocation"
PROFILE = load_profile(str(STUDY / "virtual-machines.profile.toml"))
FULL = {("5x20", "5600 request/s"): 5600, ("5x10", "6125 request/s"): 6125}


def plan_of(case: str, load: str) -> Plan:
    experiment = shipped(STUDY / "published.yaml")
    (point,) = (
        one
        for one in experiment.points()
        if {name: str(level) for name, level in one.levels.items()} == {"case": case, "load": load}
    )
    return plan_run(experiment, point, 0)


@pytest.mark.slow
@pytest.mark.parametrize(("case", "load"), FULL)
def test_the_capacity_of_the_fitted_model_is_the_published_highest_load(case: str, load: str) -> None:
    plan = plan_of(case, load)
    service = plan.world.services["app"]
    work_s = (service.parameters["demand_ns"] + service.parameters["serial_demand_ns"]) / 1e9
    vcpus = sum(guest.vcpus or 0 for guest in plan.world.guests.values())
    left = plan.world.pools["h1.cores"].cpus - vcpus * PROFILE.value("platform.qemu.idle_vcpu_ratio")
    effective = left * (1 - PROFILE.value("pool.contention_ratio") * (1 - left / vcpus))
    assert effective / work_s == pytest.approx(FULL[case, load], rel=0.002)


@pytest.mark.slow
@pytest.mark.parametrize(("case", "load"), FULL)
def test_there_the_pool_is_full_and_the_host_is_not(case: str, load: str) -> None:
    kept = Kept()
    with Simulator(PROFILE).open(plan_of(case, load), Watcher()) as session:
        assert session.run(Trial("t0", 1), kept).status == "ok"
    blocks = kept.blocks["series", "series/1"]
    block = {name: np.concatenate([each[name] for each in blocks]) for name in blocks[0]}

    def mean(entity: str, metric: str) -> float:
        rows = (block["entity"] == entity) & (block["metric"] == metric) & (block["t_ns"] > 1_000_000_000)
        return float(block["value"][rows][:-1].mean())

    assert mean("pools.h1.cores", "cpu_share") > 0.95
    assert mean("hosts.h1", "cpu") == pytest.approx(0.82, abs=0.025)
    assert ("pools.h1.storage", "cpu") not in set(zip(block["entity"], block["metric"], strict=True))


@pytest.mark.slow
@pytest.mark.parametrize(("load", "best"), [("4500 request/s", "2x20"), ("5600 request/s", "2x10")])
def test_the_best_of_the_sources_cases_is_the_one_that_the_page_names(load: str, best: str) -> None:
    done = CliRunner().invoke(
        app,
        [
            "recommend", str(STUDY / "published.yaml"), "--vary", "case=2x10,2x20,5x4,5x10,5x20", "--runs", "4", "--json",
            "--best", "clients.response_time.mean", "--profile", str(STUDY / "virtual-machines.profile.toml"),
            "--points", f"load={load}",
        ],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    (answer,) = json.loads(done.output)["answers"]
    assert answer["best"] == {"case": best}


def overallocation(plan: Plan) -> float:
    """vCPUs to processors of the pool: of a machine its vCPUs, of a namespace the threads of its server."""
    service = plan.world.services["app"]
    vcpus = [plan.world.guests[name].vcpus or service.parameters["threads"] for name in service.on]
    return float(sum(vcpus)) / plan.world.pools["h1.cores"].cpus


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "ratios"),
    [
        ("quick.yaml", {"2x1": 2, "5x1": 5}),
        ("highest.yaml", {"2x1": 2, "5x1": 5}),
        ("machines.yaml", {"2x1": 2, "2x2": 4, "5x1": 5}),
        ("full.yaml", {"2x1": 1, "2x2": 2, "5x1": 2.5, "5x2": 5}),
        ("ten.yaml", {"2x5": 1, "5x2": 1, "2x10": 2, "5x5": 2.5, "5x10": 5}),
        ("published.yaml", {"2x10": 1, "5x4": 1, "2x20": 2, "5x10": 2.5, "5x20": 5}),
        ("highest-published.yaml", {"2x10": 1, "5x4": 1, "2x20": 2, "5x10": 2.5, "5x20": 5}),
    ],
)
def test_a_case_is_its_ratio_of_vcpus_to_processors_beside_native(
    name: str, ratios: dict[str, float]
) -> None:
    experiment = shipped(STUDY / name)
    found = {
        str(one.levels["case"]): overallocation(plan_run(experiment, one, 0)) for one in experiment.points()
    }
    assert found.pop("native") <= (2 if name == "machines.yaml" else 1)
    assert found == ratios


@pytest.mark.slow
def test_every_verdict_on_machines_says_that_they_are_emulated() -> None:
    assert all("emulated" in claim.title for claim in shipped(STUDY / "machines.yaml").claims)
