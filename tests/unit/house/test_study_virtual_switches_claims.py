"""What the study of virtual switches claims is what its source's tables say: all orderings, pair by pair, and no other
one.

The orderings that have to be claimed are derived from the printed means: container against machine on each virtual
switch, bridge against Open vSwitch on each platform; and in machines, on each virtual switch, the discipline with the
least round trip against all others, the two that jitter least and the two that jitter most against the rest, and the
first of those two against the second. A claim is taken apart into the design points that it compares.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from tests.shipped import shipped

from virtlab.analysis.claims import Claim, find_operand, matches
from virtlab.analysis.claims.nouns import Difference, Equivalent, Ordering
from virtlab.experiment import Experiment
from virtlab.report.gather.dataset import declared_factors
from virtlab.report.gather.sources.published import overlays
from virtlab.report.gather.sources.source_figures import read_figures

ROOT = Path(__file__).parents[3]
STUDY = ROOT / "experiments" / "virtual-switches"
FILES = sorted(path for path in STUDY.glob("*.yaml") if path.name not in {"figures.yaml", "statements.yaml"})
SWITCHES = {"linux_bridge": "Linux bridge", "ovs-kernel": "Open vSwitch"}
PLATFORMS = {"container": "Docker", "qemu": "KVM"}
TABLES = {
    "stream.goodput.mean": "Table 3",
    "rr.transaction_time.mean": "Table 4",
    "udp.jitter_rfc3550.mean": "Table 5",
}
GOODPUT, ROUND_TRIP, JITTER = TABLES

Setting = tuple[str, str, str]  # platform, virtual switch, discipline
Pair = tuple[
    str, Setting, Setting
]  # metric path, the setting with the smaller value, the one with the larger


@pytest.fixture(scope="module")
def experiments() -> dict[str, Experiment]:
    return {path.name: shipped(path) for path in FILES}


@pytest.fixture(scope="module")
def printed() -> dict[str, dict[Setting, float]]:
    """Metric path -> setting -> the printed mean."""
    with (ROOT / "published" / "ovs_scheduling.csv").open(newline="") as table:
        rows = list(csv.DictReader(table))
    ours = [{theirs: name for name, theirs in names.items()} for names in (PLATFORMS, SWITCHES)]
    found = {
        path: {
            (ours[0][row["platform"]], ours[1][row["bridge"]], row["qdisc"].lower().replace("-", "_")): float(
                row["value"]
            )
            for row in rows
            if row["table"] == table
        }
        for path, table in TABLES.items()
    }
    assert all(len(values) == 2 * 2 * 6 for values in found.values())
    return found


def required(printed: dict[str, dict[Setting, float]]) -> set[Pair]:
    """All orderings that the published form has to claim."""
    found = set()

    def add(path: str, one: Setting, other: Setting) -> None:
        values = printed[path][one], printed[path][other]
        assert values[0] != values[1], f"{path}: the table has {one} and {other} alike"
        found.add((path, one, other) if values[0] < values[1] else (path, other, one))

    for path, values in printed.items():
        for platform, vswitch, qdisc in values:
            add(path, ("container", vswitch, qdisc), ("qemu", vswitch, qdisc))
            add(path, (platform, "linux_bridge", qdisc), (platform, "ovs-kernel", qdisc))
    for vswitch in SWITCHES:
        of = {path: _machines(values, vswitch) for path, values in printed.items()}
        first, *others = of[ROUND_TRIP]
        assert first[2] == "fifo"
        for other in others:
            add(ROUND_TRIP, first, other)
        least, middle, most = of[JITTER][:2], of[JITTER][2:4], of[JITTER][4:]
        assert len(most) == 2
        for one in least:
            for other in middle + most:
                add(JITTER, one, other)
        for one in most:
            for other in middle:
                add(JITTER, one, other)
        add(JITTER, *most)
    return found


def _machines(values: dict[Setting, float], vswitch: str) -> list[Setting]:
    """Settings of machines on a virtual switch, the least value first."""
    return sorted((one for one in values if one[:2] == ("qemu", vswitch)), key=lambda one: values[one])


def members(claim: Claim) -> tuple[Claim, ...]:
    """The claims that one with lists of levels stands for; of another, itself."""
    return claim.members or (claim,)


def compared(claim: Claim, experiment: Experiment) -> Iterator[Pair]:
    """The orderings that a claim about the source's factors states, design point by design point."""
    if not isinstance(claim.relation, Ordering):
        return
    (less, more), (sign,) = claim.relation.operands, claim.relation.comparators
    if sign == ">":
        less, more = more, less
    factors = experiment.factors
    for point in experiment.points():
        if all(matches(condition, point.levels) for condition in claim.where):
            hint, ends = find_operand(claim.relation.operands[0], factors, None)[0], []
            for operand in (less, more):
                factor, level = find_operand(operand, factors, hint)
                levels = {"platform": "container", **point.levels, factor: level}
                ends.append((levels["platform"], levels["vswitch"], levels["qdisc"]))
            yield str(claim.expression), ends[0], ends[1]


