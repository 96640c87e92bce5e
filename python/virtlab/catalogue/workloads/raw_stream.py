"""`raw_stream`: frames of exact size with sequence number and time stamp, through memory-mapped rings, in one or many
flows.

`via` names guests that forward: flow f goes to the vNIC of guest number f modulo their count that stands on the
sender's virtual switch, as UDP over IPv4 to the receiver. `shares` gives each flow its part of the rate; `split`
says the same as how many flows are strong, and what the weak ones carry together (`catalogue.split`), and becomes
`shares` in the Plan. One thread sends all flows, or `threads` of them share the flows.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from virtlab.catalogue import split
from virtlab.catalogue.declaration import Parameter, Values, Workload
from virtlab.catalogue.flows import flows_of
from virtlab.catalogue.kinds import (
    ARRIVALS,
    COUNT,
    DSCP,
    FRAME_SIZE,
    PACKET_RATE,
    PACKET_RATE_OR_NONE,
    POSITIVE_DURATION,
    PRIORITY,
    PROPER_RATIO,
    Kind,
    PlacedError,
    shown,
)
from virtlab.catalogue.measures import STREAM
from virtlab.units import nearest
from virtlab.units.ethernet import FRAME_LEAST_BYTES

FRAME_MAX_BYTES = 9_018
RATE_GUESS_PPS = 500_000  # of an estimate, where the file does not say the rate
FLOWS_MAX = 4_096
SHARES_TOLERANCE = 1e-6  # by which shares may miss a sum of 1


def _guests(value: Any) -> list[str]:
    if not isinstance(value, list) or not value:
        raise ValueError(f"'{shown(value)}' is not a list of guests; write e.g. '[h1.g1, h1.g2]'")
    for place, guest in enumerate(value):
        if not isinstance(guest, str):
            raise PlacedError((place,), f"'{shown(guest)}' is not a guest; name one, e.g. h1.g1")
        if guest in value[:place]:
            raise PlacedError((place,), f"'{guest}' is in the list already; name each guest once")
    return list(value)


def _shares(value: Any) -> list[float]:
    if not isinstance(value, list) or len(value) < 2:
        raise ValueError(f"'{shown(value)}' is not a list of shares; write e.g. '[99 %, 1 %]'")
    found: list[float] = []
    for place, share in enumerate(value):
        try:
            found.append(PROPER_RATIO.parse(share))
        except ValueError as error:
            raise PlacedError((place,), str(error)) from None
    if abs(sum(found) - 1.0) > SHARES_TOLERANCE:
        raise ValueError(f"the shares sum to {sum(found):.9g}, not to 1; write e.g. '[99 %, 1 %]'")
    return found


GUESTS = Kind(
    "list of guests", _guests, {"type": "array", "minItems": 1, "items": {"type": "string"}}, "[h1.g1, h1.g2]"
)
SHARES = Kind(
    "list of shares",
    _shares,
    {"type": "array", "minItems": 2, "items": PROPER_RATIO.schema},
    "[99 %, 1 %]",
)


def _split(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ValueError(f"'{shown(value)}' is not a split of a load; write e.g. '{SPLIT_EXAMPLE}'")
    for key in value:
        if key not in SPLIT_KEYS:
            cure = nearest(str(key), SPLIT_KEYS) or f"it has {', '.join(SPLIT_KEYS)}"
            raise ValueError(f"unknown key '{shown(key)}' of a split; {cure}")
    found: dict[str, Any] = {}
    for key, kind in SPLIT_KEYS.items():
        if key not in value:
            raise ValueError(f"a split without '{key}'; write e.g. '{SPLIT_EXAMPLE}'")
        try:
            found[key] = kind.parse(value[key])
        except ValueError as error:
            raise PlacedError((key,), str(error)) from None
    return found


SPLIT_KEYS = {"strong": COUNT, "weak_share": PROPER_RATIO}
SPLIT_EXAMPLE = "{strong: 4, weak_share: 1 %}"
_REFERENCE = {"$ref": "#/$defs/reference"}
SPLIT = Kind(
    "split of a load",
    _split,
    {
        "type": "object",
        "properties": {key: {"anyOf": [kind.schema, _REFERENCE]} for key, kind in SPLIT_KEYS.items()},
        "required": list(SPLIT_KEYS),
        "additionalProperties": False,
    },
    SPLIT_EXAMPLE,
)


def _rows(values: Values, traffic_ns: int) -> Mapping[str, int]:
    return {"packet/1": int(values.get("rate_pps", RATE_GUESS_PPS)) * traffic_ns // 10**9 + 1}


def _check(values: Values) -> list[tuple[str, str]]:
    found = []
    size_bytes, flows = int(values["frame_bytes"]), flows_of(values)
    if not FRAME_LEAST_BYTES <= size_bytes <= FRAME_MAX_BYTES:
        what = f"a frame of {size_bytes} B does not exist"
        found.append(("size", f"{what}; write between '64 B frame' and '9018 B frame'"))
    if flows > FLOWS_MAX:
        found.append(("flows", f"{flows} flows are more than one role has; write at most {FLOWS_MAX}"))
    shares, via = values.get("shares"), values.get("via")
    if shares is not None and len(shares) != flows:
        found.append(("shares", f"{len(shares)} shares for {flows} flows; write one per flow"))
    if values.get("split") is not None:
        found += _check_split(values, flows)
    if via is not None and flows % len(via):
        what = f"{flows} flows do not divide over {len(via)} guests"
        found.append(("flows", f"{what}; write a multiple of {len(via)}, or remove 'flows'"))
    if values.get("dscp") and via is None:
        found.append(("dscp", "frames without IP carry no code point; write 'via', or 'priority'"))
    threads = int(values.get("threads") or 1)
    if threads > flows:
        what = f"{threads} threads for {flows} flow{'s' if flows > 1 else ''}"
        found.append(
            ("threads", f"{what}; a flow goes from one thread: write at most {flows}, or more flows")
        )
    return found


def _check_split(values: Values, flows: int) -> list[tuple[str, str]]:
    if values.get("shares") is not None:
        return [("split", "a load is shared by 'shares' or by 'split'; keep one of them")]
    if flows < 2:
        what = "one flow cannot share its load"
        return [("split", f"{what}; say how many there are by 'via' or 'flows', or remove 'split'")]
    try:
        split.shares(flows, values["split"]["strong"], values["split"]["weak_share"])
    except ValueError as error:
        return [("split", str(error).replace("guests", "flows"))]
    return []


def _lowered(values: Values) -> dict[str, Any]:
    """A `split` as the `shares` that it means, strong flows first.

    >>> _lowered({"flows": 4, "split": {"strong": 3, "weak_share": 0.01}})["shares"]
    [0.33, 0.33, 0.33, 0.01]
    """
    found = {key: value for key, value in values.items() if key != "split"}
    said = values.get("split")
    if said is not None:
        found["shares"] = list(split.shares(flows_of(values), said["strong"], said["weak_share"]))
    return found


def _never(values: Values) -> frozenset[str]:
    """One flow has no fairness, flows of more than two shares no combined delay, a flood no rate to fall short of.

    >>> sorted(_never({"flows": 2}))
    ['achieved_share', 'offered_load']
    """
    found: set[str] = set()
    if values.get("rate_pps") is None:
        found |= {"offered_load", "achieved_share"}
    if flows_of(values) < 2:
        found |= {"fairness", "offered_fairness"}
    if flows_of(values) < 2 or len(set(values.get("shares") or ())) > 2:
        found |= {"split_owd", "split_latency"}
    return frozenset(found)


RAW_STREAM = Workload(
    name="raw_stream",
    meaning="frames of exact size, one way, straight or by way of guests that forward",
    part="measure",
    parameters=(
        Parameter("size", FRAME_SIZE, "frame_bytes", "size of one frame, header to checksum", "64 B frame"),
        Parameter(
            "rate",
            PACKET_RATE,
            "rate_pps",
            "frames per second of all flows together; 0 packet/s: no stream; absent: as fast as possible",
            tunable=True,
            at_start=PACKET_RATE_OR_NONE,
        ),
        Parameter("duration", POSITIVE_DURATION, "duration_ns", "how long it sends", "10 s"),
        Parameter(
            "flows",
            COUNT,
            "flows",
            "number of flows, each with its own loss; absent: one, or one per share or guest",
        ),
        Parameter("shares", SHARES, "shares", "each flow's part of the rate; absent: equal"),
        Parameter(
            "split",
            SPLIT,
            "split",
            "instead of shares: so many strong flows, and the share that all others carry together",
        ),
        Parameter(
            "threads",
            COUNT,
            "threads",
            "threads that send, flows shared among them; absent: one (in virtual time one sends as fast as any)",
        ),
        Parameter(
            "arrivals",
            ARRIVALS,
            "arrivals",
            "gaps: constant, or poisson, exponential of the same mean; absent: constant",
        ),
        Parameter("dscp", DSCP, "dscp", "code point in the IP headers of its frames; with 'via'"),
        Parameter(
            "priority", PRIORITY, "priority", "802.1p priority: frames carry a tag with it, of no VLAN"
        ),
        Parameter("via", GUESTS, "via", "guests that forward, one flow by way of each"),
    ),
    streams={"packet/1": "to"},
    metrics=STREAM
    | {
        "first_owd", "later_owd", "split_owd", "offered_fairness", "ndr_rate", "pdr_rate", "split_latency",
    },
    transport=lambda _: "ethernet",
    duration_ns=lambda values: int(values["duration_ns"]),
    rows=_rows,
    check=_check,
    idle=lambda values: values.get("rate_pps") == 0,
    lowered=_lowered,
    never=_never,
    parts=True,
    pace="rate_pps",
    envelope="frames",
    tells=lambda _: "packet/1",
)  # fmt: skip
