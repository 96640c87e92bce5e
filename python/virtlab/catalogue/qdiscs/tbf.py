"""`tbf`: token bucket filter. Parameters by their tc-tbf(8) names."""

from virtlab.catalogue.declaration import Parameter, QueueDiscipline
from virtlab.catalogue.kinds import POSITIVE_SIZE, RATE

TBF = QueueDiscipline(
    name="tbf",
    meaning="holds packets to a rate with a bucket of tokens",
    limit=("bytes",),
    parameters=(
        Parameter("rate", RATE, "rate_bit_per_s", "rate of the tokens", required=True),
        Parameter("burst", POSITIVE_SIZE, "burst_bytes", "size of the bucket", required=True),
    ),
)