def compared_factors(claim: Claim, experiment: Experiment) -> set[str]:
    """The factors whose levels a claim compares."""
    relation = claim.relation
    operands = list(getattr(relation, "operands", ()))
    if isinstance(relation, Equivalent) and len(operands) == 1:
        return {operands[0].text}
    if isinstance(relation, Difference):
        operands = [relation.left, relation.right]
    found: list[str] = []
    for operand in operands:
        found.append(find_operand(operand, experiment.factors, found[-1] if found else None)[0])
    return set(found)


def published_orderings(experiment: Experiment) -> dict[str, set[Pair]]:
    """Claim with published numbers -> what it compares."""
    return {
        member.text: pairs
        for claim in experiment.claims
        for member in members(claim.parsed())
        if member.published is not None and (pairs := set(compared(member, experiment)))
    }


@pytest.mark.slow
def test_every_ordering_of_the_tables_is_claimed_and_none_that_they_do_not_have(
    experiments: dict[str, Experiment], printed: dict[str, dict[Setting, float]]
) -> None:
    claimed: set[Pair] = set().union(*published_orderings(experiments["published.yaml"]).values())
    wanted = required(printed)
    assert wanted - claimed == set(), "the tables say so, and no claim does"
    for path, less, more in claimed:
        assert printed[path][less] < printed[path][more], (path, less, more)


@pytest.mark.slow
def test_no_claim_of_the_published_form_could_be_left_out(
    experiments: dict[str, Experiment], printed: dict[str, dict[Setting, float]]
) -> None:
    wanted, claims = required(printed), published_orderings(experiments["published.yaml"])
    for left_out in claims:
        rest = set().union(*(pairs for name, pairs in claims.items() if name != left_out))
        assert wanted - rest, f"{left_out} says nothing that others do not say"


@pytest.mark.slow
def test_disciplines_are_claimed_to_be_equal_in_throughput_for_each_platform_on_each_virtual_switch(
    experiments: dict[str, Experiment],
) -> None:
    found = {}
    every = (members(entry.parsed()) for entry in experiments["published.yaml"].claims)
    for claim in chain.from_iterable(every):
        if str(claim.expression) != GOODPUT:
            continue  # of round trips the prose says so, in containers alone
        if isinstance(claim.relation, Equivalent) and compared_factors(
            claim, experiments["published.yaml"]
        ) == {"qdisc"}:
            where = {each.factor: each.levels for each in claim.where if each.op == "="}
            assert claim.published is not None
            ((platform,), (vswitch,)) = where["platform"], where["vswitch"]
            assert claim.published.where == {"table": TABLES[GOODPUT]}
            found[platform, vswitch] = claim.relation.margin.relative
    assert found == {(platform, vswitch): 0.02 for platform in PLATFORMS for vswitch in SWITCHES}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["published.yaml", "kernel.yaml"])
def test_the_numbers_beside_a_claim_are_of_the_settings_that_it_compares(
    name: str, experiments: dict[str, Experiment]
) -> None:
    for claim in experiments[name].claims:
        if claim.published is None:
            continue
        where, path = claim.published["where"], str(claim.parsed().expression)
        assert where["table"] == TABLES[path], claim.id
        every = (compared(member, experiments[name]) for member in members(claim.parsed()))
        for _, *ends in chain.from_iterable(every):
            for platform, vswitch, qdisc in ends:
                assert where.get("platform", PLATFORMS[platform]) == PLATFORMS[platform], claim.id
                assert where.get("bridge", SWITCHES[vswitch]) == SWITCHES[vswitch], claim.id
                assert where.get("qdisc", qdisc).lower().replace("-", "_") == qdisc, claim.id


