"""The study of an application on hypervisors: its loads are the source's, its machines say that they are emulated, and
the processors are used as a closed form says.
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from tests.contract.test_backend_contract import Kept, Watcher
from tests.shipped import shipped

from virtlab.experiment import DesignPoint, Experiment
from virtlab.plan import Plan, Trial
from virtlab.planner import plan_run
from virtlab.simulator import Simulator

ROOT = Path(__file__).parents[3]
STUDY = ROOT / "experiments" / "hypervisor-application"
FILES = ("quick.yaml", "full.yaml", "published.yaml")
SCALE = {"quick.yaml": 25, "full.yaml": 25, "published.yaml": 1}
HOST_CPUS, LARGEST_GUESTS = 16, 12  # of the source: vCPUs of two guests with 6, or of one with 12
XEN_RUNS, XEN_FAILS = 4300, 5300  # request/s
XEN_WRITES_BYTES = 6 << 10


def rate_of(level: str) -> float:
    return float(level.removesuffix(" request/s"))


def level(point: DesignPoint, factor: str) -> str:
    return str(point.levels[factor])


def demand_s(hypervisor: str) -> float:
    experiment = shipped(STUDY / "published.yaml")
    point = next(one for one in experiment.points() if level(one, "hypervisor") == hypervisor)
    return float(plan_run(experiment, point, 0).world.services["one"].parameters["demand_ns"]) / 1e9


def published_loads() -> set[float]:
    with (ROOT / "published" / "hypervisor_comparison.csv").open(newline="") as table:
        rows = [row for row in csv.DictReader(table) if row["metric"] == "load_level"]
    return {float(row["value"]) for row in rows if row["scenario"] == "performance"}


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_the_loads_are_the_sources_by_one_scale(name: str) -> None:
    loads = {SCALE[name] * rate_of(load) for load in shipped(STUDY / name).factors["load"]}
    assert loads <= published_loads()
    assert {min(published_loads()), max(published_loads())} <= loads
    assert name == "quick.yaml" or loads == published_loads()


@pytest.mark.slow
@pytest.mark.parametrize("name", FILES)
def test_both_roles_together_ask_as_often_as_the_level_says(name: str) -> None:
    experiment = shipped(STUDY / name)
    for point in experiment.points():
        roles = experiment.study(point).roles.values()
        assert sum(role.parameters["rate_per_s"] for role in roles) == rate_of(level(point, "load")), point
        clusters = 2 if level(point, "cores").startswith("2x") else 1
        assert len({role.to for role in plan_run(experiment, point, 0).roles.values()}) == clusters


@pytest.mark.slow
def test_no_guest_is_xen_above_the_level_at_which_the_source_saw_it_fail() -> None:
    points = shipped(STUDY / "published.yaml").points()
    loads = {rate_of(level(one, "load")) for one in points if level(one, "hypervisor") == "xen"}
    assert max(loads) == XEN_RUNS
    assert {rate_of(level(one, "load")) for one in points} == published_loads()


@pytest.mark.slow
def test_by_the_fitted_demands_twelve_vcpus_hold_5300_on_all_but_xen() -> None:
    for hypervisor in ("native", "kvm", "vmware"):
        assert LARGEST_GUESTS / demand_s(hypervisor) > XEN_FAILS
    assert XEN_RUNS < LARGEST_GUESTS / demand_s("xen") < XEN_FAILS


@pytest.mark.slow
@pytest.mark.parametrize(("name", "count"), [("quick.yaml", 6), ("full.yaml", 5)])
def test_every_verdict_on_a_machine_says_that_its_processors_are_emulated(name: str, count: int) -> None:
    claims = shipped(STUDY / name).claims
    about = [claim for claim in claims if "qemu" in claim.text]
    assert len(about) == count
    assert all("emulated" in claim.title for claim in about)


@pytest.mark.slow
def test_every_verdict_on_what_machines_write_says_so_too() -> None:
    assert all("emulated" in claim.title.lower() for claim in shipped(STUDY / "writes.yaml").claims)


def plan_of(experiment: Experiment, wanted: dict[str, str]) -> Plan:
    (point,) = (
        one
        for one in experiment.points()
        if {name: str(value) for name, value in one.levels.items()} == wanted
    )
    return plan_run(experiment, point, 0)


@pytest.mark.slow
@pytest.mark.parametrize("cores", ["2x6", "1x12", "1x16"])
def test_the_host_is_as_busy_as_the_requests_make_it_and_writes_for_each(cores: str) -> None:
    wanted = {"hypervisor": "xen", "cores": cores, "load": f"{XEN_RUNS} request/s"}
    kept = Kept()
    with Simulator().open(plan_of(shipped(STUDY / "published.yaml"), wanted), Watcher()) as session:
        assert session.run(Trial("t0", 1), kept).status == "ok"
    series = kept.blocks["series", "series/1"]
    block = {name: np.concatenate([each[name] for each in series]) for name in series[0]}

    def mean(entity: str, metric: str) -> float:
        rows = (block["entity"] == entity) & (block["metric"] == metric) & (block["t_ns"] > 1_000_000_000)
        return float(block["value"][rows][:-1].mean())

    assert mean("hosts.h1", "cpu") == pytest.approx(XEN_RUNS * demand_s("xen") / HOST_CPUS, rel=0.03)
    assert mean("hosts.h1.disks", "disk_written") == pytest.approx(XEN_RUNS * XEN_WRITES_BYTES, rel=0.03)
    assert mean("hosts.h2.disks", "disk_written") == 0, "a passive server writes nothing"
    answers = np.concatenate([each["entry"] for each in kept.blocks["clients", "response/1"]])
    assert answers.mean() == pytest.approx(0.5, abs=0.03)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["quick.yaml", "full.yaml"])
def test_machines_have_as_many_vcpus_as_a_level_has_cores_and_others_have_none(name: str) -> None:
    experiment = shipped(STUDY / name)
    seen = set()
    for point in experiment.points():
        platform, cores = level(point, "platform"), level(point, "cores")
        guests = experiment.study(point).wiring.hosts["h1"].guests
        vcpus = {experiment.study(point).wiring.hosts["h1"].vcpus} | {
            guest.vcpus for guest in guests.values()
        }
        expected = int(cores.partition("x")[2]) if platform == "qemu" else None
        assert vcpus - {None} == ({expected} - {None}), point
        seen.add((platform, cores, expected))
    assert {vcpus for platform, _, vcpus in seen if platform == "qemu"} == {1, 2}
