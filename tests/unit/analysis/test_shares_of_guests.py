"""A machine's share of its vCPUs is never set against another guest's share of processors."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.unit.analysis.claims_specimen import rule, table_of

from virtlab.analysis import RunTable
from virtlab.analysis.shares import of_guests
from virtlab.experiment import load_text
from virtlab.planner import plan_run

FACTORS = {"platform": ["namespace", "container", "qemu"], "load": ["1", "2", "3"]}
SHARE, POOL = "guests.h1.app1.cpu_share.mean", "pools.h1.cores.cpu_share.mean"
VALUE = {"namespace": 0.3, "container": 0.32, "qemu": 0.6}


def table() -> RunTable:
    def truth(levels: dict[str, str]) -> float:
        return VALUE[levels["platform"]] + 0.05 * float(levels["load"])

    made = table_of(
        FACTORS, {SHARE: truth, POOL: truth, "guests.h1.app2.cpu_share.mean": truth}, spread=0.002
    )
    kinds = {
        row.point: "vCPUs" if row.levels["platform"] == "qemu" else "processors" for row in made.runs.values()
    }
    shares = {
        point: {"guests.h1.app1": kind, "guests.h1.app2": "processors"} for point, kind in kinds.items()
    }
    return replace(made, shares=shares)


@pytest.mark.parametrize(
    "relation",
    [
        "platform qemu > namespace",
        "platform qemu ~ namespace within 10 %",
        "platform qemu - namespace between 10 pp and 50 pp",
        "platform namespace < container < qemu",
        "platform equivalent within 50 %",
    ],
)
def test_a_claim_between_them_is_not_judged_and_says_why(relation: str) -> None:
    verdict = rule(f"{SHARE}: {relation}", table())
    assert verdict.ruling == "undecided"
    assert not verdict.comparisons
    assert "not judged at 3 design points" in verdict.text
    assert "of its vCPUs" in verdict.text
    assert "the pool's cpu_share can be compared" in verdict.text


@pytest.mark.slow
def test_guests_of_one_kind_are_compared_and_so_is_the_pool() -> None:
    assert rule(f"{SHARE}: platform container > namespace", table()).ruling == "holds"
    assert rule(f"{POOL}: platform qemu > namespace", table()).ruling == "holds"
    assert rule(f"{SHARE} grows with load where platform = qemu", table()).ruling == "holds"
    assert rule(f"{SHARE} grows with load", table()).ruling == "holds", "load is compared within a platform"
    unknown = replace(table(), shares={})
    assert rule(f"{SHARE}: platform qemu > namespace", unknown).ruling == "holds", "imports do not say"


@pytest.mark.parametrize(
    "claim",
    [
        f"{SHARE} <= 99 % averaged over platform",
        f"{SHARE} / guests.h1.app2.cpu_share.mean <= 500 % where platform = qemu",
    ],
)
def test_neither_their_average_nor_their_quotient_is_judged(claim: str) -> None:
    verdict = rule(claim, table())
    assert verdict.ruling == "undecided"
    assert "is a share of vCPUs and of processors" in verdict.text
    assert (
        rule(
            claim.replace("= qemu", "= namespace").replace(
                " averaged over platform", " where platform = namespace"
            ),
            table(),
        ).ruling
        == "holds"
    )


def test_a_guest_of_an_unknown_platform_says_nothing() -> None:
    experiment = load_text(
        "version: 1\nname: two\nhosts: 2\ntopology: line\nrepeat: 2\n"
        "roles: {probe: {workload: rtt, from: h1.g1, to: h2.g1}}\n"
    )
    plan = plan_run(experiment, next(iter(experiment.points())), 0)
    first, second = plan.world.guests
    other = plan.world.guests[first].model_copy(update={"platform": "vmware"})
    world = plan.world.model_copy(update={"guests": {**plan.world.guests, first: other}})
    assert of_guests(plan.model_copy(update={"world": world})) == {f"guests.{second}": "processors"}
