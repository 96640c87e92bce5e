"""Searches against a device made of numbers, in virtual time: how far answers of independent searches differ.

The device serves at most `CAPACITY` packets per second, less or more by 1 % from trial to trial, behind a buffer of
1000 packets; it stalls 5 times a second for an exponential time of 0.4 ms, 5 % of the stalls for 4 ms in the mean.

Where one trial in two loses a packet by such stalls alone the answer is no longer the capacity: with 1 Mpacket/s the
buffer holds only 1 ms, and searches then differ by 4.5 %.
"""

from __future__ import annotations

import math
import random
import statistics

import pytest

from virtlab.campaign.search import Bisection, MlrSearch, Search, Told

CAPACITY = 300_000.0
BUFFER = 1000
STALLS_PER_S = 5.0
STALL_S, LONG_STALL_S, LONG_SHARE = 0.4e-3, 4e-3, 0.05


def stall_s(draw: random.Random) -> float:
    return draw.expovariate(1 / (LONG_STALL_S if draw.random() < LONG_SHARE else STALL_S))


def loss_ratio(load: float, trial_s: float, draw: random.Random, noise: float) -> float:
    """Fluid queue: it fills at `load` during a stall and drains at the difference between stalls."""
    capacity = CAPACITY * (1.0 + draw.gauss(0.0, noise))
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


def answer(search: Search, draw: random.Random, noise: float) -> tuple[float, float]:
    """(value found, seconds of traffic)."""
    traffic_s = 0.0
    while (wanted := search.ask()) is not None:
        traffic_s += wanted.trial_s
        search.tell(Told(wanted.load, wanted.trial_s, loss_ratio(wanted.load, wanted.trial_s, draw, noise)))
    value = search.found()[0].value
    assert value is not None
    return value, traffic_s


def variation(values: list[float]) -> float:
    return statistics.stdev(values) / statistics.mean(values)


@pytest.mark.parametrize("noise", [0.005, 0.01])
def test_thirty_mlr_searches_agree_within_three_percent_in_a_hundred_seconds(noise: float) -> None:
    made = [answer(MlrSearch(3_000.0, 600_000.0), random.Random(seed), noise) for seed in range(30)]
    assert variation([value for value, _ in made]) <= 0.03
    assert statistics.mean(traffic_s for _, traffic_s in made) <= 100.0


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
            search.tell(Told(wanted.load, wanted.trial_s, loss))
        found = search.found()[0]
        assert found.lower is not None
        assert found.upper is not None
        assert found.lower <= capacity < found.upper
        assert found.upper - found.lower <= 0.005 * found.upper
        return found.lower

    for capacity in (12_345.0, 148_809.0, 599_000.0):
        told(MlrSearch(3_000.0, 600_000.0), capacity)
        told(Bisection(3_000.0, 600_000.0), capacity)
