"""A guest that writes to its memory: every page that was due is written or passed over, and counted."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import testbed_world as worlds

from virtlab.errors import GuestError
from virtlab.plan import Plan, Trial
from virtlab.testbed import Testbed

pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))
PAGE = 4096
RATE = 20_000_000


def plan(
    *, rate: int = RATE, working_set: int = 1 << 20, timeline: list[dict[str, Any]] | None = None
) -> Plan:
    writer = {"workload": "dirty", "from": "g1", "rate_byte_per_s": rate, "working_set_bytes": working_set}
    given = worlds.echo_plan(worlds.one_host(2), source="g1", target="g2", count=200)
    values = given.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    values["roles"]["memory"] = {**writer, "tunable": ["rate_byte_per_s"]}
    values["timeline"] = timeline or [
        {"id": "load", "do": "start", "role": "memory"},
        {"id": "measure", "do": "run", "role": "probe", "after": {"event": "load.started"}},
        {"id": "end", "do": "stop", "role": "memory", "after": {"event": "measure.finished"}},
    ]
    values["collect"]["packets"] = ["probe", "memory"]
    return Plan.model_validate(values)


def played(wanted: Plan) -> tuple[worlds.MemorySink, dict[str, Any]]:
    assert Testbed().check(wanted) == []
    sink = worlds.MemorySink()
    with Testbed().open(wanted, worlds.Patient()) as session:
        outcome = session.run(Trial("t0", 1), sink)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    columns = next(
        columns for stream, schema, columns in sink.blocks if (stream, schema) == ("memory", "memory/1")
    )
    return sink, dict(columns)


def test_every_page_that_is_due_is_written_or_passed_over() -> None:
    sink, rows = played(plan())
    counted = sink.counters("stop")
    written, missed = (counted["memory/client", name] for name in ("written_pages", "missed_pages"))
    assert (rows["written_pages"].sum(), rows["missed_pages"].sum()) == (written, missed)
    assert (rows["begin_ns"][1:] == rows["end_ns"][:-1]).all(), "no time is left out"
    lasted_ns = int(rows["end_ns"][-1] - rows["begin_ns"][0])
    assert written + missed == lasted_ns * RATE // 10**9 // PAGE
    assert lasted_ns > 900_000_000, "it writes as long as the role beside it measures"
    assert written > 0


def test_the_rate_changes_while_it_writes() -> None:
    _, rows = played(
        plan(
            rate=0,
            timeline=[
                {"id": "load", "do": "start", "role": "memory"},
                {"id": "measure", "do": "run", "role": "probe", "after": {"event": "load.started"}},
                {"id": "more", "do": "set", "role": "memory", "args": {"rate_byte_per_s": RATE},
                 "after": {"event": "load.started", "plus_ns": 500_000_000}},
                {"id": "end", "do": "stop", "role": "memory", "after": {"event": "measure.finished"}},
            ],
        )
    )  # fmt: skip
    any_due = (rows["written_pages"] + rows["missed_pages"]) > 0
    first = int(np.argmax(any_due))
    assert first >= 3
    assert any_due[first:].all()


def test_a_working_set_that_the_guest_cannot_hold_is_refused_when_it_is_armed() -> None:
    with (
        Testbed().open(plan(working_set=1 << 46), worlds.Patient()) as session,
        pytest.raises(GuestError, match=r"working_set_bytes: the guest has .* B left; give it more memory"),
    ):
        session.run(Trial("t0", 1), worlds.MemorySink())
