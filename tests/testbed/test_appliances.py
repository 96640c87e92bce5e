"""Appliances: configured through their console, forwarding between guests, and told of with its words when they do
not.
"""

from __future__ import annotations

import time
from pathlib import Path

import appliance_world as appliances
import pytest
import testbed_world as worlds

from virtlab.catalogue import PLATFORMS
from virtlab.errors import GuestError
from virtlab.experiment import load
from virtlab.plan import Action, Plan, Trial
from virtlab.plan.model import Trigger
from virtlab.planner import plan_run
from virtlab.testbed import Testbed

pytestmark = [
    pytest.mark.skipif(appliances.missing() is not None, reason=str(appliances.missing())),
    pytest.mark.timeout(600),
]
FILE = """
version: 1
name: through-an-appliance
title: Through somebody else's router
hosts: [h1, h2]
routers: {r1: {platform: appliance, image: router}}
links: {left: {ends: [h1, r1]}, right: {ends: [r1, h2]}}
roles: {probe: {workload: rtt, from: h1.g1, to: h2.g1, size: 200 B ip_packet, interval: 20 ms, count: 20}}
"""


@pytest.fixture
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    return tmp_path / "configuration"


def plan(folder: Path, text: str = FILE) -> Plan:
    file = folder / "through.yaml"
    file.write_text(text)
    experiment = load(file)
    return plan_run(experiment, experiment.points()[0], 0)


def test_packets_go_through_a_router_that_was_configured_on_its_console(
    configuration: Path, tmp_path: Path
) -> None:
    appliances.install(configuration)
    wanted = plan(tmp_path)
    assert Testbed().check(wanted) == []
    before = worlds.own_processes()
    with Testbed().open(wanted, worlds.Patient()) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        assert sink.rows("probe", "rtt/1") == 20
        console = sink.artefacts["console-r1.log"].decode(errors="replace")
        for vnic in wanted.world.guests["r1"].vnics.values():
            assert f"ip address add {vnic.ip[0]} dev" in console
        realised = session.realised.objects["guests.r1"]
        assert (realised.by, realised.applied["recipe"]) == ("appliance", "router")
        assert len(str(realised.applied["boots_sha256"])) == 64
        assert session.realised.objects["guests.r1.vnics.eth0"].by == "tap"
    assert worlds.own_processes() <= before


STREAM = """
  load: {workload: raw_stream, from: h1.g1, to: h2.g1, size: 512 B frame, rate: 200 packet/s, duration: 1 s, via: [r1]}
"""


def test_an_appliance_that_was_reset_boots_again_is_told_its_recipe_again_and_forwards_as_before(
    configuration: Path, tmp_path: Path
) -> None:
    """How long it takes is its own affair: what was sent meanwhile is lost, and what is sent afterwards is not."""
    appliances.install(configuration)
    wanted = plan(tmp_path, FILE.partition("roles:")[0] + "roles:" + STREAM)
    gone = Action(id="gone", do="reset", guest="r1", after=Trigger(event="load.started", plus_ns=300_000_000))
    played = Trial("reset", 1, also=(gone,))
    assert Testbed().check(played.plan(wanted)) == []
    with Testbed().open(wanted, worlds.Patient()) as session:
        during = worlds.MemorySink()
        outcome = session.run(played, during)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        assert outcome.marks["gone.done"].t_ns > outcome.marks["gone.started"].t_ns
        arrived = 0
        for number in range(3):  # an emulated processor that stands still may lose frames
            after = worlds.MemorySink()
            outcome = session.run(Trial(f"a{number}", number), after)
            assert outcome.status in {"ok", "tainted"}, outcome.reasons
            arrived = max(arrived, after.rows("load", "packet/1"))
            if arrived == 200:
                break
    stop = during.counters("stop")
    assert 0 < during.rows("load", "packet/1") < stop["load/client", "sent_packets"]
    reset = PLATFORMS["appliance"].reset
    assert reset is not None
    assert [event.details["text"] for event in during.events if event.what == "gone.how"] == [reset.how]
    assert arrived > during.rows("load", "packet/1")
    console = after.artefacts["console-r1.log"].decode(errors="replace")
    for vnic in wanted.world.guests["r1"].vnics.values():
        assert console.count(f"ip address add {vnic.ip[0]} dev") == 2


def test_a_console_that_refuses_is_quoted(configuration: Path, tmp_path: Path) -> None:
    appliances.install(configuration, more="frobnicate --now")
    with pytest.raises(GuestError, match=r"guests\.r1: its console refused: .*frobnicate: not found"):
        Testbed().open(plan(tmp_path), worlds.Patient())


def test_a_console_that_never_says_what_is_waited_for_is_given_up_with_its_end(
    configuration: Path, tmp_path: Path
) -> None:
    place = appliances.install(configuration)
    recipe = place / "appliance.toml"
    recipe.write_text(
        recipe.read_text().replace(
            'expect = "press Enter"\ntimeout = "240 s"', 'expect = "vyos login"\ntimeout = "1 s"'
        )
    )
    began = time.monotonic()
    with pytest.raises(GuestError, match=r"did not say 'vyos login' \(step 1\) within 1 s; it ends with: "):
        Testbed().open(plan(tmp_path), worlds.Patient())
    assert time.monotonic() - began < 120


def test_a_recipe_that_is_not_there_or_is_wrong_is_refused_before_anything_is_built(
    configuration: Path, tmp_path: Path
) -> None:
    wanted = plan(tmp_path)
    [refusal] = Testbed().check(wanted)
    assert refusal.path == "guests.r1.image"
    assert "there is no recipe" in refusal.reason
    place = appliances.install(configuration, more="{{ nobody.knows }}")
    [refusal] = Testbed().check(wanted)
    assert "its template cannot be filled in" in refusal.reason
    (place / "appliance.toml").write_text('disk = "a.img"\nkernel = "b"\n')
    [refusal] = Testbed().check(wanted)
    assert "there is no file" in refusal.reason


def test_an_appliance_is_no_end_of_a_role(configuration: Path, tmp_path: Path) -> None:
    appliances.install(configuration)
    wanted = plan(tmp_path)
    roles = {"probe": wanted.roles["probe"].model_copy(update={"to": "r1"})}
    reasons = [refusal.reason for refusal in Testbed().check(wanted.model_copy(update={"roles": roles}))]
    assert "r1 has no agent of ours" in reasons
