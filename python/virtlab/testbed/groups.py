"""Control groups that bound a guest's CPU and memory: root only, and the one thing of a run that outlives its processes."""

from __future__ import annotations

from virtlab.plan import Plan


class Groups:
    """The control groups of one session, by guest."""

    def create(self, plan: Plan, *, rootless: bool) -> dict[str, list[str]]:
        return {}

    def remove(self) -> None:
        return None