@pytest.mark.slow
@pytest.mark.parametrize("name", [path.name for path in FILES])
def test_a_printed_number_lies_over_a_plot_at_its_own_setting_and_at_no_other(
    name: str, experiments: dict[str, Experiment], printed: dict[str, dict[Setting, float]]
) -> None:
    """The published form holds the three tables whole, every other one the part that it can be compared with."""
    experiment, sizes = experiments[name], {GOODPUT: 1e6, ROUND_TRIP: 1e6, JITTER: 1e6}  # Mbit/s, ms in ns
    factors, claims = declared_factors(experiment), [claim.parsed() for claim in experiment.claims]
    drawn = overlays(claims, read_figures(STUDY / "figures.yaml").published, ROOT / "published", factors)
    settings = {
        (point.levels.get("platform"), point.levels.get("vswitch"), point.levels.get("qdisc"))
        for point in experiment.points()
    }
    for path, size in sizes.items():
        found = {
            tuple(
                one.point.get(factor, experiment.factors.get(factor, (None,))[0])
                for factor in ("platform", "vswitch", "qdisc")
            ): one.low / size
            for one in drawn.get(path, ())
        }
        assert len(found) == len(drawn.get(path, ()))
        if name == "quick.yaml" and path == GOODPUT:  # namespaces, with containers' numbers beside one claim
            found = {("container", *rest): value for (_, *rest), value in found.items()}
            assert {vswitch for _, vswitch, _ in found} == {"linux_bridge"}
        else:
            assert set(found) == settings & set(printed[path])
        assert found == pytest.approx({setting: printed[path][setting] for setting in found})


def test_containers_on_the_kernel_datapath_are_claimed_what_the_tables_have_on_average(
    experiments: dict[str, Experiment], printed: dict[str, dict[Setting, float]]
) -> None:
    """`averaged over qdisc`: the printed means, averaged over the disciplines that a claim is about, have its order."""
    experiment, seen = experiments["kernel.yaml"], []
    for entry in experiment.claims:
        claim = entry.parsed()
        if entry.published is None or not (pairs := sorted(set(compared(claim, experiment)))):
            continue
        over = [[printed[path][end[at]] for path, *end in pairs] for at in (0, 1)]
        if claim.averaged:
            assert sum(over[0]) < sum(over[1]), claim.text
        else:
            assert all(less < more for less, more in zip(*over, strict=True)), claim.text
        seen.append(str(claim.expression))
    assert sorted(seen) == sorted([GOODPUT, ROUND_TRIP, JITTER, JITTER])


def test_what_the_source_says_of_open_vswitch_is_judged_on_its_kernel_datapath_only(
    experiments: dict[str, Experiment],
) -> None:
    """A claim with a published number beside it compares or names `ovs-kernel`, or is of the bridge alone."""
    judged = 0
    for name, experiment in experiments.items():
        for claim in experiment.claims:
            if claim.published is None:
                continue
            assert "ovs-netdev" not in claim.text, f"{name}: {claim.text}"
            if "ovs-netdev" in experiment.factors.get("vswitch", ()):
                assert "vswitch = linux_bridge" in claim.text, f"{name}: {claim.text}"
            judged += "ovs-kernel" in claim.text
    assert judged >= 20


@pytest.mark.slow
def test_no_claim_pools_virtual_switches_or_platforms(experiments: dict[str, Experiment]) -> None:
    """A claim compares the levels of `vswitch` and `platform`, or names the one that it is about."""
    for name, experiment in experiments.items():
        for entry in experiment.claims:
            claim = entry.parsed()
            named = {each.factor for each in claim.where if each.op == "=" and len(each.levels) == 1}
            compared = set(compared_factors(claim, experiment))
            for factor in {"vswitch", "platform"} & set(experiment.factors):
                alone = len(experiment.factors[factor]) == 1
                assert alone or factor in named | compared, f"{name}: {claim.text}"
