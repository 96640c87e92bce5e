"""The page says which files only the testbed runs: every kind of theirs with its reason, and those of the studies."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.unit.simulator.test_simulator_takes_every_file import ELSEWHERE

from virtlab.catalogue import ACTIONS, PLATFORMS, QDISCS, SERVICES, VSWITCHES, WORKLOADS
from virtlab.catalogue.declaration import Declared
from virtlab.experiment import load_text
from virtlab.planner import plan_run
from virtlab.simulator import Simulator

PAGE = Path(__file__).parents[3] / "docs/reference/simulator.md"
KINDS: Mapping[str, Mapping[str, Declared]] = {
    "workload": WORKLOADS, "platform": PLATFORMS, "virtual switch": VSWITCHES, "discipline": QDISCS,
    "action": ACTIONS, "service": SERVICES,
}  # fmt: skip
HOSTS = "hosts: 2\ntopology: line\n"
PROBE = "  probe: {workload: rtt, from: h1.g1, to: h2.g1}\n"
FILES = {  # each has one kind of the page, and nothing else that is refused
    "workload http_get": f"{HOSTS}roles:\n{PROBE}  web: {{workload: http_get, from: h1.g1, to: h2.g1}}\n",
    "workload program": f"{HOSTS}roles:\n{PROBE}"
    "  own: {workload: program, from: h1.g1, to: h2.g1, argv: [echo, 1 ms], metrics: "
    "{t: {unit: ms, better: lower, regex: '(?P<t>[0-9]+) ms'}}}\n",
    "workload files": f"{HOSTS}roles:\n{PROBE}  disk: {{workload: files, from: h1.g1, operations: create}}\n",
    "platform ssh": "hosts: {h1: {platform: ssh, address: a}, h2: {platform: ssh, address: b}}\n"
    "roles: {probe: {workload: rtt, from: h1.g1, to: h2.g1}}\n",
    "platform libvirt": "hosts: {h1: {platform: libvirt, domain: a, address: a}, h2: {platform: libvirt, domain: b, "
    "address: b}}\nroles: {probe: {workload: rtt, from: h1.g1, to: h2.g1}}\n",
    "service program": f"{HOSTS}services: {{own: {{kind: program, on: [h1.g1], argv: [sleep, '9']}}}}\nroles:\n{PROBE}",
}


def only_on_the_testbed() -> Iterator[tuple[str, str, str]]:
    """Sort of kind, name, and why the simulator does not play it."""
    for word, entries in KINDS.items():
        for name, entry in entries.items():
            why = entry.arms.get("simulator", "nothing plays it there")
            if entry.arms.get("testbed", "not") is None and why is not None:
                yield word, name, why


def test_the_page_has_every_kind_that_only_the_testbed_plays() -> None:
    text = PAGE.read_text()
    begin = text.index("| kind | why |")
    rows = re.findall(
        r"^\| ([a-z ]+) `(\S+)` \| (.+) \|$", text[begin : text.index("\n\n", begin)], re.MULTILINE
    )
    assert rows == list(only_on_the_testbed())


def test_the_page_has_the_files_of_the_studies() -> None:
    section = PAGE.read_text().partition("## What is refused")[2].partition("| kind | why |")[0]
    assert set(re.findall(r"\(../../experiments/(\S+)\)", section)) == set(ELSEWHERE)


@pytest.mark.parametrize("name", FILES)
def test_a_file_with_such_a_kind_is_refused_for_it(name: str) -> None:
    experiment = load_text("version: 1\nname: t\n" + FILES[name])
    found = Simulator().check(plan_run(experiment, experiment.points()[0], 0))
    assert found
    why = next(why for word, kind, why in only_on_the_testbed() if f"{word} {kind}" == name)
    assert any(why.partition(";")[0] in refusal.reason for refusal in found), found
