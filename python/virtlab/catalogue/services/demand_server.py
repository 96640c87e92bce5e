"""`demand_server`: virtlab's own server on a guest of its own choice: for each request it spends a demand of processor
time.

It has the parameters of the server that a role of `request_response` brings along, and is asked by roles of that
workload. It stays where it is while roles come and go, so that several can load it, and the timeline can end it and
start it again. On several guests it is as many servers, or a cluster: one is active, and the others are passive and
forward to it.
"""

from collections.abc import Sequence

from virtlab.catalogue.declaration import Parameter, ServiceKind, Values
from virtlab.catalogue.kinds import COUNT, POSITIVE_DURATION, TEXT, Kind, shown
from virtlab.catalogue.services.program import PROGRAM
from virtlab.catalogue.workloads.request_response import (
    OF_OUR_SERVER,
    REQUEST_RESPONSE,
    TCP,
    UDP,
    server_mistakes,
)
from virtlab.units import nearest

ACTIVE = "active"
FORWARDS_DEFAULT, FORWARDS_MAX = 1024, 65_536
FORWARD_TIMEOUT_DEFAULT_NS = 10_000_000_000
OF_PASSIVE = {"forwards": "forwards", "forward_timeout": "forward_timeout_ns"}


def _check(values: Values) -> list[tuple[str, str]]:
    found = server_mistakes(values)
    for key, plan in OF_PASSIVE.items():
        if values.get(plan) is not None and values.get(ACTIVE) is None:
            found.append((key, "no server is passive; write 'active: GUEST', or remove it"))
    if int(values.get("forwards", 1)) > FORWARDS_MAX:
        found.append(("forwards", f"they are more than a server keeps; write at most {FORWARDS_MAX}"))
    return found


def _placed(values: Values, on: Sequence[str]) -> list[tuple[str, str]]:
    active = values.get(ACTIVE)
    if active is not None and active not in on:
        cure = nearest(str(active), on) or f"write one of {', '.join(on[:8])}"
        return [(ACTIVE, f"the service is not on '{shown(active)}'; {cure}")]
    if active is not None and len(on) < 2:
        return [(ACTIVE, "on one guest no server is passive; name more guests in 'on', or remove it")]
    return []


DEMAND_SERVER = ServiceKind(
    name="demand_server",
    meaning="virtlab's own server, which spends a demand of processor time on each request of request_response",
    parameters=(
        *(each for each in REQUEST_RESPONSE.parameters if each.name in OF_OUR_SERVER),
        Parameter(
            ACTIVE,
            Kind("guest", TEXT.parse, TEXT.schema, "h2.g1"),
            ACTIVE,
            "of several guests: the one whose server serves all requests; the others forward what enters there to it",
        ),
        Parameter(
            "forwards",
            COUNT,
            "forwards",
            "of a passive server: requests under way to the active one, at most; what comes beyond is refused, or waits, as "
            f"'full' says; absent: {FORWARDS_DEFAULT}",
        ),
        Parameter(
            "forward_timeout",
            POSITIVE_DURATION,
            "forward_timeout_ns",
            "of a passive server: a request without the answer of the active one by then is a bad gateway; absent: 10 s",
        ),
    ),
    operations=PROGRAM.operations,
    progresses=PROGRAM.progresses,
    speaks=frozenset({TCP, UDP}),
    port=7000,
    check=_check,
    placed=_placed,
    active=ACTIVE,
)


def forwarding(values: Values) -> dict[str, object]:
    """Bounds of a passive server, by their names in a Plan; all that a Plan leaves out is there."""
    usual = REQUEST_RESPONSE.complete({})
    return {
        "forwards": values.get("forwards", FORWARDS_DEFAULT),
        "forward_timeout_ns": values.get("forward_timeout_ns", FORWARD_TIMEOUT_DEFAULT_NS),
        "full": values.get("full", usual["full"]),
    }


def of_server(values: Values) -> dict[str, object]:
    """The parameters of a service in a Plan that apply to each server separately."""
    return {key: value for key, value in values.items() if key not in {ACTIVE, *OF_PASSIVE.values()}}
