"""A claim in words: whoever does not know the grammar of claims reads what was asked."""

from __future__ import annotations

from typing import get_args

import pytest

from virtlab.analysis.claims import PublishedReference, parse_claim
from virtlab.analysis.claims.nouns import Relation
from virtlab.analysis.claims.words import in_words
from virtlab.errors import ExperimentError
from virtlab.experiment import load_text

PUBLISHED = PublishedReference("study.csv", "rtt_mean", level_column="qdisc")
WORDS = {
    "load.loss.ratio <= 2 %": "Loss of load is at most 2 %",
    "probe.rtt.p99 between 1 ms and 2 ms": "99th percentile of RTT of probe is between 1 and 2 ms",
    "probe.rtt.median: switches 2 - 1 within 244.16 us +- 10 % where load = 0 B": "Median of RTT of probe with switches 2, "
    "less that with 1, is 244.2 µs, give or take 10 %, where load is 0 B",
    "probe.rtt.mean: qdisc fifo > {sfq, codel} where vswitch = ovs": "RTT of probe is higher with qdisc fifo than with "
    "sfq or codel where vswitch is ovs",
    "flows.ndr.found: vnic virtio > e1000 at worst J": "Throughput without loss of flows is higher with vnic virtio than "
    "with e1000 at the worst J of each",
    "probe.rtt.mean: a < b < c": "RTT of probe is lower with a than with b, and lower with b than with c",
    "probe.rtt.mean: a < b at low load and > at high load": "RTT of probe is lower with a than with b at the low load, and "
    "higher at the high load",
    "probe.rtt.mean: qdisc equivalent within 5 %": "RTT of probe is the same at every qdisc, within 5 %",
    "probe.rtt.mean: a ~ b within 2 % averaged over qdisc": "RTT of probe is the same with a and b, within 2 %, averaged "
    "over qdisc",
    "probe.rtt.mean grows steadily with load": "RTT of probe grows steadily with load",
    "probe.rtt.mean is linear in load within 5 %": "RTT of probe is linear in load, within 5 %",
    "probe.rtt.mean is constant over load within 10 %": "RTT of probe is constant over load, within 10 %",
    "probe.rtt.mean exceeds 1 ms from load 10 kB to 30 kB": "RTT of probe exceeds 1 ms from load 10 kB to 30 kB on",
    "probe.rtt.mean: qdisc ordered as published": "RTT of probe is ordered over qdisc as published",
}


@pytest.mark.parametrize("text", WORDS)
def test_a_claim_without_a_title_is_put_into_words(text: str) -> None:
    assert in_words(parse_claim(text, published=PUBLISHED)) == WORDS[text]


def test_every_form_of_a_claim_has_words() -> None:
    forms = {type(parse_claim(text, published=PUBLISHED).relation) for text in WORDS}
    assert forms == set(get_args(Relation))


FILE = """\
version: 1
name: one
hosts: 2
topology: line
roles:
  probe: {workload: rtt, from: h1.g1, to: h2.g1, size: 100 B ip_packet, interval: 1 ms, count: 10}
claims:
  - {title: %s, text: probe.rtt.mean <= 1 ms}
"""


def test_a_title_stands_in_the_place_of_virtlabs_own_words() -> None:
    (claim,) = load_text(FILE % "The probe is fast").claims
    assert in_words(claim.parsed()) == "The probe is fast"


def test_a_title_that_is_no_text_is_a_mistake() -> None:
    with pytest.raises(ExperimentError, match=r"claims\[0\].title: is not a title; write the claim in words"):
        load_text(FILE % "[]")
