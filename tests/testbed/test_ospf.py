"""Three routers in a triangle find their routes by OSPF, and nothing of the daemons outlives the world."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from virtlab.errors import MachineError
from virtlab.experiment import load
from virtlab.plan import Plan
from virtlab.planner import plan_run
from virtlab.testbed import routing
from virtlab.testbed.backend import Testbed
from virtlab.testbed.machine import findings
from virtlab.testbed.operations import RouteAdd

sys.path.insert(0, str(Path(__file__).parent))
from test_testbed_privileges import ROOT, as_nobody

STUDY = Path(__file__).parents[2] / "experiments" / "virtual-routers" / "quick.yaml"
WHY_NOT = routing.missing() or (findings().world or ("",))[0]
pytestmark = [pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT or ""), pytest.mark.xdist_group("testbed")]


class Silent:
    """Hears of progress and never cancels."""

    def progress(self, what: str, share: float | None = None) -> None:
        del what, share

    def cancelled(self) -> bool:
        return False


def plan(folder: Path) -> Plan:
    text = STUDY.read_text().replace('licence: "${licence}"}', 'licence: "${licence}", routing: ospf}')
    assert "routing: ospf" in text
    (folder / "ospf.yaml").write_text(text)
    experiment = load(folder / "ospf.yaml")
    return plan_run(experiment, experiment.points()[0], 0)


def daemons() -> set[int]:
    found = set()
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            name = (entry / "comm").read_text().strip()
        except OSError:
            continue
        if name in {"zebra", "ospfd"}:
            found.add(int(entry.name))
    return found


def test_every_guest_is_reached_over_routes_that_ospf_found(tmp_path: Path) -> None:
    planned = plan(tmp_path)
    before, rests = daemons(), set(Path("/var/tmp").glob("frr*"))
    assert not {"r1", "r2", "r3"} & planned.world.routes.keys()
    assert Testbed().check(planned) == []
    with Testbed().open(planned, Silent()) as session:
        static = [step.op for step in session.lowered.steps if isinstance(step.op, RouteAdd)]  # type: ignore[attr-defined]
        assert not [op for op in static if op.namespace.startswith("guest:r")]
        assert {"h1.g1 -> h2.g1", "h2.g1 -> h1.g1"} <= session.reached_ns.keys()  # type: ignore[attr-defined]
        assert len(daemons() - before) == 6
    assert daemons() <= before
    assert set(Path("/var/tmp").glob("frr*")) == rests
    assert not list(Path(routing.RUN).glob("[0-9]*"))


@ROOT
def test_an_ordinary_user_gets_the_same_routers(tmp_path: Path) -> None:
    planned = plan(tmp_path)

    def work() -> None:
        assert Testbed().check(planned) == []
        with Testbed().open(planned, Silent()) as session:
            assert "h1.g1 -> h2.g1" in session.reached_ns  # type: ignore[attr-defined]

    assert as_nobody(work) == ""


def test_nothing_is_left_when_the_control_plane_is_killed(tmp_path: Path) -> None:
    plan(tmp_path)
    before = daemons()
    program = (
        "import sys, time; sys.path.insert(0, sys.argv[2]); import test_ospf as t; from pathlib import Path\n"
        "with t.Testbed().open(t.plan(Path(sys.argv[1])), t.Silent()):\n"
        "    print('up', flush=True); time.sleep(60)"
    )
    argv = [sys.executable, "-c", program, str(tmp_path), str(Path(__file__).parent)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline().strip() == "up"
        assert daemons() - before
        os.kill(child.pid, signal.SIGKILL)
    end = time.monotonic() + 10
    while daemons() - before and time.monotonic() < end:
        time.sleep(0.05)
    assert daemons() <= before
    assert not list(Path(routing.RUN).glob("[0-9]*"))


def test_routes_that_never_come_end_in_an_error_with_what_the_daemons_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = routing.configuration
    monkeypatch.setattr(routing, "CONVERGENCE_S", 3.0)
    monkeypatch.setattr(
        routing, "configuration", lambda *given: real(*given).replace("area 0", f"area {given[2][1:]}")
    )
    before = daemons()
    with (
        pytest.raises(MachineError, match=r"OSPF has no route to 10\..*write 'routing: static'"),
        Testbed().open(plan(tmp_path), Silent()),
    ):
        pass
    assert daemons() <= before
