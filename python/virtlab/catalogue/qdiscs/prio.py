"""`prio`: strict priority over classes. Parameters by their tc-prio(8) names."""

from virtlab.catalogue.declaration import Parameter, QueueDiscipline
from virtlab.catalogue.kinds import COUNT

PRIO = QueueDiscipline(
    name="prio",
    meaning="a class is served only while all of better priority are empty",
    limit=("packets",),
    classes=(Parameter("prio", COUNT, "prio", "the smallest is served first"),),
    bare=False,
)
