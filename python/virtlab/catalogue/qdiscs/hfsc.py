"""`hfsc`: hierarchical fair service curve with one class. Parameters by their tc-hfsc(8) names."""

from virtlab.catalogue.declaration import Parameter, QueueDiscipline
from virtlab.catalogue.kinds import POSITIVE_DURATION, RATE

HFSC = QueueDiscipline(
    name="hfsc",
    meaning="a class served by a two-piece curve",
    limit=("packets",),
    default={"limit_packets": 1000},
    parameters=(
        Parameter("m1", RATE, "m1_bit_per_s", "slope of the first piece; absent: one piece"),
        Parameter("d", POSITIVE_DURATION, "d_ns", "length of the first piece"),
        Parameter("m2", RATE, "m2_bit_per_s", "slope of the second piece", required=True),
    ),
    classes=(
        Parameter("rt_m1", RATE, "rt_m1_bit_per_s", "first slope of the real-time curve"),
        Parameter("rt_d", POSITIVE_DURATION, "rt_d_ns", "length of the first piece of the real-time curve"),
        Parameter("rt_m2", RATE, "rt_m2_bit_per_s", "second slope of the real-time curve"),
        Parameter("ls_m1", RATE, "ls_m1_bit_per_s", "first slope of the link-share curve"),
        Parameter("ls_d", POSITIVE_DURATION, "ls_d_ns", "length of the first piece of the link-share curve"),
        Parameter("ls_m2", RATE, "ls_m2_bit_per_s", "second slope of the link-share curve"),
        Parameter("ul_m1", RATE, "ul_m1_bit_per_s", "first slope of the upper-limit curve"),
        Parameter("ul_d", POSITIVE_DURATION, "ul_d_ns", "length of the first piece of the upper-limit curve"),
        Parameter("ul_m2", RATE, "ul_m2_bit_per_s", "second slope of the upper-limit curve"),
    ),
    tree=True,
)
