"""`htb`: hierarchical token bucket with one class. Parameters by their tc-htb(8) names."""

from virtlab.catalogue.declaration import Parameter, QueueDiscipline
from virtlab.catalogue.kinds import CLASS_PRIORITY, POSITIVE_SIZE, RATE

HTB = QueueDiscipline(
    name="htb",
    meaning="a class with a guaranteed and a ceiling rate",
    limit=("packets",),
    default={"limit_packets": 1000},
    parameters=(
        Parameter("rate", RATE, "rate_bit_per_s", "guaranteed rate", required=True),
        Parameter("ceil", RATE, "ceil_bit_per_s", "ceiling; absent: the rate"),
        Parameter("burst", POSITIVE_SIZE, "burst_bytes", "bytes sent at ceiling speed in excess of the rate"),
        Parameter(
            "cburst",
            POSITIVE_SIZE,
            "cburst_bytes",
            "bytes sent at once in excess of the ceiling; absent: burst",
        ),
        Parameter("quantum", POSITIVE_SIZE, "quantum_bytes", "bytes a class may send per turn"),
    ),
    classes=(
        Parameter("rate", RATE, "rate_bit_per_s", "guaranteed rate", required=True),
        Parameter("ceil", RATE, "ceil_bit_per_s", "ceiling; absent: the rate"),
        Parameter("burst", POSITIVE_SIZE, "burst_bytes", "bytes sent at once at rate"),
        Parameter("cburst", POSITIVE_SIZE, "cburst_bytes", "bytes sent at once at ceil"),
        Parameter("prio", CLASS_PRIORITY, "prio", "0 to 7: the smallest borrows first; absent: 0"),
        Parameter("quantum", POSITIVE_SIZE, "quantum_bytes", "bytes per turn among equals"),
    ),
    tree=True,
)
