"""What Open vSwitch has of a bridge, compared with what it was given. Pure: it reads what its tools print.

A port's number is a wish that the switch need not grant (`ofport_request`), and rules go by it. Rules are compared by
Open vSwitch itself (`ovs-ofctl diff-flows SWITCH FILE`), which has other words for many of them than they were given
in: a line with `-` is a rule that only the switch has, one with `+` a rule that only the file has.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from typing import Any

from virtlab.testbed.vswitches.ovs_rules import OvsBridge

COLUMNS = ("name", "ofport", "error")
PORT_COLUMNS = ("name", "protected")
SHOWN = 3  # rules of a kind that an error quotes


def port_differences(bridge: OvsBridge, ports: Collection[str], words: str) -> Iterator[str]:
    """What is otherwise at the ports, in words.

    `ports`: of `ovs-vsctl list-ports`; `words`: of `ovs-vsctl --format=json --columns=COLUMNS list interface`.
    """
    told = json.loads(words)
    rows = (dict(zip(told["headings"], row, strict=True)) for row in told["data"])
    found = {row["name"]: row for row in rows}
    own = found.get(bridge.link, {})
    if error := _value(own.get("error")):
        yield f"has its own port {bridge.link} with an error: {error}"
    for number, port in enumerate(bridge.ports, start=1):
        row = found.get(port.link) if port.link in ports else None
        if row is None:
            yield f"lacks port {port.link}"
        elif error := _value(row["error"]):
            yield f"has port {port.link} with an error: {error}"
        elif (has := _value(row["ofport"])) != number:
            yield f"has port {port.link} as number {has or 'none'}, not {number} as its rules say"


def isolation_differences(bridge: OvsBridge, words: str) -> Iterator[str]:
    """Which ports are isolated that should not be, or the other way round, in words.

    `words`: of `ovs-vsctl --format=json --columns=PORT_COLUMNS list port`.

    >>> from virtlab.testbed.vswitches.ovs_rules import Port
    >>> told = '{"headings": ["name", "protected"], "data": [["a", false]]}'
    >>> list(isolation_differences(OvsBridge("host:h", "br", ports=[Port("a", isolated=True)]), told))
    ['has port a as one that is not isolated']
    """
    protected = {name for name, isolated in json.loads(words)["data"] if isolated}
    for port in bridge.ports:
        if (port.link in protected) is not port.isolated:
            yield f"has port {port.link} as one that is {'not ' if port.isolated else ''}isolated"


def _value(column: Any) -> Any:
    """A column that may be empty; nothing is an empty set."""
    return None if column == ["set", []] else column


def rule_differences(words: str) -> Iterator[str]:
    """What is otherwise with the rules, in words. `words`: what `ovs-ofctl diff-flows SWITCH FILE` printed.

    >>> list(rule_differences("-priority=9,in_port=1 actions=drop\\n+priority=0 actions=NORMAL\\n"))
    ['has a rule that it was not given: priority=9,in_port=1 actions=drop', 'lacks the rule priority=0 actions=NORMAL']
    """
    for sign, what in (("-", "has a rule that it was not given:"), ("+", "lacks the rule")):
        rules = [line[1:].strip() for line in words.splitlines() if line.startswith(sign)]
        yield from (f"{what} {rule}" for rule in rules[:SHOWN])
        if len(rules) > SHOWN:
            yield f"and {len(rules) - SHOWN} more of these"
