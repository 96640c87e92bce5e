"""What the kernel tells of queues against what it was told: every value counts, and only its own units are forgiven."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest
from tests.unit.testbed.test_kernel_queues import links
from tests.unit.testbed.test_port_queues import CLASSES, planned

from virtlab.errors import MachineError
from virtlab.plan import Queue
from virtlab.testbed.build.lower import lower
from virtlab.testbed.build.ports import as_built
from virtlab.testbed.queues.applied import check_operations, of_operation
from virtlab.testbed.queues.kernel import missing
from virtlab.testbed.queues.ovs import Qos, qos_of
from virtlab.testbed.readback import check_queues, queueing
from virtlab.testbed.steps.operations import (
    U32,
    ClassAdd,
    Discipline,
    FilterAdd,
    Flower,
    Operation,
    QdiscAdd,
    QueueLengthSet,
)
from virtlab.testbed.vswitches.ovs_ports import check_qos

RATE = 100_000_000
CODEL = Discipline(
    "codel", {"limit_packets": 1000, "target_ns": 7_000_000, "interval_ns": 70_000_000, "ecn": True}
)
# What was done, and what a kernel (Linux 6.1) told of it.
TOLD: list[tuple[Any, dict[str, Any]]] = [
    (Discipline("pfifo", {"limit_packets": 30}), {"limit_packets": 30}),
    (Discipline("bfifo", {"limit_bytes": 5000}), {"limit_bytes": 5000}),
    (
        Discipline("htb", {"default_class": 3, "direct_limit_packets": 1000}),
        {"default_class": 3, "direct_limit_packets": 1000},
    ),
    (Discipline("hfsc", {"default_class": 2}), {"default_class": 2}),
    (Discipline("prio", {"bands": 4, "band": 3}), {"bands": 4, "band": 3}),
    (
        Discipline("tbf", {
            "rate_bit_per_s": RATE + 1, "burst_bytes": 9_999, "limit_bytes": 50_000, "overhead_bytes": 0, "minimum_bytes": 0,
        }),
        {"rate_bit_per_s": RATE, "burst_bytes": 9_999, "limit_bytes": 50_000, "overhead_bytes": 0, "minimum_bytes": 0},
    ),
    (
        Discipline("netem", {
            "rate_bit_per_s": RATE, "delay_ns": 1_000_001, "limit_packets": 50, "overhead_bytes": 24, "loss_ratio": 1e-9,
        }),
        {
            "limit_packets": 50, "delay_ns": 1_000_001, "loss_ratio": 4 / (2**32 - 1), "rate_bit_per_s": RATE,
            "overhead_bytes": 24,
        },
    ),
    (
        CODEL,
        {"limit_packets": 1000, "target_ns": 6_999_000, "interval_ns": 69_999_000, "ecn": 1},
    ),
    (
        Discipline("fq_codel", {
            "limit_packets": 2000, "target_ns": 5 * 10**6, "interval_ns": 10**8, "ecn": False, "flows": 64,
            "quantum_bytes": 300, "memory_limit_bytes": 1 << 20, "drop_batch": 8,
        }),
        {
            "limit_packets": 2000, "target_ns": 4_999_000, "interval_ns": 99_999_000, "ecn": 0, "flows": 64,
            "quantum_bytes": 300, "memory_limit_bytes": 1 << 20, "drop_batch": 8,
        },
    ),
    (
        Discipline("sfq", {
            "limit_packets": 60, "quantum_bytes": 3000, "perturb_ns": 10**10, "flows": 100, "depth": 64, "divisor": 512,
        }),
        {"limit_packets": 60, "quantum_bytes": 3000, "perturb_ns": 10**10, "flows": 60, "depth": 64, "divisor": 512},
    ),
]  # fmt: skip
OPERATIONS: list[tuple[Operation, dict[str, Any]]] = [
    *(
        (
            QdiscAdd("n", "p", discipline, parent="1:1", handle="10:"),
            {"parent": "1:1", "kind": discipline.kind} | told,
        )
        for discipline, told in TOLD
    ),
    (
        ClassAdd("n", "p", "10:", "10:1", Discipline("htb", {
            "rate_bit_per_s": RATE + 7, "ceil_bit_per_s": 2 * RATE, "burst_bytes": 15_380, "cburst_bytes": 20_001,
            "prio": 3, "quantum_bytes": 1514, "overhead_bytes": 24, "minimum_bytes": 84,
        })),
        {
            "kind": "htb", "parent": "root", "rate_bit_per_s": RATE, "ceil_bit_per_s": 2 * RATE,
            "burst_bytes": 15_379, "cburst_bytes": 20_000, "prio": 3, "quantum_bytes": 1514, "overhead_bytes": 24,
            "minimum_bytes": 84,
        },
    ),
    (
        ClassAdd("n", "p", "10:", "10:1", Discipline("hfsc", {
            "real_time": (RATE, 10_000_500, RATE // 2), "link_share": (7, 0, RATE),
        })),
        {
            "kind": "hfsc", "parent": "10:", "real_time": [RATE, 10_000_000, RATE // 2], "link_share": [0, 0, RATE],
            "upper_limit": None,
        },
    ),
    (
        ClassAdd("n", "p", "10:", "10:1", Discipline("drr", {"quantum_bytes": 900})),
        {"kind": "drr", "parent": "root", "quantum_bytes": 900},
    ),
]  # fmt: skip
NAMES = [f"{op.json()['op']} of {op.json()['discipline']['kind']}" for op, _ in OPERATIONS]
EACH = [
    pytest.param(op, told, key, id=f"{name}-{key}")
    for name, (op, told) in zip(NAMES, OPERATIONS, strict=True)
    for key in told
]


def checked(op: Any, told: dict[str, Any]) -> None:
    check_operations("links.l0", [op], "p", {"qdiscs": [{"handle": op.handle, **told}]})


@pytest.mark.parametrize(("op", "told"), OPERATIONS, ids=NAMES)
def test_what_the_kernel_told_of_its_own_is_the_same_and_all_of_it_is_compared(
    op: Operation, told: dict[str, Any]
) -> None:
    checked(op, told)
    assert set(of_operation(op)) == set(told)


@pytest.mark.parametrize(("op", "told", "key"), EACH)
def test_any_other_value_is_an_error_with_its_place_and_a_cure(
    op: Any, told: dict[str, Any], key: str
) -> None:
    value = told[key]
    if isinstance(value, str):
        other: Any = f"{value}x"
    elif isinstance(value, list) or value is None:
        other = [8, 0, 8]
    elif isinstance(value, float):
        other = 2 * value
    elif key in {"rate_bit_per_s", "ceil_bit_per_s"}:
        other = value + 8
    else:
        other = value + 1000
    with pytest.raises(MachineError) as caught:
        checked(op, told | {key: other})
    assert caught.value.where == "links.l0"
    assert f"{key} of {op.handle} is " in caught.value.what
    assert "at p" in caught.value.what
    assert "--in lab-vm" in caught.value.cure


@pytest.mark.parametrize("key", ["limit_packets", "target_ns", "interval_ns", "ecn"])
def test_what_the_kernel_does_not_tell_is_not_taken_for_done(key: str) -> None:
    op = QdiscAdd("n", "p", CODEL, handle="1:")
    told = {"kind": "codel", "parent": "root", "limit_packets": 1000, "target_ns": 6_999_000}
    told |= {"interval_ns": 69_999_000, "ecn": 1}
    del told[key]
    with pytest.raises(MachineError, match=f"{key} of 1: is not told"):
        checked(op, told)


def test_all_that_differs_at_a_port_is_told_at_once() -> None:
    op = QdiscAdd("n", "p", CODEL, handle="1:")
    told = {"kind": "codel", "parent": "root", "limit_packets": 9, "target_ns": 1, "interval_ns": 2, "ecn": 0}
    with pytest.raises(MachineError) as caught:
        checked(op, told)
    assert caught.value.what.count(" as planned") == 4


@pytest.mark.parametrize(
    ("burst_bytes", "rate", "told", "same"),
    [
        (15_380, RATE, 15_380, True),
        (15_380, RATE, 15_378, True),  # a tick holds 0.8 bytes
        (15_380, RATE, 15_377, False),
        (15_380, RATE, 15_381, False),
        (64_000, 80 * 10**9, 63_360, True),  # one of 640
        (64_000, 80 * 10**9, 63_000, False),
        (1600, 8, 274, False),  # beyond 2**32 ticks
    ],
)
def test_a_burst_is_forgiven_one_tick_of_its_rate(burst_bytes: int, rate: int, told: int, same: bool) -> None:
    told_to = {"rate_bit_per_s": rate, "ceil_bit_per_s": rate, "burst_bytes": burst_bytes, "cburst_bytes": 0}
    op = ClassAdd("n", "p", "1:", "1:1", Discipline("htb", told_to))
    entry = {
        "kind": "htb", "parent": "root", "rate_bit_per_s": rate // 8 * 8, "ceil_bit_per_s": rate // 8 * 8,
        "burst_bytes": told, "cburst_bytes": 0, "prio": 0, "overhead_bytes": 24, "minimum_bytes": 84,
    }  # fmt: skip
    if same:
        checked(op, entry)
    else:
        with pytest.raises(MachineError, match="burst_bytes of 1:1"):
            checked(op, entry)


def test_a_class_of_the_disciplines_own_handle_is_not_taken_for_it() -> None:
    entries = [
        {"handle": "10:", "kind": "hfsc", "parent": "1:1", "default_class": 1},
        {"handle": "10:", "kind": "hfsc", "parent": "root"},
    ]
    op = QdiscAdd("n", "p", Discipline("hfsc", {"default_class": 1}), parent="1:1", handle="10:")
    check_operations("links.l0", [op], "p", {"qdiscs": entries})


def told_of(op: FilterAdd) -> dict[str, Any]:
    """A filter as the agent tells it."""
    found = {
        "kind": op.matcher.kind, "parent": op.parent, "preference": op.preference, "protocol": op.protocol,
        "target": op.target,
    }  # fmt: skip
    if isinstance(op.matcher, U32):
        return found | {"keys": [list(key) for key in op.matcher.keys]}
    return found | {"fields": asdict(op.matcher)}


def filtered(op: FilterAdd, told: dict[str, Any]) -> None:
    check_operations("links.l0", [op], "p", {"qdiscs": [], "filters": [told]})


WORDS = FilterAdd(
    "n", "p", "10:", 4, 0x0800, "10:2", U32(((0, 0xFC0000, 0xB80000), (12, 0xFFFF0000, 0x0A000000)))
)
TAGS = FilterAdd("n", "p", "10:", 6, 0x8100, "10:2", Flower(5, 0x0800, 46, 17, "10.0.0.7/16", "10.1.0.0/24"))
OTHERWISE: list[tuple[FilterAdd, dict[str, Any]]] = [
    *((op, {key: other}) for op in (WORDS, TAGS) for key, other in {
        "kind": "basic", "parent": "1:", "preference": 9, "protocol": 3, "target": "10:1",
    }.items()),
    (WORDS, {"keys": [[0, 0xFC0000, 0xB80000]]}),
    (WORDS, {"keys": [[0, 0xFC0000, 0x200000], [12, 0xFFFF0000, 0x0A000000]]}),
    (WORDS, {"keys": None}),
    *((TAGS, {"fields": asdict(TAGS.matcher) | {key: other}}) for key, other in {
        "vlan_priority": 4, "network": 0x86DD, "dscp": 0, "protocol": 6, "source": "10.0.0.7/24",
        "destination": "10.1.0.0/255.255.0.255",
    }.items()),
    *((TAGS, {"fields": asdict(TAGS.matcher) | {key: None}}) for key in asdict(TAGS.matcher)),
    (TAGS, {"fields": None}),
]  # fmt: skip


@pytest.mark.parametrize(("op", "otherwise"), OTHERWISE)
def test_a_filter_that_looks_at_anything_else_is_not_the_one_that_was_asked_for(
    op: FilterAdd, otherwise: dict[str, Any]
) -> None:
    filtered(op, told_of(op))
    with pytest.raises(MachineError, match=f"no filter {op.preference} of 10: to 10:2") as caught:
        filtered(op, told_of(op) | otherwise)
    assert str(caught.value.what).endswith(" at p")


def test_a_filter_that_looks_at_more_than_it_was_asked_to_is_another_one() -> None:
    bare = replace(TAGS, matcher=Flower(5))
    filtered(bare, told_of(bare))
    with pytest.raises(MachineError, match="flower vlan_priority 5 at p"):
        filtered(bare, told_of(bare) | {"fields": asdict(Flower(5, dscp=46))})


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("0.0.0.0/0", None),  # the kernel tells no mask without ones
        ("::/0", None),
        ("10.0.0.7/16", "10.0.0.0/16"),
        ("10.0.0.7", "10.0.0.7/32"),
    ],
)
def test_networks_of_a_filter_are_the_same_where_all_their_addresses_are(
    asked: str, told: str | None
) -> None:
    op = replace(TAGS, matcher=Flower(5, source=asked))
    filtered(op, told_of(op) | {"fields": asdict(Flower(5, source=told))})


@pytest.mark.parametrize("told", [{"queue_length_packets": 1000}, {}])
def test_the_length_that_the_kernels_own_queue_goes_by_is_compared(told: dict[str, int]) -> None:
    op = QueueLengthSet("n", "p", 50)
    check_operations("links.l0", [op], "p", {"qdiscs": [], "queue_length_packets": 50})
    with pytest.raises(MachineError, match=r"queue_length_packets of the interface is .* not 50 as planned"):
        check_operations("links.l0", [op], "p", {"qdiscs": [], **told})


def test_the_length_of_a_queue_is_among_what_is_compared_at_its_port() -> None:
    lowered = lower(links(kind="pfifo_fast", by="kernel", limit_packets=50))
    done = queueing(lowered)
    for queue in lowered.queues.values():
        lengths = [op for op in done[queue.namespace, queue.link] if isinstance(op, QueueLengthSet)]
        assert [op.packets for op in lengths] == [50]


def test_a_port_of_a_host_is_compared_with_all_that_was_done_there() -> None:
    plan = planned(f"queue: {{kind: htb, by: kernel, {CLASSES}}}")
    lowered = lower(as_built(plan, "soft_switch"))
    done = queueing(lowered)
    place = lowered.ports["h1.g1/eth0"]
    operations = done[place.namespace, place.link]
    entries = [
        {"handle": op.handle, **{key: most for key, (_, _, most) in of_operation(op).items()}}
        for op in operations
        if isinstance(op, QdiscAdd | ClassAdd)
    ]
    filters = [told_of(op) for op in operations if isinstance(op, FilterAdd)]
    assert filters
    link = {"qdiscs": entries, "filters": filters}
    seen = {place.namespace: {"links": {place.link: link}}}
    check_queues("h1.g1.eth0", lowered, done, seen, "guests.h1.g1.vnics.eth0")
    for broken, what in (
        ({**link, "filters": filters[1:]}, "the kernel has no filter"),
        ({**link, "qdiscs": entries[1:]}, "the kernel has no 10:"),
        (
            {**link, "qdiscs": [entries[0] | {"default_class": 99}, *entries[1:]]},
            "default_class of 10: is 99",
        ),
        (
            {"qdiscs": [entries[0] | {"default_class": 99}, *entries[2:]], "filters": filters[1:]},
            f"the kernel has no {entries[1]['handle']}, no filter .*, and default_class of 10: is 99",
        ),
    ):
        with pytest.raises(MachineError, match=what) as caught:
            check_queues(
                "h1.g1.eth0",
                lowered,
                done,
                {place.namespace: {"links": {place.link: broken}}},
                "guests.h1.g1.vnics.eth0",
            )
        assert caught.value.where == "guests.h1.g1.vnics.eth0"
        assert caught.value.cure


RECORDS: list[tuple[dict[str, Any], int | None, dict[str, dict[str, Any]]]] = [
    (
        {"kind": "codel", "parameters": {"target_ns": 7_000_000}},
        None,
        {"1:": {"kind": "codel", "limit_packets": 1000, "target_ns": 6_999_000, "interval_ns": 99_999_000}},
    ),
    (
        {"kind": "fq_codel", "parameters": {"flows": 64, "ecn": True}},
        None,
        {
            "1:": {
                "kind": "fq_codel", "limit_packets": 10_240, "target_ns": 4_999_000, "interval_ns": 99_999_000,
                "flows": 64, "quantum_bytes": 1514,
            }
        },
    ),
    (
        {"kind": "sfq", "parameters": {"perturb_ns": 10**10}},
        None,
        {"1:": {"kind": "sfq", "perturb_ns": 10**10, "quantum_bytes": 1514}},
    ),
    (
        {"kind": "netem", "parameters": {"delay_ns": 20_001_000, "loss_ratio": 0.01}},
        None,
        {
            "1:": {
                "kind": "netem", "limit_packets": 1000, "delay_ns": 20_000_960, "rate_bit_per_s": 0,
                "overhead_bytes": 0, "loss_ratio": 42_949_672 / (2**32 - 1),
            }
        },
    ),
    (
        {
            "kind": "htb", "default": "b",
            "classes": {
                "a": {"parent": "c", "parameters": {"rate_bit_per_s": 10**7, "burst_bytes": 20_000, "prio": 2}},
                "b": {"parent": "c", "parameters": {"rate_bit_per_s": 10**6, "ceil_bit_per_s": 10**7}},
                "c": {"parameters": {"rate_bit_per_s": 10**7}},
            },
        },
        None,
        {
            "1:": {"kind": "htb", "default_class": 1},
            "1:fffe": {"kind": "htb", "parent": "root", "rate_bit_per_s": 10**7, "ceil_bit_per_s": 10**7, "prio": 0},
            "1:1": {"kind": "htb", "parent": "1:fffe", "rate_bit_per_s": 10**6, "ceil_bit_per_s": 10**7, "prio": 0},
            "1:2": {
                "kind": "htb", "parent": "1:fffe", "rate_bit_per_s": 10**7, "ceil_bit_per_s": 10**7, "prio": 2,
                "burst_bytes": 20_000, "cburst_bytes": 20_000,
            },
        },
    ),
    (
        {
            "kind": "hfsc", "default": "a",
            "classes": {
                "a": {"parameters": {"rt_m2_bit_per_s": 10**6, "ls_m2_bit_per_s": 10**6, "ul_m2_bit_per_s": 10**7}},
            },
        },
        None,
        {
            "1:": {"kind": "hfsc", "default_class": 1},
            "1:fffe": {
                "kind": "hfsc", "parent": "1:", "real_time": [0, 0, 10**7], "link_share": [0, 0, 10**7],
                "upper_limit": [0, 0, 10**7],
            },
            "1:1": {
                "kind": "hfsc", "parent": "1:fffe", "real_time": [0, 0, 10**6], "link_share": [0, 0, 10**6],
                "upper_limit": [0, 0, 10**7],
            },
        },
    ),
]  # fmt: skip


def recorded(values: dict[str, Any], rate: int | None) -> Qos:
    qos = qos_of(Queue.model_validate(values), rate)
    assert qos is not None
    return qos


@pytest.mark.parametrize(("values", "rate", "told"), RECORDS, ids=[each[0]["kind"] for each in RECORDS])
def test_every_value_that_open_vswitch_was_told_is_looked_for_in_the_kernel(
    values: dict[str, Any], rate: int | None, told: dict[str, dict[str, Any]]
) -> None:
    qos = recorded(values, rate)

    def entries(changed: dict[str, dict[str, Any]]) -> dict[str, Any]:
        return {"qdiscs": [{"handle": handle, **entry} for handle, entry in changed.items()]}

    check_qos(qos, entries(told), "guests.a.vnics.eth0")
    for handle, entry in told.items():
        for key, value in entry.items():
            other: Any = (
                [8, 0, 8] if isinstance(value, list) else "?" if isinstance(value, str) else value + 1000
            )
            with pytest.raises(MachineError, match=f"{key} of {handle} is") as caught:
                check_qos(qos, entries(told | {handle: entry | {key: other}}), "guests.a.vnics.eth0")
            assert (caught.value.where, bool(caught.value.cure)) == ("guests.a.vnics.eth0", True)
        with pytest.raises(MachineError, match=f"no {handle} at the port"):
            check_qos(qos, entries({at: each for at, each in told.items() if at != handle}), "x")


@pytest.mark.parametrize(
    ("values", "mtu_bytes", "asked"),
    [
        ({"kind": "fq_codel", "parameters": {"ecn": False}}, 1500, False),  # the kernel's own is on
        ({"kind": "fq_codel", "parameters": {"ecn": True}}, 1500, True),
        ({"kind": "codel", "parameters": {"ecn": False, "ideal": False}}, 1500, True),
        ({"kind": "sfq"}, 1500, False),  # it would change the hash every 10 s
        ({"kind": "sfq", "parameters": {"perturb_ns": 0}}, 1500, False),
        ({"kind": "htb", "parameters": {"rate_bit_per_s": 10**7, "burst_bytes": 1564}}, 1500, True),
        ({"kind": "htb", "parameters": {"rate_bit_per_s": 10**7, "burst_bytes": 1563}}, 1500, False),
        ({"kind": "htb", "parameters": {"rate_bit_per_s": 10**7, "burst_bytes": 1564}}, 9000, False),
    ],
)
def test_open_vswitch_is_not_asked_for_what_it_would_put_its_own_in_place_of(
    values: dict[str, Any], mtu_bytes: int, asked: bool
) -> None:
    assert (qos_of(Queue.model_validate(values), None, mtu_bytes) is not None) is asked


@pytest.mark.parametrize(
    ("values", "keys"),
    [
        ({"kind": "sfq", "parameters": {"depth": 128}}, ["parameters.depth"]),
        ({"kind": "sfq", "parameters": {"depth": 127, "divisor": 1024, "flows": 65_408}}, []),
        ({"kind": "sfq", "parameters": {"divisor": 1000}}, ["parameters.divisor"]),
        ({"kind": "sfq", "parameters": {"divisor": 131_072}}, ["parameters.divisor"]),
        ({"kind": "sfq", "parameters": {"flows": 65_409}}, ["parameters.flows"]),
        ({"kind": "fq_codel", "parameters": {"quantum_bytes": 255}}, ["parameters.quantum_bytes"]),
        ({"kind": "fq_codel", "parameters": {"quantum_bytes": 256, "flows": 65_536}}, []),
        ({"kind": "fq_codel", "parameters": {"flows": 65_537}}, ["parameters.flows"]),
        ({"kind": "codel", "parameters": {"target_ns": 1000}}, ["parameters.target_ns"]),
        ({"kind": "codel", "parameters": {"target_ns": 20_000, "interval_ns": 10**8}}, []),
        ({"kind": "codel", "parameters": {"target_ns": 5_000_500}}, ["parameters.target_ns"]),
        (
            {
                "kind": "hfsc", "default": "b",
                "classes": {
                    "a": {"parameters": {"rt_m2_bit_per_s": 10**6}},
                    "b": {"parent": "a", "parameters": {"ls_m2_bit_per_s": 10**6}},
                },
            },
            ["classes.a.parameters"],
        ),
        (
            {
                "kind": "htb", "default": "a",
                "classes": {"a": {"parameters": {"rate_bit_per_s": 10**6, "prio": 8}}},
            },
            ["classes.a.parameters.prio"],
        ),
    ],
)  # fmt: skip
def test_what_the_kernel_would_put_another_value_in_place_of_is_refused_before_anything_is_built(
    values: dict[str, Any], keys: list[str]
) -> None:
    kernel = dict.fromkeys(("sfq", "codel", "fq_codel", "htb", "hfsc", "pfifo"))
    found = list(missing(Queue.model_validate(values), kernel))
    assert [key for key, _, _ in found] == keys
    assert all("'by: virtlab'" in cure for _, _, cure in found)
