"""`drr`: deficit round robin over classes. Parameters by their tc-drr(8) names."""

from virtlab.catalogue.declaration import Parameter, QueueDiscipline
from virtlab.catalogue.kinds import POSITIVE_SIZE

DRR = QueueDiscipline(
    name="drr",
    meaning="classes in turn, each by its quantum",
    limit=("packets",),
    classes=(
        Parameter("quantum", POSITIVE_SIZE, "quantum_bytes", "bytes a class may send per round", "1514 B"),
    ),
    bare=False,
)
