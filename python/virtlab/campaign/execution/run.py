"""One run from Plan to disk: open the world, play the timeline once, leave the world, commit.

A world that could not be built, a guest or an agent that failed make a failed run, kept with its reason and with
what guests said on their consoles. Where only the machine's owner can mend it, the run says so: it is no attempt. A
run that was cancelled is not kept: it says nothing, and is made again.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from virtlab.campaign.execution import full_disk
from virtlab.campaign.execution.search import Conducted
from virtlab.campaign.progress import CampaignObserver
from virtlab.campaign.trials.journal import Journal
from virtlab.errors import AgentError, GuestError, MachineError
from virtlab.experiment.work.search import SearchFor
from virtlab.plan.backend import Backend, Outcome, Reading, Realised, Trial
from virtlab.plan.model import Plan
from virtlab.results import Dataset, RunKey, RunRecord, RunWriter
from virtlab.results.group import Group


class _Logged:
    """The campaign's observer for a backend; what it hears also goes into the run's log."""

    def __init__(self, observer: CampaignObserver, writer: RunWriter) -> None:
        self._observer = observer
        self._writer = writer
        self._last = ""
        self.live_every_ns = observer.live_every_ns

    def live(self, readings: Sequence[Reading]) -> None:
        """Passes it on; it is for people and in no log."""
        self._observer.live(readings)

    def progress(self, step: str, done_ratio: float | None = None) -> None:
        """Passes it on; logs each step once."""
        if step != self._last:
            self._writer.log("info", step)
            self._last = step
        self._observer.progress(step, done_ratio)

    def cancelled(self) -> bool:
        """Asks the campaign."""
        return self._observer.cancelled()


def execute(
    dataset: Dataset,
    key: RunKey,
    plan: Plan,
    backend: Backend,
    observer: CampaignObserver,
    search: SearchFor | None = None,
    *,
    group: Group | None = None,
) -> RunRecord | None:
    """Plays one Plan and commits what came of it; None when it was cancelled.

    With a `search`, many trials are made in the world; those of a run that was cut off are replayed first. With a
    `group` the run is committed when that is, and the record has its samples at hand to compute values from.
    """
    journal = _journal(dataset, key, plan, search) if search is not None else None
    try:
        record = _play(dataset, key, plan, backend, observer, search, journal, group)
    except Exception as error:
        if not full_disk.is_no_room(error):
            raise
        record = full_disk.recorded(dataset, key, plan, error)
    if journal is not None and record is not None:
        journal.remove()
    return record


def _journal(dataset: Dataset, key: RunKey, plan: Plan, search: SearchFor) -> Journal:
    from virtlab.campaign.execution.search import header  # here: workers that only play need none of it

    return Journal.open(dataset.path, key.name, header(search, plan))


def _play(
    dataset: Dataset,
    key: RunKey,
    plan: Plan,
    backend: Backend,
    observer: CampaignObserver,
    search: SearchFor | None,
    journal: Journal | None,
    group: Group | None,
) -> RunRecord | None:
    realised = Realised({})
    timings: dict[str, int] = {}
    with dataset.begin_run(key, plan) as writer:
        writer.group, writer.holds = group, group is not None
        began_ns = time.monotonic_ns()
        try:
            with backend.open(plan, _Logged(observer, writer)) as session:
                timings["build"] = time.monotonic_ns() - began_ns
                playing_ns = time.monotonic_ns()
                try:
                    if search is not None and journal is not None:
                        outcome = Conducted(search, plan, session, writer, journal, observer).run()
                    else:
                        outcome = session.run(Trial(id="t0", seed=plan.seed), writer)
                finally:
                    timings["run"] = time.monotonic_ns() - playing_ns
                    realised = session.realised
                    leaving_ns = time.monotonic_ns()
            timings["teardown"] = time.monotonic_ns() - leaving_ns
        except (MachineError, GuestError, AgentError) as error:
            if observer.cancelled():
                return None
            writer.log("error", str(error), kind=type(error).__name__)
            _keep(writer, plan, error.artefacts)
            outcome = Outcome(
                "failed", (str(error),), blame="machine" if isinstance(error, MachineError) else ""
            )
        if outcome.status == "cancelled":
            return None
        return writer.commit(outcome, realised, timings)


def _keep(writer: RunWriter, plan: Plan, artefacts: Mapping[str, bytes]) -> None:
    """Keeps what shows why it failed, unless that alone is more than the file allows: the reason is worth more."""
    limit, held = plan.limits.disk_bytes, sum(map(len, artefacts.values()))
    if limit is not None and held > limit:
        names = ", ".join(artefacts)
        writer.log("warning", f"not kept: {names}: {held} B, and the file allows {limit} B (limits.disk)")
        return
    for name, content in artefacts.items():
        writer.artefact(name, [content])
