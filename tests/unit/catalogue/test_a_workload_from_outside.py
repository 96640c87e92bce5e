"""A workload is one declaration: a file may name it, every query answers for it, and an arm without it refuses it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.outside import MORSE
from tests.unit.testbed.test_testbed_refusals import HERE

from virtlab.analysis.workloads import values_of
from virtlab.catalogue import WORKLOADS, measuring
from virtlab.experiment import load
from virtlab.plan import Plan
from virtlab.planner import plan_run
from virtlab.simulator.limits import refusals as of_simulator
from virtlab.testbed.refusals import refusals as of_testbed

FILE = """\
version: 1
name: telegraph
hosts: 1
host: {guests: 2}
topology: none
roles:
  line: {workload: morse, from: h1.g1, to: h1.g2, duration: 3 s}
timeline:
  - {id: send, do: run, role: line}
repeat: 3
claims:
  - {id: brisk, text: "line.transaction_time.mean < 1 s"}
"""


@pytest.fixture
def telegraph(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    monkeypatch.setitem(WORKLOADS, MORSE.name, MORSE)
    path = tmp_path / "telegraph.yaml"
    path.write_text(FILE, encoding="utf-8")
    experiment = load(path)
    return plan_run(experiment, experiment.points()[0], 0)


def test_a_file_may_name_it_and_claim_what_it_measures(telegraph: Plan) -> None:
    assert telegraph.roles["line"].parameters["duration_ns"] == 3 * 10**9
    assert MORSE.name in measuring("transaction_time")
    assert values_of(MORSE.name) is None  # its samples stay in the dataset


def test_an_arm_that_does_not_play_it_says_why_in_one_line(telegraph: Plan) -> None:
    for found in (of_testbed(telegraph, HERE), of_simulator(telegraph)):
        (refusal,) = found
        assert refusal.path == "roles.line.workload"
        assert any(why in refusal.reason for why in MORSE.arms.values() if why)
        assert "\n" not in f"{refusal.reason}{refusal.cure}"


def test_an_arm_that_lacks_what_was_declared_as_played_refuses_it_too(
    telegraph: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(WORKLOADS, MORSE.name, replace(MORSE, arms={"simulator": None}))
    (refusal,) = of_testbed(telegraph, HERE)
    assert refusal.path == "roles.line.workload"
    (refusal,) = of_simulator(telegraph)
    assert (refusal.path, refusal.reason) == (
        "roles.line.workload",
        "the simulator has no workload 'morse'",
    )


def test_a_probe_that_lacks_what_its_testbed_declares_has_it_refused_before_anything_is_built(
    telegraph: Plan, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(WORKLOADS, MORSE.name, replace(MORSE, arms={"testbed": None}))
    (refusal,) = of_testbed(telegraph, replace(HERE, probe_workloads=("rtt", "tcp_rr")))
    assert (refusal.path, refusal.cure) == ("roles.line.workload", "write one of rtt, tcp_rr")
