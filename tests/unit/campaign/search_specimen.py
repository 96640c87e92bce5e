"""What tests of searches share: an observer that cuts one off, and a device that loses packets on demand."""

from __future__ import annotations

from typing import Any

import numpy as np

from virtlab.campaign.progress import CampaignObserver
from virtlab.plan.backend import Columns, Event, Sink

LOST = 3


class CutAfter(CampaignObserver):
    """Asks to end after so many trials."""

    def __init__(self, trials: int) -> None:
        super().__init__()
        self.trials = trials
        self.begun = 0
        self.cancellation = lambda: self.begun > self.trials

    def progress(self, what: str, done_ratio: float | None = None) -> None:
        self.begun += what.startswith("trial ")


class Losing:
    """A sink that takes three packets off what arrived: counters, and the last rows of each block."""

    def __init__(self, sink: Sink) -> None:
        self.sink = sink

    def block(self, stream: str, schema: str, columns: Columns) -> None:
        if schema == "counter/1":
            values = np.array(columns["value"])
            values[np.array(columns["counter"]) == "received_packets"] -= LOST
            columns = {**columns, "value": values}
        elif schema == "packet/1":
            columns = {name: column[:-LOST] for name, column in columns.items()}
        self.sink.block(stream, schema, columns)

    def event(self, event: Event) -> None:
        self.sink.event(event)

    def artefact(self, name: str, chunks: Any) -> None:
        self.sink.artefact(name, chunks)
