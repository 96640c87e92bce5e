"""What clients notice of a guest that moves: how long no reply came, which requests waited or were lost in that time.

A client's blackout is the longest gap between two replies in a row that overlaps the move, from its request to the
instant from which the guest runs at its destination. So the time that the network takes to find the guest there belongs
to it, and so does the time between two requests: it is at least the interval at which the client asks, and is to be
compared with the longest gap of a run without a move.

One gap has the instant in which the guest began at its destination. It is what was left of the client's interval, the
pause, and the re-convergence (the client's TCP included, which waits before it sends a lost request again). The longest
of all others is a metric of its own: while its hypervisor prepares the copy, a guest may send no reply and is not
paused.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from virtlab.analysis.context import RoleContext
from virtlab.catalogue.actions import moves_guest
from virtlab.lazy import NDArray, np
from virtlab.metrics.migration import OF_CLIENTS
from virtlab.results import RunRecord

NO_REPLY = "no reply came after the move"
ANSWERED_ALONE = "this workload has no rows of requests without an answer"
NONE_BEFORE = "no reply came before the move"
NOT_OVER = "the guest did not move to its end"
STAYED = "the guest never ran at its destination"
NO_OTHER = "from the request to the guest's arrival no other reply came"


@dataclass(frozen=True, slots=True)
class Gaps:
    """The longest gap that overlaps a move, and which it may be, each as the instants of two replies in a row, ns."""

    longest: tuple[int, int]
    of_pause: tuple[int, int] | None = None  # has the instant from which the guest runs at its destination
    of_copy: tuple[int, int] | None = None  # the longest of the others
    resumed_ns: int | None = None


def spans(record: RunRecord) -> Iterator[tuple[str, int, int]]:
    """Guest, begin and end (ns) of each move of a run; the end of one that stayed is when it gave up."""
    for action in record.plan.timeline:
        if moves_guest(action.do) and action.guest is not None:
            begin = record.marks.get(f"{action.id}.started")
            ends = [record.marks[name].t_ns for event in ("finished", "cancelled", "failed", "timeout")
                    if (name := f"{action.id}.{event}") in record.marks]  # fmt: skip
            if begin is not None and ends:
                yield action.guest, begin.t_ns, min(ends)


def _resumed(record: RunRecord) -> dict[str, list[int]]:
    """From when each guest ran at its destination, a number for each of its moves that came so far, in order."""
    ends = {f"{action.id}.resumed": action.guest for action in record.plan.timeline if moves_guest(action.do)}
    found: dict[str, list[int]] = {}
    for event in record.events():
        if (guest := ends.get(event.what)) is not None:
            found.setdefault(guest, []).append(event.t_ns)
    return found


def values(context: RoleContext) -> None:
    """Blackout, its parts, downtime, and requests late and lost, of a role whose far end moves; nothing of any
    other.
    """
    moves = any(
        moves_guest(action.do) and action.guest == context.role.to for action in context.record.plan.timeline
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
    resumed = _resumed(context.record).get(str(context.role.to), [])
    gaps = [
        gap
        for begin, end in found
        if (gap := around(replies, begin, end, _within(resumed, begin, end))) is not None
    ]
    if len(gaps) < len(found):
        early = replies.size and any(replies.min() > begin for begin, _ in found)
        for metric in OF_CLIENTS:
            out.absent(metric, NONE_BEFORE if early else NO_REPLY)
        return
    _parts(context, gaps)
    begin, end = max((gap.longest for gap in gaps), key=_length)
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


def _parts(context: RoleContext, gaps: Sequence[Gaps]) -> None:
    """The largest of each part over all moves."""
    of_pause = [_length(gap.of_pause) for gap in gaps if gap.of_pause is not None]
    of_copy = [_length(gap.of_copy) for gap in gaps if gap.of_copy is not None]
    late = [
        gap.of_pause[1] - gap.resumed_ns
        for gap in gaps
        if gap.of_pause is not None and gap.resumed_ns is not None
    ]
    for metric, found, why in (
        ("copy_blackout", of_copy, NO_OTHER),
        ("pause_blackout", of_pause, STAYED),
        ("reconvergence", late, STAYED),
    ):
        context.out.add(metric, "max", float(max(found)) if found else None, len(found), why)


def _length(gap: tuple[int, int]) -> int:
    return gap[1] - gap[0]


def _within(instants: Sequence[int], begin_ns: int, end_ns: int) -> int | None:
    return next((at_ns for at_ns in instants if begin_ns <= at_ns <= end_ns), None)


def around(replies_ns: NDArray[Any], begin_ns: int, end_ns: int, resumed_ns: int | None) -> Gaps | None:
    """The gaps of a move whose guest runs at its destination from `resumed_ns`, None where it stayed; None where no
    reply came before or after the move.

    >>> import numpy as np
    >>> around(np.array([0, 10, 40, 50, 70, 80]), 5, 60, 60)
    Gaps(longest=(10, 40), of_pause=(50, 70), of_copy=(10, 40), resumed_ns=60)
    """
    over = _overlapping(replies_ns, begin_ns, end_ns)
    if over is None:
        return None
    first, last = over
    longest = _longest(first, last)
    if resumed_ns is None:
        return Gaps(longest, of_copy=longest)
    at = (
        int(np.searchsorted(first, resumed_ns, side="right")) - 1
    )  # the later of two that meet in that instant
    others = np.delete(first, at), np.delete(last, at)
    of_copy = _longest(*others) if others[0].size else None
    return Gaps(longest, (int(first[at]), int(last[at])), of_copy, resumed_ns)


def blackout(replies_ns: NDArray[Any], begin_ns: int, end_ns: int) -> tuple[int, int] | None:
    """The longest gap between two replies in a row that overlaps a move; None where none came before or after it.

    >>> import numpy as np
    >>> blackout(np.array([0, 10, 20, 90, 100, 400]), 15, 50)
    (20, 90)
    """
    over = _overlapping(replies_ns, begin_ns, end_ns)
    return None if over is None else _longest(*over)


def _overlapping(
    replies_ns: NDArray[Any], begin_ns: int, end_ns: int
) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Begins and ends of all gaps between two replies in a row that overlap a move, in order; None where no reply came
    before or after it."""
    arrived = np.sort(replies_ns)
    first, last = arrived[:-1], arrived[1:]
    if not arrived.size or arrived[0] > begin_ns or arrived[-1] < end_ns:
        return None
    over = (last >= begin_ns) & (first <= end_ns)
    return (first[over], last[over]) if over.any() else None


def _longest(first: NDArray[Any], last: NDArray[Any]) -> tuple[int, int]:
    longest = np.argmax(last - first)
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
