"""What a campaign reports while it runs, and three ways to show it: a live panel on a terminal, plain lines
elsewhere, and JSON lines for programs.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, TextIO

from virtlab.plan.backend import Reading
from virtlab.results import Holder, RunKey, RunRecord
from virtlab.terminal import console, one_line
from virtlab.units import show_number, show_quantity, show_wait

if TYPE_CHECKING:
    from rich.console import Console, RenderableType


LIVE_EVERY_NS = 2 * 10**9
ROLES_SHOWN = 8
LINES_EVERY_NS = 10 * 10**9  # plain lines stay, so there are fewer


@dataclass(frozen=True, slots=True)
class Standing:
    """How far a campaign is. `least` and `most` runs are left; times in ns, None = unknown.

    `width` says how wide the interval of the point's watched metric is (`rtt.median ±3.1 %, asked 2 %`), or
    is empty.
    """

    done: int
    least: int
    most: int
    left_ns: int | None = None
    width: str = ""

    def text(self) -> str:
        """`12 runs done, 8 to 20 left, about 3 min`."""
        left = f"{self.least}" if self.least == self.most else f"{self.least} to {self.most}"
        time_left = f", about {show_wait(self.left_ns)}" if self.left_ns is not None and self.most else ""
        return f"{self.done} {'run' if self.done == 1 else 'runs'} done, {left} left{time_left}"


def show_levels(levels: Mapping[str, str]) -> str:
    """Factor levels of a point for people."""
    return ", ".join(f"{factor} {level}" for factor, level in levels.items()) or "the only point"


def show_reading(reading: Reading) -> str:
    """What a role sees at the moment, for people.

    >>> from virtlab.plan.backend import Reading
    >>> show_reading(Reading("probe", 2 * 10**9, 9.94, 79520.0, 212_400.0, 0.0))
    'probe: 9.94/s, 79.5 kbit/s, 0.212 ms, loss 0 %'
    >>> show_reading(Reading("load", 2 * 10**9, 8012.0, 9.413e7, None, 0.0123))
    'load: 8012/s, 94.1 Mbit/s, loss 1.23 %'
    """
    parts = [f"{show_number(reading.rate_per_s, 3)}/s"]
    if reading.received_bit_per_s:
        parts.append(show_quantity(reading.received_bit_per_s, "bit/s", 3))
    if reading.time_ns is not None:
        parts.append(f"{show_number(reading.time_ns / 1e6, 3)} ms")
    if reading.loss_ratio is not None:
        parts.append(f"loss {show_number(reading.loss_ratio * 100, 3)} %")
    return f"{reading.role}: {', '.join(parts)}"


class CampaignObserver:
    """Told what happens; says nothing itself. It is the backend's Observer too.

    `cancelled` is asked often and must be cheap; the campaign sets what it asks (`cancellation`).
    """

    live_every_ns: int | None = None  # there is no display

    def __init__(self) -> None:
        self.cancellation: Callable[[], bool] = lambda: False

    def cancelled(self) -> bool:
        """True once the campaign should end early."""
        return self.cancellation()

    def progress(self, step: str, done_ratio: float | None = None) -> None:
        """The current run begins a step."""

    def live(self, readings: Sequence[Reading]) -> None:
        """New readings of the current run's roles."""

    def waiting(self, holder: Holder | None) -> None:
        """Another run holds the machine."""

    def run_begins(self, key: RunKey, levels: Mapping[str, str], standing: Standing) -> None:
        """A run begins."""

    def run_ended(self, record: RunRecord, standing: Standing) -> None:
        """A run is on disk."""

    def ended(self) -> None:
        """No further run is made."""


class PlainProgress(CampaignObserver):
    """A line per run, for logs and pipes; `verbose` also a line per step, and of each role now and then."""

    def __init__(self, stream: TextIO | None = None, *, verbose: bool = False) -> None:
        super().__init__()
        self._stream = stream or sys.stderr
        self._verbose = verbose
        self.live_every_ns = LINES_EVERY_NS if verbose else None

    def _line(self, text: str) -> None:
        self._stream.write(one_line(text) + "\n")
        self._stream.flush()

    def progress(self, step: str, done_ratio: float | None = None) -> None:
        """A line per step when verbose."""
        if self._verbose:
            self._line(f"    {step}" + (f" {done_ratio:.0%}" if done_ratio is not None else ""))

    def live(self, readings: Sequence[Reading]) -> None:
        """A line per role."""
        for reading in readings:
            self._line(f"      {show_reading(reading)}")

    def waiting(self, holder: Holder | None) -> None:
        """Says who holds the machine."""
        self._line(f"waiting: another testbed run holds this machine: {holder or 'unknown'}")

    def run_begins(self, key: RunKey, levels: Mapping[str, str], standing: Standing) -> None:
        """Says which run begins when verbose."""
        if self._verbose:
            self._line(f"{key.name} begins: {show_levels(levels)}; {standing.text()}")

    def run_ended(self, record: RunRecord, standing: Standing) -> None:
        """Says how a run ended and what is left."""
        why = f" ({'; '.join(record.reasons)})" if record.reasons else ""
        width = f"; {standing.width}" if standing.width else ""
        self._line(
            f"{record.name} {record.status}{why}: {show_levels(record.levels)}{width}; {standing.text()}"
        )


