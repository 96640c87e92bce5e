"""What roles see is told while they play, to whoever watches, and to nobody else."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import pytest
import testbed_world as worlds

from virtlab.agents.requests.request import Request
from virtlab.plan import Plan, Reading, Trial
from virtlab.testbed import Testbed
from virtlab.testbed.leader.control import Control, Pending

pytestmark = [
    pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing())),
    pytest.mark.timeout(120),
]
COUNT = 300
MS = 10**6


class Watching(worlds.Patient):
    """Wants to see it ten times a second."""

    live_every_ns: int | None = 100 * MS

    def __init__(self) -> None:
        super().__init__()
        self.told: dict[str, list[Reading]] = defaultdict(list)

    def live(self, readings: Sequence[Reading]) -> None:
        for reading in readings:
            self.told[reading.role].append(reading)


def two_roles() -> Plan:
    """Echoes beside datagrams and transactions."""
    plan = worlds.echo_plan(worlds.bridged(), count=COUNT)
    values = plan.model_dump(mode="json", exclude_none=True, by_alias=True)
    values["roles"]["load"] = {
        "workload": "udp_stream", "from": "a", "to": "b", "ip_packet_bytes": 1000, "rate_bit_per_s": 8_000_000,
        "duration_ns": 20 * 10**9,
    }  # fmt: skip
    values["roles"]["calls"] = {
        "workload": "tcp_rr", "from": "b", "to": "a", "request_bytes": 1, "response_bytes": 1,
        "duration_ns": 20 * 10**9,
    }  # fmt: skip
    values["timeline"] = [
        {"id": "load", "do": "start", "role": "load"},
        {"id": "calls", "do": "start", "role": "calls"},
        {"id": "measure", "do": "run", "role": "probe", "after": {"event": "load.started"}},
        {"id": "stop", "do": "stop", "role": "load", "after": {"event": "measure.finished"}},
        {"id": "hush", "do": "stop", "role": "calls", "after": {"event": "measure.finished"}},
    ]
    return Plan.model_validate(values)


def test_rates_times_and_losses_are_told_while_roles_play() -> None:
    watching = Watching()
    sink = worlds.MemorySink()
    with Testbed().open(two_roles(), watching) as session:
        outcome = session.run(Trial("t0", 1), sink)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert set(watching.told) == {"probe", "load", "calls"}
    for role, readings in watching.told.items():
        seen = sum(each.rate_per_s * each.over_ns / 1e9 for each in readings)
        assert seen > 0, role
        assert all(each.loss_ratio is None or 0 <= each.loss_ratio <= 1 for each in readings)
    # No more is told than there was.
    for role, schema in (("probe", "rtt/1"), ("load", "packet/1"), ("calls", "transaction/1")):
        told = sum(each.rate_per_s * each.over_ns / 1e9 for each in watching.told[role])
        kept = sink.rows(role, schema) if role == "probe" else sink.counters("stop")[_of(role)]
        assert told <= kept + 0.5, role
    assert all((each.time_ns or 1) > 0 for each in watching.told["calls"])
    assert any(each.time_ns is not None for each in watching.told["calls"])
    assert any(each.received_bit_per_s for each in watching.told["load"])


def _of(role: str) -> tuple[str, str]:
    return ("load/server", "received_packets") if role == "load" else ("calls/client", "transactions")


def test_where_nobody_watches_nothing_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    send = Control.send

    def noted(self: Control, request: Request[Any], *, channel: int = 0) -> Pending[Any]:
        asked.append(request.do)
        return send(self, request, channel=channel)

    monkeypatch.setattr(Control, "send", noted)
    blind = Watching()
    blind.live_every_ns = None
    for observer in (worlds.Patient(), blind):
        with Testbed().open(worlds.echo_plan(worlds.bridged(), count=20), observer) as session:
            assert session.run(Trial("t0", 1), worlds.MemorySink()).status in {"ok", "tainted"}
    assert "collect" in asked
    assert "live" not in asked
    assert blind.told == {}
