"""What a campaign tells while it runs: lines for people, JSON lines for programs."""

from __future__ import annotations

import io
import json

from virtlab.campaign.progress import JsonProgress, PlainProgress, Standing, show_reading
from virtlab.plan import Reading, Watcher
from virtlab.results import RunKey

READING = Reading("probe", 2 * 10**9, 100.0, 800_000.0, 310_000.0, 0.0)


def test_each_event_is_a_json_object_on_a_line_of_its_own() -> None:
    stream = io.StringIO()
    progress = JsonProgress(stream)
    progress.run_begins(RunKey(2, 1, 0), {"switches": "2"}, Standing(3, 4, 6, 10**9))
    progress.progress("run probe", 0.5)
    progress.live([READING])
    progress.waiting(None)
    progress.ended()
    events = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [event["event"] for event in events] == ["run_begins", "step", "live", "waiting", "ended"]
    assert events[0]["run"] == "p0002-r01-a0"
    assert (events[0]["runs_left_least"], events[0]["left_ns"]) == (4, 10**9)
    assert events[2]["roles"]["probe"] == {
        "over_ns": 2 * 10**9, "rate_per_s": 100.0, "received_bit_per_s": 800_000.0, "time_ns": 310_000.0,
        "loss_ratio": 0.0,
    }  # fmt: skip
    assert isinstance(progress, Watcher)
    assert progress.live_every_ns


def test_plain_lines_show_roles_only_to_whoever_asked_for_more() -> None:
    stream = io.StringIO()
    talkative = PlainProgress(stream, verbose=True)
    talkative.live([READING])
    assert stream.getvalue() == "      probe: 100/s, 800 kbit/s, 0.31 ms, loss 0 %\n"
    assert talkative.live_every_ns
    assert PlainProgress(stream).live_every_ns is None


def test_what_a_role_does_not_tell_is_not_shown() -> None:
    assert show_reading(Reading("load", 10**9, 0.0, 0.0, None, None)) == "load: 0/s"
