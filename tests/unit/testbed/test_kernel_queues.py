"""A queue of the Plan as the kernel's own: disciplines, classes and filters in order, and what a kernel lacks said
first.
"""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.testbed.test_testbed_lowering import SWITCHED

from virtlab.plan import Match, Plan, Queue
from virtlab.testbed.build.fabric import realisation
from virtlab.testbed.queues.kernel import at_port, class_handles, missing
from virtlab.testbed.queues.rules import filters
from virtlab.testbed.steps.operations import ClassAdd, Discipline, FilterAdd, QdiscAdd

EVERYTHING = dict.fromkeys(("htb", "pfifo", "bfifo", "prio", "drr", "hfsc", "cls_u32", "cls_flower"))
TREE = {
    "kind": "htb", "default": "rest", "match": [{"class": "voice", "dscp": [46]}],
    "classes": {
        "all": {"parameters": {"rate_bit_per_s": 90_000_000}},
        "rest": {"parent": "all", "parameters": {"rate_bit_per_s": 60_000_000, "ceil_bit_per_s": 90_000_000}},
        "voice": {"parent": "all", "limit_packets": 9, "parameters": {"rate_bit_per_s": 30_000_000, "prio": 1}},
    },
}  # fmt: skip


def queue(values: dict[str, Any]) -> Queue:
    return Queue.model_validate(values)


def lines(values: dict[str, Any]) -> list[Any]:
    return list(at_port("fabric", "p1", 100_000_000, queue(values)))


def matched(**rule: Any) -> list[tuple[int, int, tuple[tuple[int, int, int], ...]]]:
    """Preference, protocol and keys of the filters of one rule."""
    made = filters("n", "p", "10:", (Match.model_validate({"class": "a", **rule}),), {"a": "10:1"})
    return [(each.preference, each.protocol, getattr(each.matcher, "keys", ())) for each in made]


def test_a_tree_stands_inside_the_class_that_holds_the_links_rate() -> None:
    made = lines(TREE)
    handles = [op.handle for op in made if isinstance(op, QdiscAdd | ClassAdd)]
    assert handles == ["1:", "1:1", "10:", "10:1", "10:2", "101:", "10:3", "102:"]
    voice = next(op for op in made if isinstance(op, ClassAdd) and op.handle == "10:3")
    assert voice.parent == "10:1"
    assert voice.discipline.options == {
        "rate_bit_per_s": 3e7, "ceil_bit_per_s": 3e7, "prio": 1, "burst_bytes": 1600, "cburst_bytes": 1600,
        "quantum_bytes": 200_000, "overhead_bytes": 0, "minimum_bytes": 0,
    }  # fmt: skip
    assert {op.target for op in made if isinstance(op, FilterAdd)} == {"10:3"}


def test_bands_go_by_priority_and_unmatched_frames_to_the_defaults() -> None:
    classes = {"a": {"parameters": {"prio": 3}}, "z": {"parameters": {"prio": 1}}}
    values = {"kind": "prio", "classes": classes, "default": "a"}
    assert class_handles(queue(values)) == {"z": "10:1", "a": "10:2"}
    inner = next(op for op in lines(values) if isinstance(op, QdiscAdd) and op.handle == "10:")
    assert inner.discipline == Discipline("prio", {"bands": 2, "band": 1})


def test_round_robin_and_curves_have_classes_of_their_own() -> None:
    turns = lines(
        {"kind": "drr", "classes": {"a": {"parameters": {"quantum_bytes": 900}}, "b": {}}, "default": "b"}
    )
    assert [
        op.discipline.options["quantum_bytes"]
        for op in turns
        if isinstance(op, ClassAdd) and op.handle != "1:1"
    ] == [900, 1514]
    assert turns[-1].protocol == 3, "what no rule takes goes to the default by a filter for all"
    curves = {"rt_m1_bit_per_s": 8, "rt_d_ns": 9, "rt_m2_bit_per_s": 7, "ls_m2_bit_per_s": 5}
    (made,) = (
        op
        for op in lines({"kind": "hfsc", "classes": {"a": {"parameters": curves}}, "default": "a"})
        if isinstance(op, ClassAdd) and op.handle != "1:1"
    )
    assert made.discipline.options == {"real_time": (8, 9, 7), "link_share": (5, 0, 5)}


def test_a_code_point_is_looked_for_in_both_families_tagged_or_not() -> None:
    four, six = (0, 0xFC0000, 46 << 18), (0, 0x0FC00000, 46 << 22)
    assert matched(dscp=[46]) == [
        (1, 0x0800, (four,)),
        (3, 0x8100, ((0, 0xF0000000, 0x40000000), four)),
        (2, 0x86DD, (six,)),
        (3, 0x8100, ((0, 0xF0000000, 0x60000000), six)),
    ]


