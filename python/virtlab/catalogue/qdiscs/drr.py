"""`drr`: deficit round robin over classes. Parameters by their tc-drr(8) names."""

from virtlab.catalogue.declaration import Parameter
from virtlab.catalogue.kinds import POSITIVE_SIZE
from virtlab.catalogue.queueing import TWO_CLASSES, Kernel, QueueDiscipline

QUANTUM_BYTES = 1514  # of a class that says nothing

DRR = QueueDiscipline(
    name="drr",
    meaning="classes in turn, each by its quantum",
    limit=("packets",),
    classes=(
        Parameter("quantum", POSITIVE_SIZE, "quantum_bytes", "bytes a class may send per round", "1514 B"),
    ),
    bare=False,
    shares="by_rounds",
    calibrated=TWO_CLASSES,
    kernel=Kernel(
        options=lambda *_: {},
        class_options=lambda values: {"quantum_bytes": int(values.get("quantum_bytes", QUANTUM_BYTES))},
        catch_all=True,
    ),
)
