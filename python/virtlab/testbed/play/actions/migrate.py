"""`migrate`: a guest moves to another host; its platform copies it, and tells what came of it.

One that moves by being shut down (`cold`) takes its servers along: they end before, and are armed again once it has
booted.
"""

from __future__ import annotations

from dataclasses import replace

from virtlab.lazy import np
from virtlab.plan import Action
from virtlab.planner.mobility.moves import COLD, mode_of
from virtlab.testbed.kinds.moved import Moved
from virtlab.testbed.play.actions.action import ActionKind, Playing
from virtlab.testbed.play.probes import Side
from virtlab.testbed.play.timeline import Timeline


def begin(trial: Playing, action: Action, at_ns: int, timeline: Timeline) -> None:
    """Has the platform begin; what it says while the guest moves is news of the platform's."""
    del at_ns
    guest = str(action.guest)
    trial.note(timeline, f"{action.id}.started", trial.site.now())
    if mode_of(action) == COLD:
        for side in _served(trial, guest):
            trial.probes.halt(side)
        trial.probes.forget(guest)
        trial.counting.reset.add(guest)
    trial.guests.owners[guest].call(action)


def end(trial: Playing, action: Action) -> int | None:
    """Records what is known of the move, its switch-over among the run's events: the instant from which the guest runs
    at its destination; None where it stayed.
    """
    guest = str(action.guest)
    moved = trial.guests.owners[guest].moved(action.id)
    if moved is None:
        return None
    if moved.boot is not None:
        for side in _served(trial, guest):
            trial.probes.serve_again(side)
        for word, at_ns in zip(("off", "on"), moved.boot, strict=True):
            trial.tell(f"{action.id}.{word}", at_ns, {"guest": guest})
        now_ns = trial.site.now()
        moved = replace(moved, resumed_at_ns=now_ns, total_ns=now_ns - moved.began_ns)
    trial.tell(f"{action.id}.paused", moved.paused_at_ns, {"guest": guest})
    trial.tell(f"{action.id}.resumed", moved.resumed_at_ns, {"guest": guest, "pause_ns": moved.pause_ns})
    for at_ns in moved.recovered:
        trial.tell(f"{action.id}.recovered", at_ns, {"guest": guest})
    rows = _rows(moved)
    for at_ns, where in moved.entries or ():
        trial.tell(f"{action.id}.entry", at_ns, {"guest": guest, "where": where})
    trial.sink.block(
        "migration",
        "series/1",
        {
            "t_ns": np.array([t_ns for t_ns, _, _ in rows], dtype=np.int64),
            "entity": np.array([f"guests.{guest}"] * len(rows), dtype=object),
            "metric": np.array([metric for _, metric, _ in rows], dtype=object),
            "value": np.array([value for _, _, value in rows], dtype=np.float64),
        },
    )
    return moved.resumed_at_ns


def _served(trial: Playing, guest: str) -> list[Side]:
    """Servers of roles in a guest."""
    return [side for sides in trial.sides.values() for side in sides if side.guest == guest]


def _rows(moved: Moved) -> list[tuple[int, str, float]]:
    """Instant, metric and value of all that was seen, in the order of time."""
    end_ns = moved.resumed_at_ns
    rows = [
        (end_ns, "pause", float(moved.pause_ns)),
        (end_ns, "migration_time", float(moved.total_ns)),
        (end_ns, "migration_sent", float(moved.sent_bytes)),
        (end_ns, "migration_rounds", float(moved.rounds)),
        (end_ns, "migration_setup", float(moved.setup_ns)),
    ]
    if moved.paused_bytes is not None:
        rows.append((end_ns, "migration_sent_paused", float(moved.paused_bytes)))
    if moved.disk_bytes is not None:
        rows.append((end_ns, "migration_disk_sent", float(moved.disk_bytes)))
    rows += [(at_ns, "migration_dirtied", float(dirtied)) for at_ns, dirtied in moved.dirtied()]
    for look in moved.looks:
        rows.append((look.at_ns, "migration_remaining", float(look.remaining_bytes)))
        if look.throttled_ratio is not None:
            rows.append((look.at_ns, "migration_throttle", look.throttled_ratio))
        if look.dirty_byte_per_s is not None:
            rows.append((look.at_ns, "dirty_rate", float(look.dirty_byte_per_s)))
    return sorted(rows)


IMPLEMENTATION = ActionKind(begin, end, moves_processes=True, failure_is_outcome=True)
