"""What guests said before their run failed is kept with the run, unless that alone is more than the file allows."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.contract.closed_form import ClosedForm
from tests.contract.small_campaign import opened, plan

from virtlab.campaign import CampaignObserver
from virtlab.campaign.execution.run import execute
from virtlab.errors import GuestError
from virtlab.plan import Observer, Plan, Session
from virtlab.results import RunKey, RunRecord

CONSOLE = b"[0.000] first line\n" * 100


class Silent(ClosedForm):
    """Its guest says something on its console, and never boots."""

    def open(self, plan: Plan, observe: Observer) -> Session:
        error = GuestError("guests.a", "did not boot within 1 s")
        error.artefacts["console-a.log"] = CONSOLE
        raise error


def failed(place: Path, allowed_bytes: int | None) -> RunRecord:
    with opened(place, Silent()) as dataset:
        one = plan(0, 0)
        one = one.model_copy(update={"limits": one.limits.model_copy(update={"disk_bytes": allowed_bytes})})
        record = execute(dataset, RunKey(0, 0, 0), one, Silent(), CampaignObserver())
    assert record is not None
    assert (record.status, record.reasons) == ("failed", ("guests.a: did not boot within 1 s",))
    return record


@pytest.mark.parametrize("allowed_bytes", [None, len(CONSOLE)])
def test_a_run_that_failed_while_its_world_was_built_keeps_the_consoles(
    tmp_path: Path, allowed_bytes: int | None
) -> None:
    record = failed(tmp_path / "d", allowed_bytes)
    assert (record.folder / "artefacts" / "console-a.log").read_bytes() == CONSOLE


def test_its_reason_outlives_a_console_that_the_file_has_no_room_for(tmp_path: Path) -> None:
    record = failed(tmp_path / "d", len(CONSOLE) - 1)
    assert not (record.folder / "artefacts").exists()
    (warning,) = [entry["what"] for entry in record.log() if entry["level"] == "warning"]
    assert warning == "not kept: console-a.log: 1900 B, and the file allows 1899 B (limits.disk)"
