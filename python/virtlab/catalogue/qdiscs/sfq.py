"""`sfq`: stochastic fairness queueing. Parameters by their tc-sfq(8) names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from virtlab.catalogue.declaration import Parameter, Values
from virtlab.catalogue.kinds import COUNT, DURATION, POSITIVE_SIZE
from virtlab.catalogue.qos import QosType
from virtlab.catalogue.queueing import Kernel, QueueDiscipline, Spans

if TYPE_CHECKING:
    from virtlab.plan import Queue

FLOWS, DEPTH_MAX, LIMIT = 128, 127, 127  # the kernel's own
DIVISOR_MAX = 65_536
FLOWS_MAX = 65_408  # SFQ_MAX_FLOWS
ETHERNET_HEADER_BYTES = 14


def _room(options: Values) -> Spans:
    """Flows and packets, in the order in which the kernel bounds them by one another.

    SFQ has no more flows than its divisor and limit have room for, and no more packets than its flows may hold
    (`sfq_change`, net/sched/sch_sfq.c); what it does is the same.
    """
    flows = options.get("flows", FLOWS)
    if "divisor" in options:
        flows = min(flows, options["divisor"])
    limit = min(options.get("limit_packets", LIMIT), options.get("depth", DEPTH_MAX) * flows)
    if "limit_packets" in options:
        flows = min(flows, limit)
    room = {"limit_packets": limit, "flows": flows}
    return {key: (options[key], kept, kept) for key, kept in room.items() if key in options}


def _beyond(queue: Queue) -> Iterator[tuple[str, str, str]]:
    values = queue.parameters
    if values.get("perturb_ns", 0) % 1_000_000_000:
        yield "parameters.perturb_ns", "the kernel counts whole seconds", "write seconds"
    if values.get("depth", 1) > DEPTH_MAX:
        reason = f"the kernel holds at most {DEPTH_MAX} packets of a flow"
        yield "parameters.depth", reason, f"write at most {DEPTH_MAX}"
    divisor = values.get("divisor", 1)
    if divisor > DIVISOR_MAX or divisor & (divisor - 1):
        reason = f"the kernel has a power of two of slots, at most {DIVISOR_MAX}"
        yield "parameters.divisor", reason, "write e.g. 1024"
    if values.get("flows", 1) > FLOWS_MAX:
        yield "parameters.flows", f"the kernel's {queue.kind} has {FLOWS_MAX} flows at most", "write fewer"


def _complete(values: dict[str, Any], mtu_bytes: int) -> dict[str, Any] | None:
    """A record of Open vSwitch cannot say a limit, nor 'never', and a quantum that it does not say is the MTU."""
    if values.get("limit_packets", LIMIT) == LIMIT:
        values.pop("limit_packets", None)
    if not values.get("perturb_ns"):
        return None
    values.setdefault("quantum_bytes", mtu_bytes + ETHERNET_HEADER_BYTES)
    return values


SFQ = QueueDiscipline(
    name="sfq",
    meaning="a fair share per hashed flow, in turn",
    limit=("packets",),
    default={"limit_packets": 127},
    parameters=(
        Parameter("quantum", POSITIVE_SIZE, "quantum_bytes", "bytes a flow may send per turn"),
        Parameter("perturb", DURATION, "perturb_ns", "time between changes of the hash; 0 s: never"),
        Parameter("flows", COUNT, "flows", "number of separate flows"),
        Parameter("depth", COUNT, "depth", "packets held per flow"),
        Parameter("divisor", COUNT, "divisor", "slots that flows are hashed into"),
    ),
    serves="any_order",
    calibrated="",
    kernel=Kernel(spans=_room, beyond=_beyond),
    qos=QosType(
        "linux-sfq",
        said={"quantum_bytes": ("quantum", 1), "perturb_ns": ("perturb", 10**9)},
        complete=_complete,
    ),
)
