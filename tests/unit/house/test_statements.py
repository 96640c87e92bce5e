"""Every statement of a source is judged, answered or declined, and the page of its study says so.

The pages are written by `tools/studies.py` from `statements.yaml`, the published tables and the verdicts that were
recorded.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.shipped import shipped
from tools.statements import Judge, current, loaded, recorded, studies
from tools.studies import NOTHING, page_of
from tools.verdicts import SAME, own_points, same_worlds, share_of_runs, unmodelled

from virtlab.analysis import parse_claim
from virtlab.analysis.claims.nouns import Linear, Trend
from virtlab.report.gather.sources.source_figures import FILE_NAME, read_figures

ROOT = Path(__file__).parents[3]
DECLINED_MAX = 5  # statements of one source that its study may decline
MARGIN = re.compile(r"(?:\+-|within|by) ([\d.]+ (?:%|pp|[num]s|[kM]?bit/s))(?! \+-)")
USUAL = "25 %"  # where a source gives neither a reading error nor a spread
PLATFORMS = {  # study -> platform in `where` -> what a claim about it names
    "forwarding-fairness": {"Xen": "e1000", "KVM": "virtio"},
    "hypervisor-application": {"KVM": "kvm", "VMware": "vmware", "Xen": "xen"},
    "virtual-switches": {"KVM": "qemu", "Docker": "container"},
    "virtual-routers": {"VMware": "vmware", "Hyper-V": "hyperv"},
}
STUDIES = [
    "distributed-storage",
    "forwarding-fairness",
    "hypervisor-application",
    "over-allocation",
    "realtime-vm",
    "switched-network",
    "virtual-routers",
    "virtual-switches",
]


EVERY = {study.folder.name: study for study in studies()}


def test_every_study_of_a_source_says_what_is_judged() -> None:
    assert sorted(EVERY) == STUDIES


@pytest.mark.parametrize("name", STUDIES)
def test_each_statement_has_one_entry_and_few_are_declined(name: str) -> None:
    study = EVERY[name]
    assert sorted(study.entries) == sorted(row["statement_id"] for row in study.rows)
    for entry in study.entries.values():
        assert bool(entry.claims) + bool(entry.command) + bool(entry.not_judged) + bool(entry.not_yet) == 1
    assert sum(bool(entry.not_judged) for entry in study.entries.values()) <= DECLINED_MAX


NOT_YET: dict[str, Callable[[], bool]] = {}  # what is said to be missing -> whether it still is


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_what_is_not_judged_yet_waits_for_something_that_is_still_missing(name: str) -> None:
    figures = read_figures(EVERY[name].folder / FILE_NAME)
    said = {one.not_yet for one in (*EVERY[name].entries.values(), *figures.entries)} - {""}
    assert said <= set(NOT_YET)
    assert all(NOT_YET[reason]() for reason in said), "it is there now: judge what waits for it"


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_each_claim_that_judges_is_in_its_file(name: str) -> None:
    study = EVERY[name]
    for statement, entry in study.entries.items():
        for judge in entry.claims:
            claim = study.claim(judge)
            assert claim is not None, (statement, judge)
            if judge.at:
                assert judge.at in {member.at for member in claim.parsed().members}, (statement, judge)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(PLATFORMS))
def test_a_statement_about_a_platform_is_judged_on_that_platform(name: str) -> None:
    study, words = EVERY[name], PLATFORMS[name]
    for row in study.rows:
        platform = row["where"].partition(";")[0].removeprefix("platform=")
        for judge in study.entries[row["statement_id"]].claims if platform in words else ():
            claim = study.claim(judge)
            assert claim is not None
            members = [one for one in claim.parsed().members if one.at == judge.at] or [claim.parsed()]
            texts = " ".join(one.text for one in members) if judge.at else claim.text
            asked = shipped(study.folder / judge.file).factors
            only = any(levels == (words[platform],) for levels in asked.values())
            assert words[platform] in texts or only or "rates.yaml" in judge.file, (
                row["statement_id"],
                judge,
            )


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_the_page_is_what_the_tool_writes(name: str) -> None:
    study = EVERY[name]
    page = (study.folder / "README.md").read_text(encoding="utf-8")
    assert page == page_of(study), "write it again: python -m tools.studies page"
    for row in study.rows:
        assert f"| {row['statement_id']} (" in page
    assert NOTHING not in page, "record a dataset of the file, or say under 'not_run' why there is none"


@pytest.mark.slow
def test_a_dataset_of_some_runs_decides_the_claims_whose_points_it_has() -> None:
    """One stream of 65 kB is one design point; what compares guests needs both."""
    study = EVERY["switched-network"]
    every = [
        {name: str(level) for name, level in point.levels.items()}
        for point in loaded(study.folder / "published.yaml").points()
    ]

    def points(claim: str) -> list[tuple[tuple[str, str], ...]]:
        found = study.claim(Judge("published.yaml", claim))
        assert found is not None
        return own_points(found.parsed(), every)

    (one,) = points("level-of-one-stream")
    assert dict(one) == {"switches": "1", "guests": "1", "streams": "1", "load": "65 kB"}
    assert {dict(point)["load"] for point in points("small-load-lowers-delay")} == {"0 kB", "5 kB"}
    assert {dict(point)["guests"] for point in points("guests-cross-with-two-streams")} == {"1", "2"}
    assert len(points("delay-grows-with-load")) == len(every)
    assert share_of_runs([one], Counter({one: 1}), 2) == "1 of 2 runs"
    assert share_of_runs([one], Counter({one: 2}), 2) == ""


def test_a_simulated_world_decides_nothing_of_a_platform_that_it_does_not_know() -> None:
    """Where both levels are one world, a claim about either is of neither; where they differ, it is of its own."""
    claim = parse_claim("probe.rtt.mean <= 1 ms where vnic = e1000")
    e1000, virtio = (("load", "1"), ("vnic", "e1000")), (("load", "1"), ("vnic", "virtio"))
    same = {e1000: "one", virtio: "one"}
    assert unmodelled(claim, same, "vnic") == "to this simulated world vnic e1000 and virtio are the same"
    assert unmodelled(claim, same, "load") == ""
    assert unmodelled(claim, {e1000: "one", virtio: "other"}, "vnic") == ""


@pytest.mark.parametrize(
    ("text", "judged"),
    [
        ("probe.rtt.mean: vnic e1000 < virtio", False),
        ("probe.rtt.mean: vnic e1000 < virtio averaged over load", False),
        ("probe.rtt.mean: vnic e1000 < virtio where load = 0 B", False),
        ("probe.rtt.mean: vnic veth < virtio", True),
        ("probe.rtt.mean grows with load", True),
        ("probe.rtt.mean grows with load where vnic = veth", True),
        ("probe.rtt.mean grows with load where vnic = virtio", False),
        ("probe.rtt.mean <= 1 ms", True),
    ],
)
def test_what_worlds_that_are_the_same_cannot_judge_is_told_without_a_run(text: str, judged: bool) -> None:
    """e1000 and virtio are one world, veth is another; each load is its own."""
    factors = {"vnic": ["veth", "e1000", "virtio"], "load": ["0 B", "30 kB"]}
    worlds = {
        (("load", load), ("vnic", vnic)): f"{load} {'veth' if vnic == 'veth' else 'machine'}"
        for load in factors["load"]
        for vnic in factors["vnic"]
    }
    reason = same_worlds(parse_claim(text), worlds, "vnic", factors)
    assert (reason == "") == judged, reason
    assert judged or reason.startswith(SAME)


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_a_verdict_is_kept_of_claims_that_are_still_made(name: str) -> None:
    for row in recorded(EVERY[name].folder):
        if row["file"].endswith(".yaml"):
            claim = EVERY[name].claim(Judge(row["file"], row["claim"]))
            assert claim is not None, row
            assert current(claim, row), f"{row['file']}: {row['claim']} was judged by another text"


@pytest.mark.slow
def test_a_verdict_on_another_text_is_not_shown() -> None:
    study = EVERY["switched-network"]
    judge = Judge("quick.yaml", "delay-grows-with-load")
    claim = study.claim(judge)
    assert claim is not None
    assert current(claim, {"text": claim.text})
    assert not current(claim, {"text": claim.text + " steadily"})


@pytest.mark.slow
def test_a_claim_of_growth_carries_no_level_as_its_published_number() -> None:
    wrong = [
        (path.parent.name, path.name, claim.id)
        for path in sorted((ROOT / "experiments").glob("*/*.yaml"))
        if "\nclaims:" in path.read_text(encoding="utf-8")
        for claim in shipped(path).claims
        if claim.published is not None and isinstance(claim.parsed().relation, (Trend, Linear))
    ]
    assert wrong == []


@pytest.mark.slow
@pytest.mark.parametrize("name", STUDIES)
def test_a_margin_other_than_the_usual_one_has_its_reason_in_the_file(name: str) -> None:
    study = EVERY[name]
    judges = {judge for entry in study.entries.values() for judge in entry.claims}
    for judge in judges:
        claim = study.claim(judge)
        assert claim is not None
        lines = (study.folder / judge.file).read_text(encoding="utf-8").splitlines()
        comments = " ".join(line.partition("#")[2] for line in lines if "#" in line)
        for margin in MARGIN.findall(claim.text):
            assert margin == USUAL or margin in comments, (judge, margin)
