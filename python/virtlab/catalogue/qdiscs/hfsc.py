"""`hfsc`: hierarchical fair service curve with one class. Parameters by their tc-hfsc(8) names."""

from virtlab.catalogue.declaration import Parameter, QueueDiscipline
from virtlab.catalogue.kinds import POSITIVE_DURATION, RATE

HFSC = QueueDiscipline(
    name="hfsc",
    meaning="a class served by a two-piece curve",
    limit=("packets",),
    parameters=(
        Parameter("m1", RATE, "m1_bit_per_s", "slope of the first piece; absent: one piece"),
        Parameter("d", POSITIVE_DURATION, "d_ns", "length of the first piece"),
        Parameter("m2", RATE, "m2_bit_per_s", "slope of the second piece", required=True),
    ),
)
