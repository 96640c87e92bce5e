"""`netem`: a distant network behind a port: every packet is held for a time, and some are lost at random. tc-netem(8)."""

from virtlab.catalogue.declaration import Parameter, QueueDiscipline
from virtlab.catalogue.kinds import DURATION, LOSS_RATIO

NETEM = QueueDiscipline(
    name="netem",
    meaning="holds each packet for a time and loses some at random, in the order in which they came",
    limit=("packets",),
    default={"limit_packets": 1000},
    parameters=(
        Parameter("delay", DURATION, "delay_ns", "how long each packet is held", "0 s"),
        Parameter("loss", LOSS_RATIO, "loss_ratio", "share of packets lost at random", "0 %"),
    ),
)
