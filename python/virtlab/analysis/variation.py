"""How delay varies: smoothed jitter (RFC 3550, as iperf), IPDV (RFC 3393), PDV (RFC 5481). One column of
delays in, one out; clock offset cancels in all three.
"""

from __future__ import annotations

from typing import Any

from virtlab.lazy import NDArray, np

GAIN = 1.0 / 16.0
_DOUBLINGS = 11  # (15/16)^(2^11) is below 1e-57: what lies further back cannot be seen in a double


def jitter_rfc3550(delay_ns: NDArray[Any]) -> NDArray[Any]:
    """J after each packet, in ns, of delays in order of arrival.

    Source: RFC 3550, section 6.4.1, and iperf3's `iperf_udp_recv`: D = |delay - delay before|, J += (D - J) /
    16, where the first packet is its own predecessor, so J begins at 0. The recursion is J_n = sum
    (15/16)^(n-k) D_k / 16, summed by doubling (Hillis and Steele), which differs from the step-by-step form
    by rounding only.

    >>> import numpy as np
    >>> jitter_rfc3550(np.array([100, 116, 100])).tolist()
    [0.0, 1.0, 1.9375]
    """
    if delay_ns.size == 0:
        return np.empty(0, dtype=np.float64)
    smoothed = np.zeros(delay_ns.size, dtype=np.float64)
    np.abs(np.diff(delay_ns), out=smoothed[1:], casting="unsafe")
    smoothed *= GAIN
    keep, reach = 1.0 - GAIN, 1
    for _ in range(_DOUBLINGS):
        if reach >= smoothed.size:
            break
        smoothed[reach:] += keep * smoothed[:-reach]
        keep, reach = keep * keep, reach * 2
    return smoothed


def ipdv(delay_ns: NDArray[Any], seq: NDArray[Any], flow: NDArray[Any]) -> NDArray[Any]:
    """|delay(i) - delay(i - 1)| for packets i whose predecessor by number arrived too, each number once (RFC
    3393).

    >>> import numpy as np
    >>> ipdv(np.array([10, 14, 11]), np.array([0, 1, 3]), np.zeros(3, dtype=np.int32)).tolist()
    [4]
    """
    if delay_ns.size < 2:
        return delay_ns[:0]
    one_flow = bool((flow == flow[0]).all())
    if not one_flow:
        order = np.argsort(flow, kind="stable")
        delay_ns, seq, flow = delay_ns[order], seq[order], flow[order]
    backwards = seq[1:] <= seq[:-1]
    if not one_flow:
        backwards &= flow[1:] == flow[:-1]
    if bool(backwards.any()):
        order = np.lexsort((seq, flow))
        delay_ns, seq, flow = delay_ns[order], seq[order], flow[order]
    follows = seq[1:] == seq[:-1] + 1
    if not one_flow:
        follows &= flow[1:] == flow[:-1]
    differences: NDArray[Any] = np.abs(np.diff(delay_ns))[follows]
    return differences
