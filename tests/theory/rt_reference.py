"""An independent reference for the real-time room: plain Python, fractions, no formula of the room's own.

The worst supply is *built* as a list of windows (first budget at once, all later ones as late as possible), tasks are
*played* on it job by job, and a response time is what came out.
"""

from __future__ import annotations

from fractions import Fraction


def worst_windows(
    period: Fraction, budget: Fraction, overhead: Fraction, until: Fraction, polling: bool = False
) -> list[tuple[Fraction, Fraction]]:
    """Windows of supply after the worst instant, which is 0: just after the first budget (or its refusal) ended."""
    # Periodic: the budget of the period in progress came first, so P - B of that period is left; polling: the budget
    # was dropped as the period began, so all P is left.
    left = period if polling else period - budget
    windows = []
    begin = left
    while begin <= until:
        # The budget comes last in its period, and its first X are lost.
        windows.append((begin + period - budget + overhead, begin + period))
        begin += period
    return windows


def play(
    tasks: list[tuple[Fraction, Fraction]], windows: list[tuple[Fraction, Fraction]], until: Fraction
) -> list[Fraction | None]:
    """Longest response time of each task (priority order), all released at 0, preemptive; None: a job did not
    finish.
    """
    pending: list[list[list[Fraction]]] = [[] for _ in tasks]  # per task: [release, work left]
    released = [Fraction(0)] * len(tasks)
    worst: list[Fraction | None] = [Fraction(0)] * len(tasks)

    def release(now: Fraction) -> None:
        for index, (period, wcet) in enumerate(tasks):
            while released[index] <= now and released[index] < until:
                pending[index].append([released[index], wcet])
                released[index] += period

    for start, end in windows:
        now = start
        while now < end:
            release(now)
            ready = next((index for index, jobs in enumerate(pending) if jobs), None)
            coming = min(released)
            if ready is None:
                now = max(coming, now)
                if coming >= until:
                    return _close(pending, worst)
                continue
            job = pending[ready][0]
            stop = min(end, now + job[1])
            more_urgent = [released[i] for i in range(ready) if released[i] < until]
            if more_urgent:
                stop = min(stop, max(min(more_urgent), now))
            job[1] -= stop - now
            now = stop
            if job[1] == 0:
                pending[ready].pop(0)
                worst[ready] = max(worst[ready] or Fraction(0), now - job[0])
        release(end)
    return _close(pending, worst)


def _close(pending: list[list[list[Fraction]]], worst: list[Fraction | None]) -> list[Fraction | None]:
    return [None if jobs else value for jobs, value in zip(pending, worst, strict=True)]


def first_response(
    tasks: list[tuple[Fraction, Fraction]], windows: list[tuple[Fraction, Fraction]]
) -> list[Fraction | None]:
    """Response time of the first job of each task when all tasks release at 0 and nobody else waits."""
    found: list[Fraction | None] = []
    for index in range(len(tasks)):
        deadline = tasks[index][0]
        found.append(_first(tasks[: index + 1], windows, deadline))
    return found


def _first(
    tasks: list[tuple[Fraction, Fraction]], windows: list[tuple[Fraction, Fraction]], limit: Fraction
) -> Fraction | None:
    """Serves demand window by window; the last task's single job is done when all work released so far is done."""
    higher, own = tasks[:-1], tasks[-1][1]
    served = Fraction(0)
    for start, end in windows:
        now = start
        while now < end:
            work = own + sum((_jobs(now, period) * wcet for period, wcet in higher), Fraction(0))
            if work <= served:
                return now
            next_release = min((period * _jobs(now, period) for period, _ in higher), default=end)
            step = min(end, now + (work - served), max(next_release, now))
            if step == now:  # a release exactly now
                step = min(end, now + (work - served))
                following = [period * (now // period + 1) for period, _ in higher]
                step = min([step, *following])
                work_now = own + sum((((now // period) + 1) * wcet for period, wcet in higher), Fraction(0))
                if work_now <= served:
                    return now
            served += step - now
            now = step
            done = own + sum((_jobs(now, period) * wcet for period, wcet in higher), Fraction(0))
            if served >= done:
                return now if now <= limit else None
        if start > limit:
            return None
    return None


def _jobs(t: Fraction, period: Fraction) -> int:
    """Jobs released in [0, t)."""
    return int(-(-t // period))


def schedulable(
    tasks: list[tuple[Fraction, Fraction]],
    period: Fraction,
    budget: Fraction,
    overhead: Fraction = Fraction(0),
    polling: bool = False,
) -> bool:
    """Whether every first job after the worst instant meets its deadline (the period)."""
    longest = max(task[0] for task in tasks)
    windows = worst_windows(period, budget, overhead, longest + 2 * period, polling)
    found = first_response(tasks, windows)
    return all(value is not None and value <= task[0] for value, task in zip(found, tasks, strict=True))


def response_times(tasks: list[tuple[int, int]], period: int, budget: int, overhead: int) -> list[int | None]:
    """The textbook iteration in plain Python integers: what the fast core is compared with."""
    found: list[int | None] = []
    effective, gap = budget - overhead, period - budget + overhead
    for index, (deadline, wcet) in enumerate(tasks):
        t = 0
        while True:
            w = wcet + sum(-(-max(t, 1) // other) * c for other, c in tasks[:index])
            now = (period - budget) + w + -(-w // effective) * gap
            if now > deadline:
                found.append(None)
                break
            if now == t:
                found.append(t)
                break
            t = now
    return found
