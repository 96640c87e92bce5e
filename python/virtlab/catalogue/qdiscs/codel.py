"""`codel`: drops by how long packets waited (RFC 8289). Parameters by their tc-codel(8) names."""

from virtlab.catalogue.declaration import Parameter, QueueDiscipline
from virtlab.catalogue.kinds import FLAG, POSITIVE_DURATION

CODEL = QueueDiscipline(
    name="codel",
    meaning="drops packets once their wait stayed above a target for an interval",
    limit=("packets",),
    default={"limit_packets": 1000},
    parameters=(
        Parameter("target", POSITIVE_DURATION, "target_ns", "acceptable standing wait", "5 ms"),
        Parameter("interval", POSITIVE_DURATION, "interval_ns", "how long the wait must exceed it", "100 ms"),
        Parameter("ecn", FLAG, "ecn", "marks instead of dropping", default=False),
        Parameter("ideal", FLAG, "ideal", "drops by RFC 8289's control law, not Linux's approximation"),
    ),
)
