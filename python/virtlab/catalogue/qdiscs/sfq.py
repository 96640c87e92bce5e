"""`sfq`: stochastic fairness queueing. Parameters by their tc-sfq(8) names."""

from virtlab.catalogue.declaration import Parameter, QueueDiscipline
from virtlab.catalogue.kinds import COUNT, DURATION, POSITIVE_SIZE

SFQ = QueueDiscipline(
    name="sfq",
    meaning="a fair share per hashed flow, in turn",
    limit=("packets",),
    default={"limit_packets": 127},
    parameters=(
        Parameter("quantum", POSITIVE_SIZE, "quantum_bytes", "bytes a flow may send per turn"),
        Parameter("perturb", DURATION, "perturb_ns", "time between changes of the hash; 0 s: never"),
        Parameter("flows", COUNT, "flows", "number of flows told apart"),
        Parameter("depth", COUNT, "depth", "packets held per flow"),
        Parameter("divisor", COUNT, "divisor", "slots that flows are hashed into"),
    ),
)
