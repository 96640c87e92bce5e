"""The flows of a stream, by the values of its role in a Plan: how many there are, and what they are called."""

from __future__ import annotations

from virtlab.catalogue.declaration import Values

FLOWS_TOLD = 64  # up to so many have counters and values of their own


def flows_of(values: Values) -> int:
    """How many flows the Plan values make: as said, else one per share, else one per forwarding guest, else one.

    >>> flows_of({"via": ["a", "b"]}), flows_of({}), flows_of({"flows": 4, "via": ["a", "b"]})
    (2, 1, 4)
    """
    said = values.get("flows")
    return int(said) if said is not None else len(values.get("shares") or values.get("via") or (1,))


def flow_names(values: Values) -> list[str]:
    """What the flows are called: the guests that forward them, where there is one for each; none of a single flow.

    >>> flow_names({"via": ["h1.a", "h1.b"]}), flow_names({"flows": 2}), flow_names({})
    (['h1.a', 'h1.b'], ['flow0', 'flow1'], [])
    """
    flows, via = flows_of(values), list(values.get("via") or ())
    if flows < 2:
        return []
    return via if len(via) == flows else [f"flow{flow}" for flow in range(flows)]
