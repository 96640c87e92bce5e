"""Searches against a device made of numbers, in virtual time: how far answers of independent searches differ.

The device serves at most `CAPACITY` packets per second, less or more by 1 % from trial to trial, behind a buffer of
1000 packets; it stalls 5 times a second for an exponential time of 0.4 ms, 5 % of the stalls for 4 ms in the mean.

Its buffer is 3.3 ms of 300 thousand packets/s, and 1 ms of a million. A stall longer than the buffer loses packets
whatever the load, so of trials of 1 s at 97 % of a million 44 % are bad, and at 70 % still 28 %. A goal that lets half
of them be bad lies within one standard deviation of 21 tosses, 11 %, of the first, and luck has its part: searches
differ by 2.3 to 2.9 %. With a second preceding target, as the authors' implementation has by default, they differ by
3.0 to 4.5 %: it decides by few trials, and what it takes for bad sends the search down. In trials of half a second a
quarter is bad, and searches agree.
"""

from __future__ import annotations

import math
import random
import statistics

import pytest

from virtlab.campaign.search import Bisection, Goal, MlrSearch, Search, TrialResult

CAPACITY = 300_000.0
FAST = 1_000_000.0
BUFFER = 1000
STALLS_PER_S = 5.0
STALL_S, LONG_STALL_S, LONG_SHARE = 0.4e-3, 4e-3, 0.05


def stall_s(draw: random.Random) -> float:
    return draw.expovariate(1 / (LONG_STALL_S if draw.random() < LONG_SHARE else STALL_S))


def loss_ratio(
    load: float, trial_s: float, draw: random.Random, noise: float, capacity_pps: float = CAPACITY
) -> float:
    """Fluid queue: it fills at `load` during a stall and drains at the difference between stalls."""
    capacity = capacity_pps * (1.0 + draw.gauss(0.0, noise))
    queue, lost, now = 0.0, 0.0, 0.0
    while now < trial_s:
        quiet = min(draw.expovariate(STALLS_PER_S), trial_s - now)
        queue += (load - capacity) * quiet
        lost, queue = lost + max(0.0, queue - BUFFER), min(max(queue, 0.0), BUFFER)
        now += quiet
        if now >= trial_s:
            break
        stalled = min(stall_s(draw), trial_s - now)
        queue += load * stalled
        lost, queue = lost + max(0.0, queue - BUFFER), min(queue, BUFFER)
        now += stalled
    return min(1.0, math.floor(lost) / (load * trial_s))


def answer(
    search: Search, draw: random.Random, noise: float, capacity_pps: float = CAPACITY
) -> tuple[float, float]:
    """(value found, seconds of traffic)."""
    traffic_s = 0.0
    while (wanted := search.ask()) is not None:
        traffic_s += wanted.trial_s
        loss = loss_ratio(wanted.load, wanted.trial_s, draw, noise, capacity_pps)
        search.tell(TrialResult(wanted.load, wanted.trial_s, loss))
    value = search.bounds()[0].value
    assert value is not None
    return value, traffic_s


def variation(values: list[float]) -> float:
    return statistics.stdev(values) / statistics.mean(values)


def thirty(capacity_pps: float, noise: float, goal: Goal) -> tuple[float, float]:
    """(coefficient of variation, mean seconds of traffic) of thirty searches with seeds of their own."""
    made = [
        answer(
            MlrSearch(capacity_pps / 100, 2 * capacity_pps, (goal,)), random.Random(seed), noise, capacity_pps
        )
        for seed in range(30)
    ]
    return variation([value for value, _ in made]), statistics.mean(traffic_s for _, traffic_s in made)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.005, 0.01])
@pytest.mark.parametrize("capacity_pps", [10_000.0, 100_000.0, CAPACITY, FAST])
def test_thirty_searches_agree_within_three_percent_in_a_hundred_seconds(
    capacity_pps: float, noise: float
) -> None:
    differ, traffic_s = thirty(capacity_pps, noise, Goal())
    assert differ <= 0.03
    assert traffic_s <= 100.0


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.005, 0.01])
def test_a_second_preceding_target_lets_stalls_send_more_searches_down(noise: float) -> None:
    differ, traffic_s = thirty(FAST, noise, Goal(preceding=2))
    assert differ > 0.03
    assert differ > 1.4 * thirty(FAST, noise, Goal())[0]
    assert traffic_s <= 100.0


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.005, 0.01])
def test_behind_a_buffer_of_a_millisecond_they_agree_so_in_trials_of_half_a_second(noise: float) -> None:
    goal = Goal(initial_trial_s=0.5, final_trial_s=0.5)
    made = [
        answer(MlrSearch(3_000.0, 2_000_000.0, (goal,)), random.Random(seed), noise, FAST)
        for seed in range(30)
    ]
    assert variation([value for value, _ in made]) <= 0.03
    assert statistics.mean(traffic_s for _, traffic_s in made) <= 100.0
    assert statistics.mean(value for value, _ in made) == pytest.approx(FAST, rel=0.02)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trial_s", "half_full", "nearly_full"),
    [(1.0, 0.82, 0.56), (0.5, 0.91, 0.75)],
    ids=["1 s", "half a second"],
)
def test_as_a_second_behind_a_buffer_of_a_millisecond_is_good_or_bad_by_luck(
    trial_s: float, half_full: float, nearly_full: float
) -> None:
    """Bad with probability 1 - exp(-r t) at a low load, r the stalls a second that no buffer of 1 ms holds."""
    draw, count = random.Random(1), 3000
    for load, good in ((0.5, half_full), (0.97, nearly_full)):
        found = [loss_ratio(load * FAST, trial_s, draw, 0.005, FAST) == 0.0 for _ in range(count)]
        assert sum(found) / count == pytest.approx(good, abs=0.04)  # four standard errors
    fatal_per_s = STALLS_PER_S * (0.95 * math.exp(-2e-3 / STALL_S) + 0.05 * math.exp(-2e-3 / LONG_STALL_S))
    assert half_full == pytest.approx(math.exp(-fatal_per_s * trial_s), abs=0.02)


@pytest.mark.slow
def test_bisection_in_trials_of_sixty_seconds_differs_far_more_and_takes_far_longer() -> None:
    made = [answer(Bisection(3_000.0, 600_000.0), random.Random(seed), 0.01) for seed in range(30)]
    mlr = [answer(MlrSearch(3_000.0, 600_000.0), random.Random(seed), 0.01) for seed in range(30)]
    assert variation([value for value, _ in made]) >= 3 * variation([value for value, _ in mlr])
    assert statistics.mean(seconds for _, seconds in made) >= 5 * statistics.mean(
        seconds for _, seconds in mlr
    )


def test_a_device_without_noise_is_found_within_the_width() -> None:
    def told(search: Search, capacity: float) -> float:
        while (wanted := search.ask()) is not None:
            loss = max(0.0, 1.0 - capacity / wanted.load)
            search.tell(TrialResult(wanted.load, wanted.trial_s, loss))
        found = search.bounds()[0]
        assert found.lower is not None
        assert found.upper is not None
        assert found.lower <= capacity < found.upper
        assert found.upper - found.lower <= 0.005 * found.upper
        return found.lower

    for capacity in (12_345.0, 148_809.0, 599_000.0):
        told(MlrSearch(3_000.0, 600_000.0), capacity)
        told(Bisection(3_000.0, 600_000.0), capacity)
