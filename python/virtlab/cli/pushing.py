"""`--to`: the receivers that `run` and `export` bring estimates and verdicts to.

What goes wrong there is one warning per receiver: it changes neither the exit code nor the dataset.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from virtlab.terminal import say

if TYPE_CHECKING:
    from virtlab.report.exchange.push.destination import Destination
    from virtlab.report.gather.gathered import Gathered
    from virtlab.results import Dataset

To = Annotated[
    list[str] | None,
    typer.Option(
        "--to",
        help="also push estimates and verdicts: prometheus-textfile=FILE, remote-write=URL, otlp=URL or influx=URL; "
        "may be repeated",
        show_default=False,
        metavar="KIND=PLACE",
    ),
]


def destinations(given: Sequence[str] | None) -> list[Destination]:
    """What was named, refused now rather than after the runs."""
    if not given:
        return []
    from virtlab.report.exchange.push.destination import Destination

    found = [Destination.parse(text) for text in given]
    for one in found:
        one.refuse_unwritable()
    return found


def push(targets: Sequence[Destination], dataset: Dataset, data: Gathered) -> None:
    """Brings the numbers of a dataset to every receiver; a warning for each that did not take all."""
    if not targets:
        return
    from virtlab.report.exchange.push.numbers import numbers_of

    numbers = numbers_of(dataset, data)
    for one in targets:
        if why := one.deliver(numbers):
            again = f"`virtlab export {dataset.path} --to ...`"
            say(
                f"virtlab: warning: {one}: {why}; nothing is lost, {again} sends the numbers again",
                err=True,
            )
