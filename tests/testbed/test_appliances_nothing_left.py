"""However a run through an appliance dies, nothing of it stays: no QEMU, tap, namespace, mount, control group, and of a
disc with its configuration only what whoever makes the next one removes first.
"""

from __future__ import annotations

from pathlib import Path

import appliance_world as appliances
import pytest
from killing import TIMEOUT_S, abandoned_groups, kill_machines_at_any_moment, own_groups, surroundings
from test_appliances import plan

from virtlab.testbed.image import folder
from virtlab.testbed.leader import far_ledger, ledger
from virtlab.testbed.platforms.appliance import iso

pytestmark = [
    pytest.mark.skipif(appliances.missing() is not None, reason=str(appliances.missing())),
    pytest.mark.slow,
    pytest.mark.timeout(TIMEOUT_S),
]
PLAN = "VIRTLAB_TEST_PLAN"
PLAYER = f"""
import os, pathlib, sys
sys.path.insert(0, sys.argv[1])
import testbed_world as worlds
from virtlab.plan import Plan, Trial
from virtlab.testbed import Testbed
plan = Plan.parse(pathlib.Path(os.environ["{PLAN}"]).read_text())
print("begin", flush=True)
while True:
    with Testbed().open(plan, worlds.Patient()) as session:
        print("built", flush=True)
        session.run(Trial("t0", 1), worlds.MemorySink())
"""


def test_appliances_killed_at_any_moment_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv(PLAN, str(tmp_path / "plan.json"))
    disc = appliances.drive_missing() is None
    (appliances.install_with_a_disc if disc else appliances.install)(tmp_path / "configuration")
    (tmp_path / "plan.json").write_text(plan(tmp_path).canonical())
    ledger.sweep()
    before, groups, discs = surroundings(), own_groups(), {*folder().glob("appliance-*")}
    kill_machines_at_any_moment(PLAYER, seed=8)
    ledger.sweep()
    assert abandoned_groups(groups) == set()
    assert surroundings() == before
    if disc:  # an image of one who was killed is known by the ledger alone, and goes with it
        noted = list(far_ledger.folder().glob("*"))
        assert len({*folder().glob("appliance-*")} - discs) <= len(noted)
        iso.write({}, "next").close()
    assert {*folder().glob("appliance-*"), *far_ledger.folder().glob("*")} <= discs