class JsonProgress(CampaignObserver):
    """A JSON object per line and event, for programs. Times in ns, ratios 0 to 1; what is not known is null."""

    def __init__(self, stream: TextIO | None = None) -> None:
        super().__init__()
        self._stream = stream or sys.stderr
        self.live_every_ns = LIVE_EVERY_NS

    def _event(self, event: str, **details: object) -> None:
        self._stream.write(json.dumps({"event": event, "utc_ns": time.time_ns(), **details}) + "\n")
        self._stream.flush()

    def progress(self, step: str, done_ratio: float | None = None) -> None:
        """`step`: what the run does."""
        self._event("step", what=step, done_ratio=done_ratio)

    def live(self, readings: Sequence[Reading]) -> None:
        """`live`: what each role sees at the moment."""
        self._event("live", roles={reading.role: _without_role(asdict(reading)) for reading in readings})

    def waiting(self, holder: Holder | None) -> None:
        """`waiting`: another run holds the machine."""
        self._event("waiting", holder=None if holder is None else str(holder))

    def run_begins(self, key: RunKey, levels: Mapping[str, str], standing: Standing) -> None:
        """`run_begins`."""
        self._event("run_begins", run=key.name, levels=dict(levels), **_standing(standing))

    def run_ended(self, record: RunRecord, standing: Standing) -> None:
        """`run_ended`: with its status and the reasons."""
        details = {"run": record.name, "status": record.status, "reasons": list(record.reasons)}
        self._event("run_ended", levels=dict(record.levels), **details, **_standing(standing))

    def ended(self) -> None:
        """`ended`: no further run is made."""
        self._event("ended")


def _without_role(fields: dict[str, object]) -> dict[str, object]:
    return {key: value for key, value in fields.items() if key != "role"}


def _standing(standing: Standing) -> dict[str, object]:
    return {
        "runs_done": standing.done,
        "runs_left_least": standing.least,
        "runs_left_most": standing.most,
        "left_ns": standing.left_ns,
    }


class LiveProgress(CampaignObserver):
    """A panel that follows the campaign on a terminal; what went wrong stays as lines above it."""

    live_every_ns = LIVE_EVERY_NS

    def __init__(self, console: Console, *, verbose: bool = False) -> None:
        from rich.live import Live

        super().__init__()
        self._console = console
        self._verbose = verbose
        self._standing = Standing(0, 0, 0)
        self._run = "starting"
        self._step = ""
        self._width = ""
        self._readings: Sequence[Reading] = ()
        self._live = Live(console=console, transient=True, auto_refresh=False, get_renderable=self._panel)
        self._live.start()

    def _panel(self) -> RenderableType:
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        standing = self._standing
        bar = ProgressBar(total=max(1, standing.done + standing.least), completed=standing.done, width=50)
        lines = [Text(self._run, style="bold"), Text(f"  {self._step}", style="dim")]
        lines += [Text(f"  {show_reading(reading)}") for reading in self._readings[:ROLES_SHOWN]]
        if len(self._readings) > ROLES_SHOWN:
            lines.append(Text(f"  and {len(self._readings) - ROLES_SHOWN} roles more", style="dim"))
        if self._width:
            lines.append(Text(f"  {self._width}"))
        return Group(*lines, bar, Text(standing.text()))

    def _refresh(self) -> None:
        self._live.update(self._panel(), refresh=True)

    def progress(self, step: str, done_ratio: float | None = None) -> None:
        """Shows what the current run does."""
        self._step = step + (f" {done_ratio:.0%}" if done_ratio is not None else "")
        self._refresh()

    def live(self, readings: Sequence[Reading]) -> None:
        """Shows what its roles see at the moment."""
        self._readings = readings
        self._refresh()

    def waiting(self, holder: Holder | None) -> None:
        """Says who holds the machine."""
        self._run = "waiting for the machine"
        self._step = f"held by {holder or 'another testbed run'}"
        self._refresh()

    def run_begins(self, key: RunKey, levels: Mapping[str, str], standing: Standing) -> None:
        """Shows which run begins."""
        self._run, self._step, self._readings = f"{key.name}  {show_levels(levels)}", "", ()
        self._standing, self._width = standing, standing.width
        self._refresh()

    def run_ended(self, record: RunRecord, standing: Standing) -> None:
        """Keeps a line of a run that went wrong, or of every run when verbose."""
        if record.status != "ok" or self._verbose:
            why = f" ({'; '.join(record.reasons)})" if record.reasons else ""
            line = f"{record.name} {record.status}{why}: {show_levels(record.levels)}"
            self._console.print(line, highlight=False, markup=False)
        self._standing, self._width = standing, standing.width
        self._refresh()

    def ended(self) -> None:
        """Takes the panel away."""
        self._live.stop()


def for_terminal(*, verbose: bool = False) -> CampaignObserver:
    """Live on a terminal, plain lines elsewhere; both on the standard error output."""
    if sys.stderr.isatty():
        return LiveProgress(console(stderr=True), verbose=verbose)
    return PlainProgress(verbose=verbose)
