"""The study of distributed storage: its world is the source's, its quick form is one that the testbed plays, and what a
recovery takes follows from what the file says.
"""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest
from tests.shipped import shipped

from virtlab.experiment import Experiment
from virtlab.plan import Plan
from virtlab.planner import plan_run

ROOT = Path(__file__).parents[3]
STUDY = ROOT / "experiments" / "distributed-storage"
AT_FULL_SIZE = ("published.yaml", "processors.yaml", "mix.yaml", "recovery.yaml", "lookup.yaml")
GBIT = 10**9
HELD = 1e12  # bytes of files: 100,000 of 10 MB, the most that the source wrote


def plans(experiment: Experiment) -> list[Plan]:
    return [plan_run(experiment, point, 0) for point in experiment.points()]


def stated(fact: str) -> float:
    """A number of the source's set-up."""
    with (ROOT / "published" / "distributed_storage_facts.csv").open(newline="") as table:
        (value,) = {row["value"] for row in csv.DictReader(table) if row["fact"] == fact}
    return float(value)


@pytest.mark.slow
@pytest.mark.parametrize("name", AT_FULL_SIZE)
def test_the_world_at_full_size_is_that_of_the_source(name: str) -> None:
    experiment = shipped(STUDY / name)
    plan = plan_run(experiment, experiment.points()[0], 0)
    rates = sorted(link.rate_bit_per_s for link in plan.world.links.values())
    assert rates == [
        *[GBIT] * int(stated("storage nodes")),
        *[10 * GBIT] * int(stated("links load generators to central switch")),
        *[20 * GBIT] * int(stated("links proxies to central switch")),
        *[40 * GBIT] * int(stated("links central switch to edge switches")),
    ]
    assert len(plan.world.switches) == stated("switches")
    (disk,) = {guest.disk.rate_byte_per_s for guest in plan.world.guests.values() if guest.disk}
    assert disk == 100_000_000 * stated("disks per node")


@pytest.mark.slow
def test_what_is_fitted_once_is_the_same_in_every_file_that_takes_it() -> None:
    """So no verdict of theirs comes from a cost that was chosen for it."""
    costs: dict[str, dict[str, Any]] = {}
    for name in ("processors.yaml", "nodes.yaml", "mix.yaml"):
        services = plan_run(experiment := shipped(STUDY / name), experiment.points()[0], 0).world.services
        costs[name] = {system: service.parameters for system, service in services.items()}
    fitted = costs.pop("processors.yaml")
    assert set(fitted) == set(costs["nodes.yaml"])
    assert set(costs["mix.yaml"]) == {"structured", "gluster"}
    for found in costs.values():
        assert found == {system: fitted[system] for system in found}
    experiment = shipped(STUDY / "node-count.yaml")
    times = {plan.world.services["depot"].parameters.get("node_ns") for plan in plans(experiment)}
    assert times == {None, fitted["unstructured"]["node_ns"]}


@pytest.mark.slow
def test_deletions_have_the_sizes_of_the_source() -> None:
    experiment = shipped(STUDY / "processors.yaml")
    found = set()
    for point in experiment.points():
        if str(point.levels["work"]).startswith("delete"):
            parameters = plan_run(experiment, point, 0).roles["fill"].parameters
            found.add(parameters["object_bytes"])
    with (ROOT / "published" / "distributed_storage_facts.csv").open(newline="") as table:
        (sizes,) = {row["value"] for row in csv.DictReader(table) if row["fact"] == "file sizes deleted"}
    unit = {"KB": 10**3, "MB": 10**6}
    stated = [size.split() for size in sizes.split(", ")]
    assert found == {int(number) * unit[prefix] for number, prefix in stated}


@pytest.mark.slow
def test_every_choice_varies_with_every_other_in_what_separates_them() -> None:
    """Nothing but lookup, path, proxies and cache differs, and each combination of them is there once."""
    for name in ("quick.yaml", "full.yaml", "lookup.yaml"):
        experiment = shipped(STUDY / name)
        found = plans(experiment)
        choices = []
        for plan in found:
            parameters = plan.world.services["depot"].parameters
            path = parameters["written_by"], bool(parameters.get("proxies"))
            choices.append((parameters["lookup"], path, parameters["ack"]))
        assert len(set(choices)) == len(choices)
        lookups, paths, acks = (set(one) for one in zip(*choices, strict=True))
        assert len(choices) == len(lookups) * len(paths) * len(acks)
        every = {("client", False), ("primary", False), ("proxy", True), ("primary", True)}
        assert paths == every
        assert len({plan.model_dump_json(include={"roles", "timeline"}) for plan in found}) == 1


@pytest.mark.slow
def test_what_a_recovery_takes_follows_from_the_file_in_closed_form() -> None:
    """Both copies' share of the node at its rate, its partitions at their cost, its link at what payload it carries."""
    experiment = shipped(STUDY / "recovery.yaml")
    plan = plan_run(experiment, experiment.points()[0], 0)
    services = {
        str(point.levels["system"]): plan_run(experiment, point, 0).world.services[
            str(point.levels["system"])
        ]
        for point in experiment.points()
    }
    fill = plan.roles["fill"].parameters
    nodes = stated("storage nodes")
    held = {name: HELD * one.parameters["copies"] / nodes for name, one in services.items()}
    assert fill["count"] * fill["object_bytes"] == HELD
    swift = services["swift"].parameters
    published = {"unstructured": 1110, "structured": 1320, "swift": 35_490, "gluster": 66_480}
    found = {
        "unstructured": held["unstructured"] / (0.94 * GBIT / 8),
        "structured": held["structured"] / services["structured"].parameters["recovery_byte_per_s"],
        "swift": swift["partitions"] * swift["copies"] / nodes * swift["scan_ns"] / 1e9,
        "gluster": held["gluster"] / services["gluster"].parameters["recovery_byte_per_s"],
    }
    assert found == pytest.approx(published, rel=0.06)
