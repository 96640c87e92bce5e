"""Three routers in a triangle find their routes by OSPF, and nothing of the daemons outlives the world."""

from __future__ import annotations

import os
import re
import signal
import sys
from pathlib import Path

import pytest
import testbed_world as worlds

from virtlab.errors import MachineError
from virtlab.experiment import load
from virtlab.plan import Plan, Trial, Unobserved
from virtlab.planner import plan_run
from virtlab.testbed.backend import Testbed
from virtlab.testbed.build import routing
from virtlab.testbed.build.machine import findings
from virtlab.testbed.steps.operations import RouteAdd

sys.path.insert(0, str(Path(__file__).parent))
from killing import command, descendants, play
from test_testbed_privileges import ROOT, as_nobody

STUDY = Path(__file__).parents[2] / "experiments" / "virtual-routers" / "quick.yaml"
WHY_NOT = routing.missing() or (findings().world or ("",))[0]
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or "")


def plan(folder: Path) -> Plan:
    text = STUDY.read_text().replace('licence: "${licence}"}', 'licence: "${licence}", routing: ospf}')
    assert "routing: ospf" in text
    (folder / "ospf.yaml").write_text(text)
    experiment = load(folder / "ospf.yaml")
    return plan_run(experiment, experiment.points()[0], 0)


def daemons() -> list[str]:
    """Routing daemons below this process."""
    words = [command(pid).partition(" ")[0] for pid in descendants(os.getpid())]
    return [word for word in words if word.endswith(("/zebra", "/ospfd"))]


def test_every_guest_is_reached_over_routes_that_ospf_found(tmp_path: Path) -> None:
    planned = plan(tmp_path)
    rests = set(Path("/var/tmp").glob("frr*"))
    assert not {"r1", "r2", "r3"} & planned.world.routes.keys()
    assert Testbed().check(planned) == []
    with Testbed().open(planned, Unobserved()) as session:
        static = [step.op for step in session.lowered.steps if isinstance(step.op, RouteAdd)]  # type: ignore[attr-defined]
        assert not [op for op in static if op.namespace.startswith("guest:r")]
        assert {"h1.g1 -> h2.g1", "h2.g1 -> h1.g1"} <= session.reached_ns.keys()  # type: ignore[attr-defined]
        assert len(daemons()) == 6
    assert daemons() == []
    assert set(Path("/var/tmp").glob("frr*")) == rests
    assert not list(Path(routing.RUN).glob("[0-9]*"))


@ROOT
def test_an_ordinary_user_gets_the_same_routers(tmp_path: Path) -> None:
    planned = plan(tmp_path)

    def work() -> None:
        assert Testbed().check(planned) == []
        with Testbed().open(planned, Unobserved()) as session:
            assert "h1.g1 -> h2.g1" in session.reached_ns  # type: ignore[attr-defined]

    assert as_nobody(work) == ""


def test_nothing_is_left_when_the_control_plane_is_killed() -> None:
    player = play(
        "import sys, time, tempfile; sys.path.insert(0, sys.argv[1]); import test_ospf as t\n"
        "from pathlib import Path\n"
        "with tempfile.TemporaryDirectory() as made: planned = t.plan(Path(made))\n"
        "with t.Testbed().open(planned, t.Unobserved()):\n"
        "    print('begin', flush=True); time.sleep(60)"
    )
    assert len(daemons()) == 6
    player.end()
    assert player.left() == set()
    assert not list(Path(routing.RUN).glob("[0-9]*"))


def test_routes_that_never_come_end_in_an_error_with_what_the_daemons_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = routing.configuration
    monkeypatch.setattr(routing, "CONVERGENCE_S", 3.0)
    monkeypatch.setattr(
        routing, "configuration", lambda *given: real(*given).replace("area 0", f"area {given[2][1:]}")
    )
    with (
        pytest.raises(MachineError, match=r"OSPF has no route to 10\..*write 'routing: static'"),
        Testbed().open(plan(tmp_path), Unobserved()),
    ):
        pass
    assert daemons() == []


def test_a_daemon_that_ends_in_mid_run_is_what_the_run_fails_of(tmp_path: Path) -> None:
    planned = plan(tmp_path)
    with Testbed().open(planned, Unobserved()) as session:
        victim = next(
            pid for pid in descendants(os.getpid()) if command(pid).startswith(f"{routing.DAEMONS}/ospfd")
        )
        sink = worlds.ActingSink(lambda: os.kill(victim, signal.SIGKILL), at=".started", later_s=0.1)
        outcome = session.run(Trial("t0", 1), sink)
    assert outcome.status == "failed"
    # What else taints a run is a busy machine's.
    (why,) = (reason for reason in outcome.reasons if " ended with " in reason)
    assert outcome.reasons[0] == why, outcome.reasons
    assert re.fullmatch(r"routers\.(r[123]): ospfd of \1 ended with signal 9; see whether .*", why), why
    assert daemons() == []
