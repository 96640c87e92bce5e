"""How a total load is shared by N guests of which k are strongly loaded.

The weak N - k guests together carry a share q of the total O, the strong ones the rest, equally within each
group; for k = N everybody carries O/N:

    O_h = (1 - q) O / k        O_l = q O / (N - k)

Source: the load split of the published forwarding study (N = 12, q = 0.01). This file knows numbers only.
"""

from __future__ import annotations

from collections.abc import Sequence


def _checked(guests: int, strong: int, weak_share: float) -> None:
    if guests < 1:
        raise ValueError(f"{guests} guests share nothing; name at least one")
    if not 1 <= strong <= guests:
        raise ValueError(f"{strong} of {guests} guests cannot be strong; write between 1 and {guests}")
    if strong < guests and not 0 <= weak_share < 1:
        raise ValueError(f"a weak share of {weak_share:g} is not a share; write between 0 % and 100 %")


def shares(guests: int, strong: int, weak_share: float) -> tuple[float, ...]:
    """Share of the total of each guest, the strong ones first; they add up to 1. ValueError when impossible.

    >>> [round(share, 5) for share in shares(4, 1, 0.03)]
    [0.97, 0.01, 0.01, 0.01]
    """
    _checked(guests, strong, weak_share)
    if strong == guests:
        return (1.0 / guests,) * guests
    high, low = (1.0 - weak_share) / strong, weak_share / (guests - strong)
    return (high,) * strong + (low,) * (guests - strong)


def combined_latency_ns(weak_ns: Sequence[float], strong_ns: Sequence[float], weak_share: float) -> float:
    """L = q mean(L over weak) + (1 - q) mean(L over strong); the plain mean when no guest is weak.

    The published formula divides by the number of weak guests, which is 0 for k = N, and starts both sums at
    1, which adds a guest that does not exist. Both are mended here. ValueError without a strong guest.
    """
    if not strong_ns:
        raise ValueError("no strong guest has a latency; every split has at least one")
    strong = sum(strong_ns) / len(strong_ns)
    if not weak_ns:
        return strong
    return weak_share * sum(weak_ns) / len(weak_ns) + (1.0 - weak_share) * strong
