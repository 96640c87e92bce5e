"""`prio`: strict priority over classes. Parameters by their tc-prio(8) names."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from virtlab.catalogue.declaration import Parameter
from virtlab.catalogue.kinds import COUNT
from virtlab.catalogue.queueing import TWO_CLASSES, Kernel, QueueDiscipline

if TYPE_CHECKING:
    from virtlab.plan import Queue

BANDS_MAX = 16


def _beyond(queue: Queue) -> Iterator[tuple[str, str, str]]:
    if len(queue.classes) > BANDS_MAX:
        yield "classes", f"the kernel's prio has {BANDS_MAX} bands at most", "write fewer classes"


PRIO = QueueDiscipline(
    name="prio",
    meaning="a class is served only while all of better priority are empty",
    limit=("packets",),
    classes=(Parameter("prio", COUNT, "prio", "the smallest is served first"),),
    bare=False,
    ranked_by="prio",
    shares="by_rank",
    calibrated=TWO_CLASSES,
    kernel=Kernel(
        options=lambda queue, number: {"bands": max(2, len(queue.classes)), "band": number - 1},
        beyond=_beyond,
    ),
)
