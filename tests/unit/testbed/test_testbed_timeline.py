"""A timeline played with a clock of the test's own."""

from __future__ import annotations

from typing import Any

from virtlab.plan import Plan
from virtlab.testbed.play.timeline import Timeline

WORLD: dict[str, Any] = {"hosts": {}, "guests": {}}


def timeline(
    *actions: dict[str, Any], windows: dict[str, Any] | None = None, begin_ns: int = 1000
) -> Timeline:
    return Timeline(
        Plan.model_validate({"world": WORLD, "timeline": list(actions), "windows": windows or {}}), begin_ns
    )


def due(play: Timeline, now_ns: int, lead_ns: int = 0) -> list[tuple[str, int]]:
    return [(action.id, at_ns) for action, at_ns in play.due(now_ns, lead_ns)]


def test_an_action_without_a_trigger_begins_with_the_run_and_once() -> None:
    play = timeline({"id": "a", "do": "start", "role": "r"})
    assert due(play, 999) == []
    assert due(play, 1000) == [("a", 1000)]
    assert due(play, 2000) == []


def test_an_action_begins_so_long_after_its_event() -> None:
    play = timeline(
        {"id": "a", "do": "start", "role": "r"},
        {"id": "b", "do": "run", "role": "s", "after": {"event": "a.started", "plus_ns": 50}},
    )
    due(play, 1000)
    play.event("a.started", 1100)
    assert play.next_ns() == 1150
    assert due(play, 1149) == []
    assert due(play, 1120, lead_ns=30) == [("b", 1150)]


def test_all_waits_for_the_last_and_any_takes_the_first() -> None:
    play = timeline(
        {"id": "a", "do": "run", "role": "r"},
        {"id": "b", "do": "run", "role": "s"},
        {"id": "both", "do": "wait", "for_ns": 1, "after": {"all": ["a.finished", "b.finished"]}},
        {"id": "one", "do": "wait", "for_ns": 1, "after": {"any": ["a.finished", "b.finished"]}},
    )
    due(play, 1000)
    play.event("b.finished", 1300)
    assert due(play, 1300) == [("one", 1300)]
    play.event("a.finished", 1400)
    assert due(play, 1400) == [("both", 1400)]


def test_what_waits_on_done_of_a_run_comes_when_it_finishes() -> None:
    play = timeline(
        {"id": "a", "do": "run", "role": "r"},
        {"id": "b", "do": "wait", "for_ns": 1, "after": {"event": "a.done"}},
    )
    due(play, 1000)
    play.event("a.finished", 1500)
    assert due(play, 1500) == [("b", 1500)]


def test_what_can_no_longer_come_is_void_and_the_run_ends() -> None:
    play = timeline(
        {"id": "a", "do": "run", "role": "r"},
        {"id": "b", "do": "wait", "for_ns": 1, "after": {"event": "a.failed"}},
        {"id": "c", "do": "wait", "for_ns": 1, "after": {"event": "b.done"}},
    )
    due(play, 1000)
    assert not play.over()
    play.event("a.finished", 1500)
    assert play.over()
    assert due(play, 10**12) == []


def test_a_plain_wait_is_dated_at_its_instant() -> None:
    play = timeline({"id": "w", "do": "wait", "for_ns": 70})
    [(_, at_ns)] = due(play, 1000)
    play.expect("w", at_ns + 70)
    assert list(play.waited(1069)) == []
    assert list(play.waited(5000)) == [("w.done", 1070)]


def test_a_window_keeps_the_run_going_until_it_has_its_end() -> None:
    play = timeline(
        {"id": "a", "do": "start", "role": "r"},
        windows={"measured": {"from": "a.started", "to": "a.finished"}},
    )
    due(play, 1000)
    play.event("a.started", 1000)
    assert not play.over()
    play.event("a.finished", 1800)
    assert play.over()
    assert play.windows() == {"measured": (1000, 1800)}


def test_a_load_that_nobody_stops_does_not_keep_the_run() -> None:
    play = timeline({"id": "a", "do": "start", "role": "r"})
    due(play, 1000)
    play.event("a.started", 1000)
    assert play.over()


def late(on_timeout: str) -> Timeline:
    play = timeline(
        {
            "id": "a", "do": "exec", "guest": "g", "argv": ["x"], "timeout_ns": 100, "on_timeout": on_timeout,
        },
        {"id": "then", "do": "wait", "for_ns": 1, "after": {"any": ["a.timeout", "a.cancelled"]}},
    )  # fmt: skip
    due(play, 1000)
    assert list(play.expired(1099)) == []
    assert [action.id for action in play.expired(1100)] == ["a"]
    assert list(play.expired(1200)) == []
    return play


def test_a_timeout_fails_censors_or_cancels_as_it_says() -> None:
    assert len(late("fail").failures) == 1
    censored = late("censor")
    assert (censored.censored, censored.failures) == (["a"], [])
    assert "a.timeout" in censored.marks
    assert due(censored, 1100) == [("then", 1100)]
    cancelled = late("cancel")
    assert "a.cancelled" in cancelled.marks
    assert due(cancelled, 1100) == [("then", 1100)]


def test_the_first_event_of_a_name_counts() -> None:
    play = timeline({"id": "a", "do": "run", "role": "r"})
    play.event("a.started", 1001)
    play.event("a.started", 1999)
    assert play.marks["a.started"].t_ns == 1001
