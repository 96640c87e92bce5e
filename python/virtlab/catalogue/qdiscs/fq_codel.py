"""`fq_codel`: CoDel per hashed flow, flows in turn (RFC 8290). Parameters by their tc-fq_codel(8) names."""

from virtlab.catalogue.declaration import Parameter, QueueDiscipline
from virtlab.catalogue.kinds import COUNT, FLAG, POSITIVE_DURATION, POSITIVE_SIZE

FQ_CODEL = QueueDiscipline(
    name="fq_codel",
    meaning="CoDel in every hashed flow, flows in turn",
    limit=("packets",),
    default={"limit_packets": 10240},
    parameters=(
        Parameter("flows", COUNT, "flows", "number of flows told apart", 1024),
        Parameter("quantum", POSITIVE_SIZE, "quantum_bytes", "bytes a flow may send per turn", "1514 B"),
        Parameter("target", POSITIVE_DURATION, "target_ns", "acceptable standing wait", "5 ms"),
        Parameter("interval", POSITIVE_DURATION, "interval_ns", "how long the wait must exceed it", "100 ms"),
        Parameter("ecn", FLAG, "ecn", "marks instead of dropping", default=True),
        Parameter("memory_limit", POSITIVE_SIZE, "memory_limit_bytes", "bytes that may wait in all"),
        Parameter("drop_batch", COUNT, "drop_batch", "most packets dropped at once over the limit"),
    ),
)
