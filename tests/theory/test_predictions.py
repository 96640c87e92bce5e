"""Terms of a prediction add up to it, and to the closed forms; costs of a profile arrive where they are paid."""

from __future__ import annotations

from pathlib import Path

import pytest

from virtlab.errors import ExperimentError
from virtlab.experiment import Experiment, load_text
from virtlab.metrics import MetricPath
from virtlab.prediction.questions.explain import explain
from virtlab.prediction.simulation.simulate import simulate
from virtlab.simulator.profile import IDEAL_PROFILE, Parameter, Profile, Quantiles, load_profile

RTT = MetricPath.parse("probe.rtt.mean")


def echoes(switches: int, load: str = "0 B", more: str = "") -> Experiment:
    return load_text(
        f"""
version: 1
name: echoes
title: Echoes over switches
hosts: 2
host: {{guests: 2}}
topology: {{shape: line, switches: {switches}}}
switch: {{processing: 10 us}}
link: {{rate: 100 Mbit/s, propagation: 5 us}}
roles:
  probe: {{workload: rtt, from: h1.g1, to: h2.g1, size: 1500 B ip_packet, interval: 10.3 ms, count: 20{more}}}
  load: {{workload: burst_load, from: h1.g2, to: h2.g2, burst: {load}, period: 10 ms, phase: random}}
repeat: 2
"""
    )


def constant(ns: float) -> Quantiles:
    return Quantiles((0.0, 1.0), (ns, ns))


COSTLY = Profile(
    "made-up",
    2,
    {
        "platform.namespace.send_ns": Parameter(5000),
        "platform.namespace.message_ns": Parameter(1000),
        "platform.namespace.crossing_ns": Parameter(300),
        "platform.namespace.crossing_byte_ns": Parameter(0),
        "vswitch.linux_bridge.packet_ns": Parameter(700),
        "links.departure_ns": Parameter(2000),
    },
    {"wakeup.sleep": constant(20_000), "links.lateness": constant(1500)},
)


@pytest.mark.slow
@pytest.mark.parametrize(("switches", "serialisation_ns"), [(1, 488_320), (2, 732_480)])
def test_the_terms_of_an_echo_are_the_closed_forms_and_add_up(switches: int, serialisation_ns: int) -> None:
    terms, total = explain(echoes(switches), COSTLY, RTT, 0, repetitions=2)
    found = {term.name: term.estimate.point for term in terms}
    assert found["serialisation"] == serialisation_ns
    assert found["propagation"] == 2 * 5000 * (switches + 1)
    assert found["switches: processing"] == 2 * 10_000 * switches
    assert found["queueing behind other traffic"] == 0
    assert found["virtual switches"] == 4 * 700
    assert found["links: departures and lateness"] == 2 * 3500
    assert found["guests: vNICs"] == 4 * 300
    assert found["guests: processes and wake-ups"] == 5000 + 20_000 + 1000
    assert total.point == pytest.approx(sum(found.values()), abs=1e-6)


@pytest.mark.slow
def test_an_answer_by_a_process_costs_a_wake_up_and_a_call_more_than_one_by_the_kernel() -> None:
    by_kernel, by_process = (
        simulate(echoes(1, more=more), COSTLY, repetitions=2).values(RTT) for more in ("", ", protocol: udp")
    )
    assert by_process[0] - by_kernel[0] == 20_000 + 1000 + 5000


@pytest.mark.slow
def test_queueing_is_a_term_of_its_own_and_the_sum_still_holds() -> None:
    terms, total = explain(echoes(1, "30 kB"), COSTLY, RTT, 0, repetitions=3)
    found = {term.name: term.estimate.point for term in terms}
    assert found["queueing behind other traffic"] > 0
    assert total.point == pytest.approx(sum(found.values()), abs=1e-3)


@pytest.mark.slow
def test_equal_seeds_draw_equal_delays() -> None:
    drawn = Profile(
        "d", 2, COSTLY.parameters, {"wakeup.sleep": Quantiles((0.0, 0.9, 1.0), (0, 9000, 80_000))}
    )
    first, second = (simulate(echoes(1, "30 kB"), drawn, repetitions=2).values(RTT) for _ in range(2))
    assert first == second
    assert len(set(first)) == 2


def test_a_profile_survives_its_file(tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    path.write_text(COSTLY.text(), encoding="utf-8")
    assert load_profile(str(path)).identity == COSTLY.identity
    assert load_profile("ideal") is IDEAL_PROFILE


@pytest.mark.parametrize(
    "text",
    [
        'schema = "virtlab.profile/9"',
        'schema = "virtlab.profile/1"\nname = "x"\nprocessors = 0',
        'schema = "virtlab.profile/1"\nname = "x"\nprocessors = 1\n[parameters."links.departure_ns"]\nvalue = -1',
        (
            'schema = "virtlab.profile/1"\nname = "x"\nprocessors = 1\n'
            '[tables."wakeup.sleep"]\nprobability = [0.0, 1.0]\nns = [9.0, 3.0]'
        ),
    ],
)
def test_a_file_that_is_no_profile_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "p.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ExperimentError, match="is not a profile"):
        load_profile(str(path))


def test_a_platform_that_the_profile_does_not_know_is_refused() -> None:
    empty = Profile("empty", 1, {"links.departure_ns": Parameter(1)})
    with pytest.raises(ExperimentError, match=r"no costs of platform\.namespace"):
        simulate(echoes(1), empty, repetitions=2)
