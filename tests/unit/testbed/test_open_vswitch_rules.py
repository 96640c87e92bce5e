"""Rules of an Open vSwitch, as its own tool reads them."""

from __future__ import annotations

import pytest

from virtlab.testbed.vswitches.ovs_rules import OvsBridge, Port, rules

MAC = "02:00:00:00:00:01"


def bridge(*, own_entries: bool, isolated: bool = False, addresses: bool = True) -> OvsBridge:
    """Two ports of guests and an uplink."""
    ports = [Port("a", isolated=isolated), Port("b", isolated=isolated), Port("up")]
    made = OvsBridge("host:h1", "br", own_entries=own_entries, static=addresses, ports=ports)
    if addresses:
        made.addresses[MAC] = "a"
    return made


@pytest.mark.parametrize("isolated", [False, True])
@pytest.mark.parametrize("addresses", [False, True])
def test_whatever_sends_a_frame_on_looks_at_all_of_it_where_flows_have_entries_of_their_own(
    addresses: bool, isolated: bool
) -> None:
    given = rules(bridge(own_entries=True, isolated=isolated, addresses=addresses))
    sending = [rule for rule in given if not rule.endswith("actions=drop")]
    assert sending[-1].startswith("priority=0,actions=multipath(symmetric_l4,")
    assert sending[-1].endswith(",NORMAL")
    assert all(rule.count("multipath(") == 2 for rule in sending)
    assert len(sending) == 1 + addresses


def test_flows_share_an_entry_where_nothing_is_asked() -> None:
    for addresses in (False, True):
        given = rules(bridge(own_entries=False, isolated=True, addresses=addresses))
        assert not any("multipath" in rule for rule in given)
        assert given[-1] == "priority=0,actions=NORMAL"
