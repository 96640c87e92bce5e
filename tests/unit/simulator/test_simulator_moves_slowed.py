"""A copy over a link that is slowed in mid-move, or that others begin to use, has what is left of it from then on: in
its rounds, in its pause, and in post-copy.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.unit.simulator.test_simulator_moves import S, answered, planned, played, written

from virtlab.errors import ExperimentError
from virtlab.experiment import load_text
from virtlab.planner import plan_run
from virtlab.prediction.bound import bounds_of
from virtlab.simulator import Simulator

MEMORY_BYTES = 256e6
LINE_BYTE_PER_S = 100e6 / 8 * 1448 / 1538  # what TCP carries of 100 Mbit/s
SLOWED_AFTER_S = 5
STREAM = "  stream: {workload: udp_stream, from: h3.g1, to: h2.g1, size: 1472 B payload, rate: 100 Mbit/s, duration: 100 s}"
BEGINS = f"timeline:\n  - {{id: slowed, do: start, role: stream, after: go.started + {SLOWED_AFTER_S} s}}\n"


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["pre_copy", "hot"])
def test_a_link_that_is_slowed_in_mid_move_delays_rounds_and_pause_by_what_it_lacks(mode: str) -> None:
    move = f"mode: {mode}, over: network, timeout: 100 s"
    plan = planned(move, more=STREAM, swap={"timeline:\n": BEGINS})
    outcome, sink = played(plan)
    (total_ns,), (pause_ns,) = sink.moved("migration_time"), sink.moved("pause")
    left_bytes = MEMORY_BYTES - LINE_BYTE_PER_S * SLOWED_AFTER_S
    assert total_ns / S == pytest.approx(SLOWED_AFTER_S + left_bytes / (LINE_BYTE_PER_S / 2), rel=0.05)
    if mode == "hot":
        assert pause_ns == pytest.approx(total_ns, rel=0.001)
    else:
        assert pause_ns < 0.4 * S, "what is left fits the downtime limit at the rate that there is then"
    _, arrived = answered(sink)
    assert not ((arrived > sink.at("go.paused")) & (arrived < sink.at("go.resumed"))).any()
    assert (arrived > outcome.marks["go.finished"].t_ns).sum() > 100, "clients find it at the other host"


SLOWER = "  - {{id: slow, do: set, link: {link}, parameter: rate, value: {rate}, after: {after}}}\n"
LAST = "  - {id: end, do: stop, role: probe, after: settle.done}\n"


def slowing(link: str, rate: str, after: str, *, again: str = "") -> dict[str, str]:
    """The file with an action that sets a rate, and `again` behind it."""
    return {LAST: SLOWER.format(link=link, rate=rate, after=after) + again + LAST}


@pytest.mark.slow
@pytest.mark.parametrize("link", ["h1-s1", "s1-h2"])
@pytest.mark.parametrize("mode", ["pre_copy", "hot", "post_copy"])
def test_a_copy_over_a_link_at_a_quarter_of_its_rate_takes_four_times_as_long_from_then_on(
    mode: str, link: str
) -> None:
    ends = ", on_timeout: fail" if mode == "post_copy" else ""
    swap = slowing(link, "25 Mbit/s", f"go.started + {SLOWED_AFTER_S} s")
    plan = planned(f"mode: {mode}, over: network, timeout: 100 s{ends}", swap=swap)
    outcome, sink = played(plan)
    (total_ns,), (pause_ns,) = sink.moved("migration_time"), sink.moved("pause")
    left_bytes = MEMORY_BYTES - LINE_BYTE_PER_S * SLOWED_AFTER_S
    assert total_ns / S == pytest.approx(SLOWED_AFTER_S + left_bytes / (LINE_BYTE_PER_S / 4), rel=0.02)
    assert outcome.marks["slow.done"].t_ns - outcome.marks["go.started"].t_ns == SLOWED_AFTER_S * S
    if mode == "hot":
        assert pause_ns == pytest.approx(total_ns, rel=0.001)
    else:
        assert pause_ns < 0.4 * S
    assert (answered(sink)[1] > outcome.marks["go.finished"].t_ns).sum() > 100


@pytest.mark.slow
def test_a_link_that_has_its_rate_again_carries_the_rest_as_fast_as_before() -> None:
    again = SLOWER.replace("slow", "restore").format(link="h1-s1", rate="100 Mbit/s", after="slow.done + 4 s")
    swap = slowing("h1-s1", "25 Mbit/s", f"go.started + {SLOWED_AFTER_S} s", again=again)
    _, sink = played(planned("over: network, timeout: 100 s", swap=swap))
    assert sink.moved("migration_time")[0] / S == pytest.approx(MEMORY_BYTES / LINE_BYTE_PER_S + 3, rel=0.02)


def test_frames_on_a_slowed_link_take_as_much_longer_in_a_run_without_a_move() -> None:
    def medians(sink: Any, at_ns: int) -> tuple[float, float]:
        kept = [columns for _, schema, columns in sink.blocks if schema == "rtt/1"]
        sent, rtt = (np.concatenate([each[name] for each in kept]) for name in ("sent_ns", "rtt_ns"))
        return float(np.median(rtt[sent < at_ns])), float(np.median(rtt[sent > at_ns + 10**7]))

    text = written("timeout: 60 s", swap=slowing("h1-s1", "25 Mbit/s", "load.started + 2 s"))
    still = [line for line in text.splitlines() if "do: migrate" not in line]
    text = "\n".join(still).replace("after: {any: [go.finished, go.cancelled]}", "after: load.started + 4 s")
    experiment = load_text(text)
    plan = plan_run(experiment, experiment.points()[0], 0)
    outcome, sink = played(plan)
    before_ns, after_ns = medians(sink, outcome.marks["slow.done"].t_ns)
    octets = 100 + 26  # the gap behind a frame does not delay it
    assert after_ns - before_ns == pytest.approx(2 * octets * 8 * (1 / 25e6 - 1 / 100e6) * S, abs=2)
    assert "is slowed or cut meanwhile" in str(bounds_of(plan)["probe"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("link: h1-s1, parameter: rate, value: 200 Mbit/s", "carries 100 Mbit/s, and can be slowed"),
        ("link: h1-s1, parameter: rate, value: 99 kbit/s", "at 99 kbit/s a frame holds the link"),
        ("link: h9-s1, parameter: rate, value: 20 Mbit/s", "there is no link 'h9-s1'"),
        ("link: [h1-s1], parameter: rate, value: 20 Mbit/s", "there is no link"),
        (
            "link: h1-s1, parameter: delay, value: 2 ms",
            "only the rate or the state of a link can be set while a run plays, not 'delay'",
        ),
        ("link: h1-s1, parameter: rate", "'value' is missing"),
        ("link: h1-s1, parameter: state", "write up or down"),
        ("link: h1-s1, parameter: state, value: off", "'off'"),
        ("link: h1.g1, parameter: state, value: down", "there is no link 'h1.g1'"),
        ("link: h1-s1, role: probe, parameter: rate, value: 20 Mbit/s", "of a role or of a link"),
    ],
)
def test_a_mistake_about_a_slowed_link_is_told(words: str, said: str) -> None:
    action = f"  - {{id: slow, do: set, {words}, after: load.started}}\n"
    with pytest.raises(ExperimentError, match=said):
        load_text(written("timeout: 60 s", swap={LAST: action + LAST}))


def test_a_plan_that_sets_what_no_link_has_is_refused() -> None:
    plan = planned("timeout: 60 s", swap=slowing("h1-s1", "25 Mbit/s", "go.started"))
    values = plan.model_dump(mode="json", by_alias=True)
    slow = next(action for action in values["timeline"] if action["id"] == "slow")
    for link, args in (
        ("h1-s9", {"rate_bit_per_s": 1}),
        ("h1-s1", {"rate_bit_per_s": 0}),
        ("h1-s1", {"loss": 1}),
        ("h1-s1", {"state": "gone"}),
        ("h1-s1", {"state": "down", "rate_bit_per_s": 10**6}),
    ):
        slow["link"], slow["args"] = link, args
        (found,) = Simulator().check(type(plan).model_validate(values))
        assert found.path.startswith("timeline.slow")


def test_a_copy_in_bulk_over_a_link_that_is_cut_is_refused_and_a_copy_beside_it_is_not() -> None:
    cut = {
        LAST: f"  - {{id: cut, do: set, link: h1-s1, parameter: state, value: down, after: go.started}}\n{LAST}"
    }
    (found,) = Simulator().check(planned("over: network, timeout: 60 s", swap=cut))
    assert found.path == "timeline.go.over"
    assert "crosses 'h1-s1', which is cut" in found.reason
    beside = {LAST: cut[LAST].replace("h1-s1", "s1-h3")}
    for move, swap in (("over: network, timeout: 60 s", beside), ("timeout: 60 s", cut)):
        assert Simulator().check(planned(move, swap=swap)) == []
