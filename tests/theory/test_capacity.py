"""How far one can go is what closed forms say, with the resource that stands in the way."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.theory.test_effects_and_uncertainty import unsure
from typer.testing import CliRunner

from virtlab.cli.prediction.capacity import app
from virtlab.errors import ExperimentError
from virtlab.experiment import Experiment, load_text
from virtlab.experiment.overrides import at_level, find_input, grid
from virtlab.planner import plan_run
from virtlab.prediction.questions.capacity import Capacity, Question, ordered_levels, sizes
from virtlab.prediction.questions.limits import parse_limits
from virtlab.simulator.profile import IDEAL_PROFILE

FILE = """
version: 1
name: reach
factors: {{load: [0 B, 30 kB, 60 kB]}}
hosts: 2
host: {{guests: 2}}
topology: {{shape: line, switches: 1}}
link: {{rate: 100 Mbit/s}}
{links}
roles:
  probe: {{workload: rtt, from: h1.g1, to: h2.g1, size: 1500 B ip_packet, interval: 10.3 ms, count: 20}}
  stream: {{workload: udp_stream, from: h1.g1, to: h2.g1, size: 1472 B payload, rate: 20 Mbit/s, duration: 300 ms}}
  load: {{workload: burst_load, from: h1.g2, to: h2.g2, burst: "${{load}}", period: 10 ms, phase: random}}
