"""Links that the timeline slows down or cuts: what of the kernel changes, and where nothing can."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.testbed.test_testbed_refusals import HERE

from virtlab.experiment import load_text
from virtlab.plan import Plan
from virtlab.planner import plan_run
from virtlab.testbed.build import link_refusals
from virtlab.testbed.build.lower import lower
from virtlab.testbed.play import cuts, rates

FILE = """\
version: 1
name: slowed
hosts:
  h1: {guests: 2, pushback: PUSHBACK}
  h2: {pushback: PUSHBACK}
topology: star
link: {rate: 100 Mbit/s, realise: REALISE}
roles: {probe: {workload: rtt, from: h1.g1, to: h2.g1, size: 100 B ip_packet, interval: 5 ms, count: 100}}
timeline:
  - {id: measure, do: run, role: probe}
  - {id: slow, do: set, link: h1-s1, parameter: rate, value: 25 Mbit/s, after: measure.started + 100 ms}
"""


def planned(realise: str, pushback: str = "uplink") -> Plan:
    experiment = load_text(FILE.replace("REALISE", realise).replace("PUSHBACK", pushback))
    return plan_run(experiment, experiment.points()[0], 0)


def held(plan: Plan) -> list[tuple[str, str, int, int]]:
    """Namespace, interface, rate and ceiling of classes that change."""
    found: list[Any] = list(rates.classes(plan, lower(plan), "h1-s1", 25_000_000))
    assert all((each.parent, each.handle) == ("1:", "1:1") for each in found)
    return [
        (each.namespace, each.link, *(each.discipline.options[key] for key in (rates.RATE, rates.CEIL)))
        for each in found
    ]


@pytest.mark.slow
def test_the_soft_switch_is_told_and_the_queue_in_front_of_the_wire_goes_with_it() -> None:
    plan = planned("soft_switch")
    place = lower(plan).uplinks["h1.up"]
    assert held(plan) == [(place.namespace, place.link, 25_000_000, 25_000_000)]
    assert held(planned("soft_switch", "none")) == []
    assert held(planned("soft_switch", "guest")) == [], "a vNIC keeps its rate"


@pytest.mark.parametrize("pushback", ["uplink", "none", "guest"])
def test_what_shapes_either_direction_of_a_link_gets_the_rate_and_nothing_else(pushback: str) -> None:
    plan = planned("shaping", pushback)
    found = held(plan)
    place = lower(plan).uplinks["h1.up"]
    assert {each[:2] for each in found} == {
        (place.namespace, place.link),
        ("fabric", lower(plan).fabric_ports["h1.up"]),
    }
    assert len(found) == 2
    assert {each[2:] for each in found} == {(25_000_000, 25_000_000)}


def test_netem_keeps_its_rate_and_the_cure_is_told() -> None:
    found = {each.path: each for each in link_refusals.links(planned("netem"), HERE)}
    assert "keeps the rate" in found["timeline.slow.link"].reason
    assert found["timeline.slow.link"].cure == "write 'realise: soft_switch' or 'realise: shaping'"
    for realise in ("soft_switch", "shaping"):
        assert not list(link_refusals.links(planned(realise), HERE))


def test_a_link_that_is_cut_is_told_to_the_soft_switch_or_has_both_its_queues_replaced() -> None:
    text = FILE.replace("PUSHBACK", "uplink").replace("rate, value: 25 Mbit/s", "state, value: down")

    def lowered(realise: str, queue: str = "fifo") -> Any:
        own = text.replace("REALISE", f"{realise}, queue: {{kind: {queue}, limit: 50 packet}}")
        experiment = load_text(own)
        plan = plan_run(experiment, experiment.points()[0], 0)
        return plan, {each.path: each for each in link_refusals.links(plan, HERE)}

    plan, refused = lowered("soft_switch")
    assert not refused
    request = lower(plan).soft_switch
    assert request is not None
    assert {name for name, link in request.links.items() if link["cuts"]} == {"h1-s1"}
    plan, refused = lowered("shaping")
    assert not refused
    found = list(cuts.in_front(lower(plan), "h1-s1"))
    place = lower(plan).uplinks["h1.up"]
    ports = {(place.namespace, place.link), ("fabric", lower(plan).fabric_ports["h1.up"])}
    assert {(each.namespace, each.link) for each in found} == ports
    assert {(each.parent, each.handle) for each in found} == {("1:1", "10:")}
    assert {each.discipline.options["limit_packets"] for each in map(cuts.dead, found)} == {0}
    plan, refused = lowered("shaping", "codel")
    assert "begin at zero" in refused["timeline.slow.link"].reason
    plan, refused = lowered("netem")
    assert "loses nothing" in refused["timeline.slow.link"].reason
