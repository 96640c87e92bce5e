"""Sizes of the objects or files that a role writes: one, several with their shares, or a distribution.

A distribution is cut into 200 parts of equal probability, and a size drawn is the mean of one of them. So the mean of
all sizes is the one that the file states, and no size is larger than the mean of the last part: 6.3 times the mean of
an exponential distribution.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from math import inf, log, sqrt
from typing import Any

from virtlab.catalogue.kinds import POSITIVE_SIZE, RATIO, SIZE, Kind, PlacedError, shown

SHARE_MAX = 10**6
SIZES_MAX = 1000  # of one role
PARTS = 200  # of a distribution


def share_of(name: Any, share: Any) -> float:
    """The share of an operation or of a size. PlacedError where it is not a number above 0."""
    if isinstance(share, bool) or not isinstance(share, int | float) or not 0 < share <= SHARE_MAX:
        raise PlacedError((name,), f"'{shown(share)}' is not a share; write a number above 0")
    return float(share)


def uniform(lowest: float, highest: float) -> Iterator[float]:
    """Means of the parts of a uniform distribution.

    >>> [round(size) for size in uniform(0, 400)][:3]
    [1, 3, 5]
    """
    width = (highest - lowest) / PARTS
    return (lowest + (part + 0.5) * width for part in range(PARTS))


def exponential(mean: float) -> Iterator[float]:
    """Means of the parts of an exponential distribution: between a and b, of ((m + a) e^(-a/m) - (m + b) e^(-b/m)).

    >>> sizes = list(exponential(1000))
    >>> round(sum(sizes) / len(sizes)), round(sizes[-1])
    (1000, 6298)
    """
    tails = [1 - part / PARTS for part in range(PARTS)] + [0.0]  # probability to be larger
    sums = [mean * tail * (1 - log(tail)) if tail else 0.0 for tail in tails]
    return ((sums[part] - sums[part + 1]) * PARTS for part in range(PARTS))


def lognormal(mean: float, variation: float) -> Iterator[float]:
    """Means of the parts of a lognormal distribution; `variation`: its standard deviation over its mean. Source of the
    partial mean, m (N(b - s) - N(a - s)): Johnson, Kotz, Balakrishnan, Continuous Univariate Distributions 1, 14.3.

    >>> sizes = list(lognormal(1000, 2))
    >>> round(sum(sizes) / len(sizes)), round(sizes[0]), round(sizes[-1])
    (1000, 12, 19115)
    """
    from statistics import NormalDist

    normal, deviation = NormalDist(), sqrt(log(1 + variation**2))
    edges = [-inf, *(normal.inv_cdf(part / PARTS) for part in range(1, PARTS)), inf]
    sums = [normal.cdf(edge - deviation) if abs(edge) < inf else float(edge > 0) for edge in edges]
    return (mean * (sums[part + 1] - sums[part]) * PARTS for part in range(PARTS))


def _uniform(value: Any) -> Iterator[float]:
    if not isinstance(value, list) or len(value) != 2:
        raise ValueError(f"'{shown(value)}' is not a range; write [1 kB, 100 kB]")
    lowest, highest = (SIZE.parse(size) for size in value)
    if lowest >= highest:
        raise ValueError(f"'{shown(value[0])}' is not less than '{shown(value[1])}'; write [1 kB, 100 kB]")
    return uniform(lowest, highest)


def _exponential(value: Any) -> Iterator[float]:
    return exponential(POSITIVE_SIZE.parse(value))


def _lognormal(value: Any) -> Iterator[float]:
    if not isinstance(value, dict) or set(value) != {"mean", "variation"}:
        raise ValueError(f"'{shown(value)}' has not both; write {{mean: 10 kB, variation: 200 %}}")
    return lognormal(POSITIVE_SIZE.parse(value["mean"]), RATIO.parse(value["variation"]))


DISTRIBUTIONS: Mapping[str, tuple[Callable[[Any], Iterator[float]], dict[str, Any]]] = {
    "uniform": (_uniform, {"type": "array", "items": SIZE.schema, "minItems": 2, "maxItems": 2}),
    "exponential": (_exponential, POSITIVE_SIZE.schema),
    "lognormal": (
        _lognormal,
        {
            "type": "object",
            "properties": {"mean": POSITIVE_SIZE.schema, "variation": RATIO.schema},
            "required": ["mean", "variation"],
            "additionalProperties": False,
        },
    ),
}


def _distributed(name: str, value: Any) -> list[list[float]]:
    """Sizes of a distribution in bytes, each with its share; those that round to the same are one."""
    read, _ = DISTRIBUTIONS[name]
    try:
        shares = Counter(round(size) for size in read(value))
    except ValueError as error:
        raise PlacedError((name,), str(error)) from error
    return [[size, float(share)] for size, share in sorted(shares.items())]


def _sizes(value: Any) -> tuple[str, Any]:
    if not isinstance(value, list | dict):
        return "object_bytes", SIZE.parse(value)
    if isinstance(value, dict) and len(value) == 1 and (name := next(iter(value))) in DISTRIBUTIONS:
        return "object_sizes", _distributed(name, value[name])
    shares = value if isinstance(value, dict) else dict.fromkeys(value, 1)
    if not 1 < len(shares) <= SIZES_MAX or len(shares) < len(value):
        raise ValueError(
            f"'{shown(value)}' is not a list of different sizes; write 2 to {SIZES_MAX} different ones, e.g. "
            f"[10 kB, 1 MB], or a distribution: {', '.join(DISTRIBUTIONS)}"
        )
    return "object_sizes", [[SIZE.parse(size), share_of(size, share)] for size, share in shares.items()]


OBJECT_SIZES = Kind(
    "size, sizes with shares, or a distribution",
    _sizes,
    {
        "anyOf": [
            SIZE.schema,
            {"type": "array", "items": SIZE.schema, "minItems": 2},
            *(
                {"type": "object", "properties": {name: schema}, "required": [name], "maxProperties": 1}
                for name, (_, schema) in DISTRIBUTIONS.items()
            ),
            {
                "type": "object",
                "additionalProperties": {"type": "number", "exclusiveMinimum": 0},
                "minProperties": 2,
            },
        ]
    },
    "{10 kB: 8, 1 MB: 2}",
)
