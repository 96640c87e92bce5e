"""Classes and match rules of a queue: what the file may say, what is a mistake, and what the Plan then holds."""

from __future__ import annotations

import pytest

from virtlab.experiment import load_text
from virtlab.experiment.read.mistakes import FileMistakesError
from virtlab.planner import plan_run

FILE = """version: 1
name: classes
hosts: 2
topology: line
link: {rate: 100 Mbit/s, queue: QUEUE}
roles: {probe: {workload: rtt, from: h1.g1, to: h2.g1}}
repeat: 1
"""


def queue(text: str):
    experiment = load_text(FILE.replace("QUEUE", text))
    return plan_run(experiment, experiment.points()[0], 0).world.links["h1-s1"].queue.ab


def mistake(text: str) -> str:
    with pytest.raises(FileMistakesError) as caught:
        load_text(FILE.replace("QUEUE", text))
    return str(caught.value)


def test_a_plan_holds_classes_rules_and_the_default() -> None:
    made = queue(
        "{kind: htb, classes: {all: {rate: 90 Mbit/s}, voice: {parent: all, rate: 10 Mbit/s, prio: 1}, "
        "rest: {parent: all, rate: 80 Mbit/s}}, default: rest, "
        "match: [{class: voice, dscp: [EF, 10], protocol: udp, to_port: 5004-5010, from: 10.0.0.0/24}]}"
    )
    assert made.classes["voice"].parent == "all"
    assert made.classes["voice"].parameters == {"rate_bit_per_s": 10_000_000, "prio": 1}
    rule = made.match[0]
    assert (rule.class_, rule.dscp, rule.protocol) == ("voice", (46, 10), 17)
    assert (rule.destination_port, rule.source, made.default) == ((5004, 5010), "10.0.0.0/24", "rest")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("{kind: prio}", "prio has no classes"),
        ("{kind: drr, classes: {a: {}}}", "'default' is missing"),
        ("{kind: drr, classes: {a: {}}, default: b}", "there is no class 'b'"),
        ("{kind: drr, classes: {a: {}}, default: a, match: [{class: b}]}", "there is no class 'b'"),
        ("{kind: drr, classes: {a: {parent: a}}, default: a}", "'parent' is not a key of a drr class"),
        ("{kind: htb, classes: {a: {}}, default: a}", "'rate' of the class is missing"),
        (
            "{kind: htb, classes: {a: {rate: 1 Mbit/s, prio: 8}}, default: a}",
            "classes.a.prio: '8' is not a priority of a class; write 0 (the first, and the default) to 7",
        ),
        (
            "{kind: htb, classes: {a: {rate: 1 Mbit/s}, b: {rate: 2 Mbit/s, parent: a}}, default: b}",
            "the rates of its children add up to 2000000 bit/s",
        ),
        (
            "{kind: htb, classes: {a: {rate: 1 Mbit/s, parent: b}, b: {rate: 1 Mbit/s, parent: a}}, default: b}",
            "its ancestors go in a circle",
        ),
        (
            "{kind: htb, classes: {a: {rate: 2 Mbit/s, ceil: 1 Mbit/s}}, default: a}",
            "the ceiling is below the rate",
        ),
        (
            "{kind: drr, classes: {a: {}}, default: a, match: [{class: a, protocol: icmp, to_port: 7}]}",
            "the protocol has no ports",
        ),
        ("{kind: drr, classes: {a: {}}, default: a, match: [{class: a, pcp: 8}]}", "not an 802.1p priority"),
        ("{kind: drr, classes: {a: {}}, default: a, match: [{class: a, dscp: 64}]}", "is not a DSCP"),
        ("{kind: drr, classes: {a: {}}, default: a, match: [{class: a, flow: 5 of 4}]}", "not a share"),
        ("{kind: drr, classes: {a: {}}, default: a, match: [{class: a, colour: 1}]}", "nothing to match"),
    ],
)
def test_a_mistake_of_classes_is_one_clear_error(text: str, told: str) -> None:
    assert told in mistake(text)
