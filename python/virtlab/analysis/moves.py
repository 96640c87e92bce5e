"""What clients notice of a guest that moves: how long no reply came, which requests waited or were lost in that time.

A client's blackout is the longest gap between two replies in a row that overlaps the move, from its request to the instant
from which the guest runs at its destination. So the time that the network takes to find the guest there belongs to it, and
so does the time between two requests: it is at least the interval at which the client asks, and is to be compared with
the longest gap of a run without a move.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from virtlab.analysis.context import RoleContext
from virtlab.catalogue.actions import MIGRATE
from virtlab.lazy import NDArray, np
from virtlab.metrics.migration import OF_CLIENTS
from virtlab.results import RunRecord

NO_REPLY = "no reply came after the move"
ANSWERED_ALONE = "this workload has no rows of requests without an answer"
NONE_BEFORE = "no reply came before the move"
NOT_OVER = "the guest did not move to its end"


def spans(record: RunRecord) -> Iterator[tuple[str, int, int]]:
    """Guest, begin and end (ns) of each move of a run; the end of one that stayed is when it gave up."""
    for action in record.plan.timeline:
        if action.do == MIGRATE.name and action.guest is not None:
            begin = record.marks.get(f"{action.id}.started")
            ends = [record.marks[name].t_ns for event in ("finished", "cancelled", "failed", "timeout")
                    if (name := f"{action.id}.{event}") in record.marks]  # fmt: skip
            if begin is not None and ends:
                yield action.guest, begin.t_ns, min(ends)


def values(context: RoleContext) -> None:
    """Blackout, downtime, and requests late and lost, of a role whose far end moves; nothing of any other."""
    moves = any(
        action.do == MIGRATE.name and action.guest == context.role.to
        for action in context.record.plan.timeline
    )
    exchanges = _exchanges(context) if moves and context.role.to is not None else None
    if exchanges is None:
        return
    due, answered, tells_lost = exchanges
    found = [(begin, end) for guest, begin, end in spans(context.record) if guest == context.role.to]
    if not found:
        for metric in OF_CLIENTS:
            context.out.absent(metric, NOT_OVER)
        return
    replies, out = answered[answered >= 0], context.out
    gaps = [gap for begin, end in found if (gap := blackout(replies, begin, end)) is not None]
    if len(gaps) < len(found):
        early = replies.size and any(replies.min() > begin for begin, _ in found)
        for metric in OF_CLIENTS:
            out.absent(metric, NONE_BEFORE if early else NO_REPLY)
        return
    begin, end = max(gaps, key=lambda gap: gap[1] - gap[0])
    out.add("blackout", "max", end - begin, int(answered.size))
    inside = (due > begin) & (due < end)
    out.add("blackout_late", "count", int((inside & (answered >= 0)).sum()), int(inside.sum()))
    if tells_lost:
        out.add("blackout_lost", "count", int((inside & (answered < 0)).sum()), int(inside.sum()))
    else:
        out.absent("blackout_lost", ANSWERED_ALONE)
    open_ = np.zeros(due.size, dtype=bool)
    for move_begin, move_end in found:
        open_ |= (answered >= move_begin) & (due <= move_end)
    waits = (answered - due)[open_]
    out.add("downtime", "max", float(waits.max()) if waits.size else None, int(waits.size), NO_REPLY)


def blackout(replies_ns: NDArray[Any], begin_ns: int, end_ns: int) -> tuple[int, int] | None:
    """The longest gap between two replies in a row that overlaps a move; None where none came before or after it.

    >>> import numpy as np
    >>> blackout(np.array([0, 10, 20, 90, 100, 400]), 15, 50)
    (20, 90)
    """
    arrived = np.sort(replies_ns)
    first, last = arrived[:-1], arrived[1:]
    if not arrived.size or arrived[0] > begin_ns or arrived[-1] < end_ns:
        return None
    over = np.flatnonzero((last >= begin_ns) & (first <= end_ns))
    if not over.size:
        return None
    longest = over[np.argmax(last[over] - first[over])]
    return int(first[longest]), int(last[longest])


def _exchanges(context: RoleContext) -> tuple[NDArray[Any], NDArray[Any], bool] | None:
    """When each request was due, when its answer was there (-1: never), and whether those without an answer are among
    them; None of a workload without requests."""
    record, name = context.record, context.name
    if context.has("rtt/1"):
        replies = record.samples(name, "rtt/1", ["seq", "flow", "intended_ns", "sent_ns", "rtt_ns"])
        due, answered = replies["sent_ns"], replies["sent_ns"] + replies["rtt_ns"]
        if context.has("sent/1"):
            sent = record.samples(name, "sent/1", ["seq", "flow", "sent_ns"])
            lost = ~np.isin(_key(sent), _key(replies))
            due = np.concatenate((due, sent["sent_ns"][lost]))
            answered = np.concatenate((answered, np.full(int(lost.sum()), -1)))
        return due, answered, context.has("sent/1")
    if context.has("response/1"):
        rows = record.samples(name, "response/1", ["intended_ns", "finished_ns", "error"])
        return rows["intended_ns"], np.where(rows["error"] == 0, rows["finished_ns"], -1), True
    if context.has("transaction/1"):
        rows = record.samples(name, "transaction/1", ["started_ns", "finished_ns"])
        return rows["started_ns"], rows["finished_ns"], False
    return None


def _key(rows: dict[str, NDArray[Any]]) -> NDArray[Any]:
    key: NDArray[Any] = rows["seq"] * (1 << 20) + rows["flow"]
    return key