exclude: [{{load: [60 kB]}}]
claims: [probe.rtt.mean grows with load]
repeat: 2
"""


def reach(last_rate: str = "") -> Experiment:
    return load_text(FILE.format(links=f"links: {{s1-h2: {{rate: {last_rate}}}}}" if last_rate else ""))


def asked(experiment: Experiment, vary: str, *limits: str, **range_: str) -> Capacity:
    one = find_input(experiment, vary)
    levels, open_end = ordered_levels(
        one, first=range_.get("first"), last=range_.get("last"), step=range_.get("step")
    )
    parsed = parse_limits(limits, experiment.role_workloads(), "--until")
    others = {} if vary == "load" else {"load": "0 B"}
    return Question(experiment, IDEAL_PROFILE, one, levels, others, parsed, open_end=open_end).answer()


@pytest.mark.slow
@pytest.mark.parametrize("last", [None, "40"])
def test_the_most_switches_of_a_delay_are_those_of_the_closed_form(last: str | None) -> None:
    found = asked(reach(), "switches", "probe.rtt.mean < 1.5 ms", **({"last": last} if last else {}))
    # (1 + n) links of 122.08 us each way: 5 switches make 1464.96 us, 6 make 1709.12 us.
    assert (found.largest, found.smallest_broken) == ("5", "6")
    assert found.violations == ()
    assert found.growth[0].name == "serialisation"
    assert found.growth[0].by == pytest.approx(244_160)
    assert found.growth[0].share == pytest.approx(1.0)
    assert found.simulations <= 50


@pytest.mark.slow
def test_the_answer_holds_for_what_the_parameters_may_be_and_says_how_many_simulations_that_took() -> None:
    send = unsure(1000, 9000)  # 4 us either way at 95 %, once per echo
    experiment = reach()
    switches = find_input(experiment, "switches")
    roles = experiment.role_workloads()
    levels, _ = ordered_levels(switches, first=None, last="6", step=None)

    def answer(limit: str, draws: int) -> Capacity:
        limits = parse_limits([limit], roles, "--until")
        return Question(experiment, send, switches, levels, {"load": "0 B"}, limits, draws=draws).answer()

    level = next(each for each in answer("probe.rtt.mean < 1 s", 0).levels if each.text == "6")
    assert level.estimates[0] is not None
    three = level.estimates[0].point - 3 * 244_160
    near = f"probe.rtt.mean < {three + 1000} ns"  # 1 us above what three switches take
    exact, unsettled = answer(near, 0), answer(near, 8)
    assert (exact.largest, exact.smallest_broken, exact.drawn) == ("3", "4", 0)
    assert (unsettled.largest, unsettled.smallest_broken, unsettled.undecided) == ("2", "4", ("3",))
    assert unsettled.drawn == 8 * len(unsettled.levels)
    assert unsettled.simulations <= 60


@pytest.mark.slow
def test_the_most_load_of_a_stream_is_the_slowest_line_which_is_named() -> None:
    found = asked(
        reach("50 Mbit/s"), "stream.rate", "stream.goodput.mean >= 20 Mbit/s", "stream.loss.ratio <= 0 %",
        first="30 Mbit/s", last="90 Mbit/s", step="5 Mbit/s",
    )  # fmt: skip
    # 1500 B of IP take 1538 B of the wire: 50 Mbit/s carry 48.76 Mbit/s of packets; the queue holds 100 packets more.
    assert found.largest in {"45 Mbit/s", "50 Mbit/s"}
    assert found.broken is not None
    assert found.broken.path.metric == "loss"
    assert found.saturated
    assert found.saturated[0].name == "links.s1-h2.ab"
    assert found.saturated[0].busy_ratio > 0.9


@pytest.mark.slow
def test_guests_that_carry_a_load_each_fill_the_line_that_they_share() -> None:
    text = FILE.format(links="").replace("load: [0 B, 30 kB, 60 kB]", "load: [10 kB]")
    for line in ("exclude: [{load: [60 kB]}]\n", "claims: [probe.rtt.mean grows with load]\n"):
        text = text.replace(line, "")
    experiment = load_text(text)
    guests = find_input(experiment, "guests")
    assert guests.now == "2"
    seven = at_level({guests: "7"}, ["load"])
    roles = seven.role_workloads()
    assert [name for name in roles if name.startswith("load")] == [
        "load",
        *(f"load-g{n}" for n in range(3, 8)),
    ]
    one = at_level({guests: "1"}, ["load"])
    assert not one.study(one.points()[0]).roles["load"].active
    limits = parse_limits(["load.loss <= 0 %"], experiment.role_workloads(), "--until")
    levels, open_end = ordered_levels(guests, first="2", last=None, step=None)
    found = Question(
        experiment,
        IDEAL_PROFILE,
        guests,
        levels,
        {"load": "10 kB"},
        limits,
        runs_max=8,
        open_end=open_end,
        carrying=["load"],
    ).answer()
    # 10 kB per 10 ms and guest are 8.3 Mbit/s of wire: 12 guests carry 100 Mbit/s, so 13 guests are one too few to fill
    # it.
    assert found.largest is not None
    assert 9 <= int(found.largest) <= 13
    assert found.saturated


@pytest.mark.slow
def test_levels_between_those_of_the_file_are_simulated_as_if_the_file_held_them() -> None:
    experiment = reach()
    load = find_input(experiment, "load")
    assert [point.levels for point in at_level({load: "45 kB"}).points()] == [{"load": "45 kB"}]
    (again,) = at_level({load: "30 kB"}).points()
    (own,) = [point for point in experiment.points() if point.levels["load"] == "30 kB"]
    new, old = plan_run(at_level({load: "30 kB"}), again, 1), plan_run(experiment, own, 1)
    assert new.identity() == old.identity()


@pytest.mark.parametrize(
    ("reference", "place"),
    [
        ("guests", "host.guests"), ("topology.switches", "topology.switches"), ("link.propagation", "link.propagation"),
        ("stream.rate", "roles.stream.rate"), ("load.streams", "roles.load.streams"), ("load", "load"),
    ],
)  # fmt: skip
def test_an_input_is_named_as_the_file_names_things(reference: str, place: str) -> None:
    assert find_input(reach(), reference).label == place


@pytest.mark.parametrize(
    ("reference", "says"),
    [
        ("nothing", "is not an input of the file"), ("size", "could be several inputs"),
        ("burst", "is given by the factor 'load'"),
        ("links", "is not an input"), ("roles.probe.size.x", "is not an input"),
    ],
)  # fmt: skip
def test_what_is_no_input_is_said_with_a_cure(reference: str, says: str) -> None:
    with pytest.raises(ExperimentError, match=says) as raised:
        find_input(reach(), reference)
    assert raised.value.cure


@pytest.mark.slow
def test_a_level_that_the_file_does_not_allow_is_refused_with_its_place() -> None:
    experiment = reach()
    with pytest.raises(ExperimentError, match=r"roles\.probe\.count = 0: roles\.probe\.count"):
        at_level({find_input(experiment, "probe.count"): "0"})


@pytest.mark.slow
def test_a_level_that_every_combination_excludes_is_refused() -> None:
    with pytest.raises(ExperimentError, match="exclusions leave no design point"):
        at_level({find_input(reach(), "load"): "60 kB"})


def test_limits_without_a_role_hold_for_every_measuring_role_that_has_the_metric() -> None:
    roles = {"probe": "rtt", "load": "burst_load", "stream": "udp_stream"}
    assert [str(one) for one in parse_limits(["rtt.p99 < 5 ms"], roles, "--until")] == [
        "probe.rtt.p99 < 5 ms"
    ]
    assert [str(one.path) for one in parse_limits(["loss <= 0.1 %"], roles, "--until")] == [
        "probe.loss.ratio",
        "stream.loss.ratio",
    ]
    assert [str(one.path) for one in parse_limits(["load.loss <= 0.1 %"], roles, "--until")] == [
        "load.loss.ratio"
    ]
    for text, says in [
        ("rtt.p99 5 ms", "is not a limit"), ("rtt.p99 < 5", "has no unit"), ("rtt.medain < 5 ms", "medain"),
        ("nobody.rtt.p99 < 5 ms", "there is no role"), ("response_time < 1 s", "no role has"),
    ]:  # fmt: skip
        with pytest.raises(ExperimentError, match=says):
            parse_limits([text], roles, "--until")


@pytest.mark.slow
def test_a_role_without_traffic_at_a_level_breaks_nothing() -> None:
    found = asked(reach(), "load", "load.loss.ratio <= 5 %", first="0 B", last="20 kB", step="20 kB")
    assert found.largest == "20 kB"
    none = next(
        level
        for level in asked(
            reach(), "load", "load.loss.ratio > 5 %", first="0 B", last="20 kB", step="20 kB"
        ).levels
    )
    assert (none.text, none.state, none.missing) == ("0 kB", "good", "load makes no traffic")


@pytest.mark.slow
def test_ranges_and_sizes() -> None:
    assert grid("1", "4", None) == ["1", "2", "3", "4"]
    assert sizes(4) == (4,)
    with pytest.raises(ExperimentError, match="step"):
        ordered_levels(find_input(reach(), "stream.rate"), first=None, last=None, step=None)


@pytest.mark.slow
def test_the_command_says_its_answer_in_json_and_by_its_exit_code(tmp_path: Path) -> None:
    file = tmp_path / "reach.yaml"
    file.write_text(FILE.format(links=""), encoding="utf-8")
    run = CliRunner().invoke(
        app, [str(file), "--until", "rtt.mean < 2 ms", "--vary", "load", "--runs", "8", "--json"]
    )
    assert run.exit_code == 0, run.output
    (answer,) = json.loads(run.stdout)["answers"]
    assert answer["largest"] == "30 kB"
    assert answer["monotone"]
    assert {level["state"] for level in answer["levels"]} == {"keeps"}
    none = CliRunner().invoke(
        app, [str(file), "--until", "rtt.mean < 1 us", "--vary", "switches", "--from", "1", "--to", "2"]
    )
    assert none.exit_code == 4
    assert "no level of topology.switches is shown to keep it" in none.stdout