def test_a_port_is_looked_for_behind_a_plain_header_of_an_unfragmented_packet() -> None:
    (first, *_) = matched(protocol=17, destination_port=(5004, 5004), source="10.0.0.0/24")
    assert first[2] == (
        (8, 0xFF0000, 17 << 16),
        (12, 0xFFFFFF00, 0x0A000000),
        (0, 0x0F000000, 0x05000000),
        (4, 0x3FFF, 0),
        (20, 0xFFFF, 5004),
    )


def test_a_range_of_ports_is_as_few_prefixes_as_possible() -> None:
    found = [
        keys[-1] for _, protocol, keys in matched(protocol=6, source_port=(1024, 65535)) if protocol == 0x0800
    ]
    assert [(mask >> 16, value >> 16) for _, mask, value in found] == [
        (0xFC00, 1024), (0xF800, 2048), (0xF000, 4096), (0xE000, 8192), (0xC000, 16384), (0x8000, 32768),
    ]  # fmt: skip


def test_a_rule_without_conditions_takes_every_frame() -> None:
    assert matched() == [(3, 3, ((0, 0, 0),))]


@pytest.mark.parametrize(
    ("values", "kernel", "keys"),
    [
        (TREE, EVERYTHING, []),
        (TREE, EVERYTHING | {"cls_u32": "unknown"}, ["match"]),
        (TREE, EVERYTHING | {"htb": "unknown"}, ["kind"]),
        ({"kind": "codel", "parameters": {"ideal": True}}, {"codel": None}, ["parameters.ideal"]),
        ({"kind": "sfq", "parameters": {"perturb_ns": 5}}, {"sfq": None}, ["parameters.perturb_ns"]),
        ({**TREE, "match": [{"class": "voice", "flow": [0, 2]}]}, EVERYTHING, ["match.0"]),
        ({**TREE, "match": [{"class": "voice", "pcp": [5]}]}, EVERYTHING | {"cls_flower": "no"}, ["match"]),
    ],
)
def test_what_a_kernel_lacks_is_said_with_the_ways_out(
    values: dict[str, Any], kernel: dict[str, str | None], keys: list[str]
) -> None:
    found = list(missing(queue(values), kernel))
    assert [key for key, _, _ in found] == keys
    assert all("'by: virtlab': the soft switch plays it" in cure for _, _, cure in found)
    modules = [cure for key, _, cure in found if key in {"kind", "match"}]
    assert all("take the lab VM's kernel: 'virtlab run FILE --in lab-vm'" in cure for cure in modules)
    inside = list(missing(queue(values), kernel, "lab-vm"))
    assert [(key, reason) for key, reason, _ in inside] == [(key, reason) for key, reason, _ in found]
    for _, _, cure in inside:
        assert "write 'by: virtlab' and leave out --in lab-vm: the soft switch plays it" in cure
        assert "take the lab VM" not in cure


def test_a_curve_steeper_than_the_kernel_can_hold_is_refused_wherever_it_stands() -> None:
    slopes = [(8 << 32) - 8, 8 << 32]
    for slope, count in zip(slopes, (0, 1), strict=True):
        bare = {"kind": "hfsc", "parameters": {"m2_bit_per_s": slope}}
        classes = {"a": {"parameters": {"ls_m2_bit_per_s": 10**9, "ul_m2_bit_per_s": slope}}}
        for values in (bare, {"kind": "hfsc", "classes": classes, "default": "a"}):
            found = list(missing(queue(values), EVERYTHING))
            assert len(found) == count
            for key, _, cure in found:
                assert key in {"parameters.m2_bit_per_s", "classes.a.parameters.ul_m2_bit_per_s"}
                assert cure.startswith("write '34 Gbit/s' at most, or write 'by: virtlab'")


def test_netem_is_the_kernels_alone_and_the_ways_out_are_another_kernel_and_the_simulator() -> None:
    ((key, reason, cure),) = missing(queue({"kind": "netem"}), {"netem": "unknown kind"})
    assert (key, reason) == ("kind", "this kernel has no netem (unknown kind)")
    assert cure == (
        "load sch_netem, or take the lab VM's kernel: 'virtlab run FILE --in lab-vm', "
        "or simulate it: 'virtlab run FILE --backend simulator'"
    )


def links(**queue_fields: Any) -> Plan:
    values = SWITCHED.model_dump(by_alias=True)
    for link in values["world"]["links"].values():
        link["queue"] = {"ab": queue_fields, "ba": queue_fields}
    return Plan.model_validate(values)


def test_a_queue_that_names_its_owner_chooses_who_holds_the_links() -> None:
    assert realisation(links(kind="htb", by="kernel"), "netem") == "shaping"
    assert realisation(links(kind="fifo", by="kernel"), "netem") == "netem"
    assert realisation(links(kind="fifo", by="virtlab"), "netem") == "soft_switch"
    assert realisation(links(kind="codel"), "netem") == "soft_switch"
    assert realisation(links(kind="fifo"), "netem") == "netem"
    assert realisation(links(kind="codel", by="kernel"), "soft_switch") == "shaping"
