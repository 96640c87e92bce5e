"""What Open vSwitch tells of a bridge against what it was told: the ports' numbers, which rules go by, and the
rules.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from virtlab.testbed.vswitches.ovs_applied import COLUMNS, SHOWN, port_differences, rule_differences
from virtlab.testbed.vswitches.ovs_rules import OvsBridge, Port

BRIDGE = OvsBridge("host:h1", "br", ports=[Port("tap0"), Port("tap1"), Port("up")])
NOTHING = ["set", []]
AS_TOLD = {"br": (65534, NOTHING), "tap0": (1, NOTHING), "tap1": (2, NOTHING), "up": (3, NOTHING)}


def differences(interfaces: dict[str, tuple[Any, Any]], ports: set[str] | None = None) -> list[str]:
    """In words; a second bridge of the host stands in the same table."""
    rows = [[name, *values] for name, values in (interfaces | {"other": (-1, "no such device")}).items()]
    said = json.dumps({"headings": list(COLUMNS), "data": rows})
    return list(port_differences(BRIDGE, ports or {"tap0", "tap1", "up"}, said))


def test_ports_with_the_numbers_that_were_asked_for_are_as_told() -> None:
    assert differences(AS_TOLD) == []


@pytest.mark.parametrize(
    ("interfaces", "ports", "what"),
    [
        ({"tap0": (2, NOTHING), "tap1": (1, NOTHING)}, None, [
            "has port tap0 as number 2, not 1 as its rules say",
            "has port tap1 as number 1, not 2 as its rules say",
        ]),
        ({"up": (NOTHING, NOTHING)}, None, ["has port up as number none, not 3 as its rules say"]),
        ({"up": (-1, "could not open network device up (No such device)")}, None, [
            "has port up with an error: could not open network device up (No such device)",
        ]),
        ({"br": (-1, "no tun")}, None, ["has its own port br with an error: no tun"]),
        ({}, {"tap0", "tap1"}, ["lacks port up"]),
    ],
)  # fmt: skip
def test_a_port_that_is_not_as_told_is_named(
    interfaces: dict[str, tuple[Any, Any]], ports: set[str] | None, what: list[str]
) -> None:
    assert differences(AS_TOLD | interfaces, ports) == what


def test_a_port_without_an_interface_is_one_that_it_lacks() -> None:
    assert differences({name: each for name, each in AS_TOLD.items() if name != "tap1"}) == [
        "lacks port tap1"
    ]


def test_each_kind_of_difference_between_rules_is_told_and_not_without_end() -> None:
    assert list(rule_differences("")) == []
    changed = "-priority=100,in_port=3 actions=output:1\n+priority=100,in_port=3 actions=output:2\n"
    assert list(rule_differences(changed)) == [
        "has a rule that it was not given: priority=100,in_port=3 actions=output:1",
        "lacks the rule priority=100,in_port=3 actions=output:2",
    ]
    many = list(rule_differences("".join(f"+priority={number} actions=drop\n" for number in range(10))))
    assert len(many) == SHOWN + 1
    assert many[-1] == f"and {10 - SHOWN} more of these"
