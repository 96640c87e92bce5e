"""A probe beside one burst a period: every round trip in closed form, and how far the fluid form lies from the mean.

One side sends a datagram of n fragments every T, the far end answers it with an equal one as soon as it is whole. O is
what a full fragment holds a link, p what the probe's frame does, D what all fragments do, h the switches in line, all
links alike. Let a probe come u after a burst has begun.

- Towards the far end it waits D - u for the burst, if u < D. A burst of full fragments leaves every switch O later than
  it would without storing, the probe behind it only p later, so it waits O - p more at each.
- It reaches the far end p behind the burst's end: the answer has begun p before, so it waits D - p; and again O - p
  more at each switch on the way back. If D < u it gains u - D on the answer, to the nanosecond.

Hence the wait is max(0, M - u), M = 2 D - p + 2 h (O - p), a triangle: for M <= T its mean is M^2 / 2 T, else M - T/2.
The fluid form, base + [3/2 D^2 + D a - a^2/2] / T with a = min(D, T - D), is the same triangle with M = 2 D. So the
sign of its error is that of 2 h (O - p) - p, that is:

- for a probe as long as the fragments (p = O: the 1500 B echo) the fluid form lies above every simulated mean, by 1 to
  4 % from a tenth of the period on, and no wait is longer than 2 D. A mean above the form and no wait beyond 2 D cannot
  both be: the mean grows with M.
- for a short probe (p < 2 h O / (2 h + 1)) it lies below the mean by as much, and the longest wait is beyond 2 D by
  2 h O at most.

A burst of several datagrams is answered in parts and overlaps with its own answer: then the form is an upper bound
only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from tests.contract.closed_form import fragments, holding_ns, one_way_ns, path_between
from tests.theory.simulated import beside, parsed, simulated, values_of

PERIOD_NS = 10_000_000
STEP_NS = 5_000  # the probe's phase moves on by so much, and meets all of a period once
COUNT = PERIOD_NS // STEP_NS
FULL, SHORT = 1500, 64  # bytes of the probe's IP packet
BURSTS = [
    (10**8, 12_000),
    (10**8, 30_000),
    (10**8, 61_000),
    (10**8, 65_000),
    (5 * 10**7, 50_000),
    (5 * 10**7, 58_000),
]


@dataclass(frozen=True)
class Beside:
    """Waits of probes at their phases, and the lengths in the formulas, all in ns."""

    phase: np.ndarray
    wait: np.ndarray
    base: int
    burst: int
    full: int
    probe: int
    switches: int

    @property
    def longest(self) -> int:
        """M."""
        return 2 * self.burst - self.probe + 2 * self.switches * (self.full - self.probe)

    @property
    def fluid(self) -> float:
        """The mean round trip of the fluid form."""
        d, t = self.burst, PERIOD_NS
        a = min(d, t - d)
        return self.base + (1.5 * d**2 + d * a - a**2 / 2) / t

    @property
    def exact(self) -> float:
        """The mean round trip in packets."""
        longest, t = self.longest, PERIOD_NS
        return self.base + (longest**2 / (2 * t) if longest <= t else longest - t / 2)

    @property
    def mean(self) -> float:
        """The simulated mean round trip."""
        return float(self.base + self.wait.mean())


def beside_a_burst(rate_bit_per_s: int, burst_bytes: int, switches: int, probe_bytes: int) -> Beside:
    values = values_of(
        switches=switches, ip_packet_bytes=probe_bytes, interval_ns=PERIOD_NS + STEP_NS, count=COUNT
    )
    for link in values["world"]["links"].values():
        link["rate_bit_per_s"] = rate_bit_per_s
    load = {"burst_bytes": burst_bytes, "period_ns": PERIOD_NS, "direction": "request_reply"}
    plan = beside(values, load)
    outcome, kept = simulated(plan)
    assert outcome.status == "ok", outcome.reasons
    begin = kept.column("load", "burst/1", "sent_ns")
    assert set(np.diff(begin)) == {PERIOD_NS}
    base = 2 * one_way_ns([probe_bytes], path_between(parsed(plan), "a", "b"))
    rtt = kept.column("probe", "rtt/1", "rtt_ns")
    assert len(rtt) == COUNT
    return Beside(
        (kept.column("probe", "rtt/1", "sent_ns") - begin[0]) % PERIOD_NS,
        rtt - base,
        base,
        sum(holding_ns(size, rate_bit_per_s) for size in fragments(burst_bytes + 28, 1500)),
        holding_ns(FULL, rate_bit_per_s),
        holding_ns(probe_bytes, rate_bit_per_s),
        switches,
    )


@pytest.fixture(scope="module", params=BURSTS, ids=lambda each: f"{each[0] // 10**6} Mbit/s, {each[1]} B")
def burst(request: pytest.FixtureRequest) -> tuple[int, int]:
    return request.param  # type: ignore[no-any-return]


@pytest.mark.parametrize("probe_bytes", [FULL, 700, SHORT])
@pytest.mark.parametrize("switches", [0, 1, 2])
def test_every_probe_waits_as_long_as_its_phase_says(
    burst: tuple[int, int], switches: int, probe_bytes: int
) -> None:
    """Those that come while the first frame is on the link, or as the last one leaves it, may miss or meet a frame
    more.
    """
    found = beside_a_burst(*burst, switches, probe_bytes)
    held_up = np.maximum(
        found.phase - STEP_NS + found.probe - PERIOD_NS, 0
    )  # this burst, by the probe before
    exact = np.maximum(found.longest + held_up - found.phase, 0)
    inside = (found.phase > found.full) & (np.abs(found.phase - found.burst) > found.full)
    far = np.abs(found.phase - found.longest) > 2 * (switches + 1) * found.full
    assert found.wait[inside & far] == pytest.approx(exact[inside & far], abs=0)
    assert np.abs(found.wait - exact).max() <= (2 * switches + 2) * found.full
    assert found.mean == pytest.approx(found.exact, rel=0.005)


@pytest.mark.parametrize("switches", [1, 2])
def test_the_fluid_form_lies_one_to_four_percent_above_for_a_full_probe_and_bounds_every_wait(
    burst: tuple[int, int], switches: int
) -> None:
    found = beside_a_burst(*burst, switches, FULL)
    assert 1.01 < found.fluid / found.mean < 1.04
    assert found.wait.min() >= 0
    assert found.wait.max() <= 2 * found.burst


@pytest.mark.parametrize(("rate_bit_per_s", "burst_bytes"), [(10**8, 61_000), (5 * 10**7, 50_000)])
def test_for_a_short_probe_the_mean_lies_above_the_fluid_form_and_the_longest_wait_beyond_both_bursts(
    rate_bit_per_s: int, burst_bytes: int
) -> None:
    found = beside_a_burst(rate_bit_per_s, burst_bytes, 1, SHORT)
    assert 1.01 < found.mean / found.fluid < 1.05
    assert 2 * found.burst < found.wait.max() <= 2 * (found.burst + found.full)
