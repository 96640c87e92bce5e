"""Programs of roles: a simulated guest runs none, and plays what the file says that one is (`simulated_as`).

One that asks a service is virtlab's own client of requests there: connections, rate or thinking, sizes, and its end
after so many requests or so long. One that works is a demand on the processors of its guest. What it would print is
unknown; of its metrics those have values that the file says are one of virtlab's own, computed as it would be of
virtlab's client, and all others are missing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from virtlab.analysis.values import Collector
from virtlab.analysis.workloads.request_response import of_rows, waits
from virtlab.catalogue import SERVICES
from virtlab.catalogue.costs import SIMULATED_AS
from virtlab.catalogue.workloads.program import METERED, PROGRAM_TIME, SERVICE, known_as
from virtlab.catalogue.workloads.request_response import HTTP
from virtlab.catalogue.workloads.request_response import NAME as ASKING
from virtlab.lazy import NDArray, np
from virtlab.metrics.declared import OVER_TIME
from virtlab.plan import Plan, Refusal, Role
from virtlab.planner.guests.clusters import active

NO_METERS: Mapping[str, str] = {}
ENDS = ("finished", "done")  # events of actions of a role with which it is over
Event = tuple[int, str]


def played(plan: Plan) -> Plan:
    """The Plan with virtlab's own client in place of every program that asks a service."""
    found = {name: _client(plan, role) for name, role in plan.roles.items()}
    if all(found[name] is role for name, role in plan.roles.items()):
        return plan
    return plan.model_copy(update={"roles": found})


def _client(plan: Plan, role: Role) -> Role:
    cost = role.parameters.get(SIMULATED_AS) or {}
    if SERVICE not in cost:
        return role
    own = {key: value for key, value in cost.items() if key != METERED}
    service = plan.world.services[cost[SERVICE]]
    if HTTP in SERVICES[service.kind].speaks and "protocol" not in own:
        own["protocol"] = HTTP
    return Role.model_validate({"workload": ASKING, "from": role.from_, "to": role.to, **own})


def refusals_of_clients(plan: Plan) -> Iterator[Refusal]:
    """What keeps a program from being the client that it is said to be."""
    for name, role in plan.roles.items():
        asked = (role.parameters.get(SIMULATED_AS) or {}).get(SERVICE)
        if asked is None:
            continue
        path = f"roles.{name}.{SIMULATED_AS}.{SERVICE}"
        service = plan.world.services.get(asked)
        if service is None:
            yield Refusal(path, f"there is no service '{asked}'", "name a service of the Plan")
        elif role.to not in service.on or active(service) not in (None, role.to):
            where = active(service) or " or ".join(service.on)
            yield Refusal(path, f"'{asked}' is asked on {where}", f"let 'to' be {where}")


class Programs:
    """Programs of a Plan's roles during one run: what came of each, and the values of its metrics."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._roles = {name: role for name, role in plan.roles.items() if SIMULATED_AS in role.parameters}

    def __contains__(self, name: str) -> bool:
        return name in self._roles

    def missing(self) -> list[str]:
        """Which metrics have no value here, each with the cure."""
        found = []
        for name, role in self._roles.items():
            for key in (role.parameters.get("metrics") or {}).keys() - _meters(role).keys():
                cure = f"say what it is in '{SIMULATED_AS}', e.g. '{METERED}: {{{key}: {PROGRAM_TIME}}}'"
                found.append(
                    f"roles.{name}.metrics.{key} is missing: a simulated guest runs no programs; {cure}"
                )
        return sorted(found)

    def late(self, happened: Sequence[Event]) -> list[str]:
        """Those that took longer than they may, as reasons why the run has failed."""
        found = []
        for name, role in self._roles.items():
            times = self._times(name, happened)
            timeout_ns = int(role.parameters["timeout_ns"])
            if times is not None and times[1] - times[0] > timeout_ns:
                cure = "give it a longer 'timeout', or less to do"
                found.append(f"roles.{name}: it still ran after {timeout_ns / 1e9:g} s; {cure}")
        return found

    def blocks(
        self, happened: Sequence[Event], rows: Mapping[str, Mapping[str, NDArray[Any]]]
    ) -> Iterator[tuple[str, dict[str, NDArray[Any]]]]:
        """Role and columns of value/1. `rows`: of requests, by role."""
        for name, role in self._roles.items():
            times = self._times(name, happened)
            if times is None or name not in self._plan.collect.packets:
                continue
            found = list(_values(role, times, rows.get(name)))
            if not found:
                continue
            keys = [np.repeat(np.array([key], dtype=object), values.size) for key, _, values in found]
            values = np.concatenate([values for _, _, values in found]).astype(np.float64)
            yield (
                name,
                {
                    "t_ns": np.concatenate([instants for _, instants, _ in found]).astype(np.int64),
                    "metric": np.concatenate(keys),
                    "value": values,
                    "count": np.ones(values.size, dtype=np.int64),
                },
            )

    def _times(self, name: str, happened: Sequence[Event]) -> tuple[int, int] | None:
        """When it began and ended, by its own actions; None where it did not."""
        own = {action.id for action in self._plan.timeline if action.role == name}
        begun = [t_ns for t_ns, what in happened if what in {f"{each}.started" for each in own}]
        ended = [
            t_ns for t_ns, what in happened if what in {f"{each}.{word}" for each in own for word in ENDS}
        ]
        return (begun[0], ended[-1]) if begun and ended else None


def _meters(role: Role) -> Mapping[str, str]:
    return role.parameters[SIMULATED_AS].get(METERED, NO_METERS)  # type: ignore[no-any-return]


def _values(
    role: Role, times: tuple[int, int], rows: Mapping[str, NDArray[Any]] | None
) -> Iterator[tuple[str, NDArray[Any], NDArray[Any]]]:
    """Metric, instants and values of what a program would have printed."""
    entries = role.parameters.get("metrics") or {}
    numbers: Callable[[str, str], float | None] = _numbers(rows) if rows is not None else (lambda *_: None)
    for key, text in _meters(role).items():
        metric, statistic, _ = known_as(text)
        if metric == PROGRAM_TIME:
            value: float | None = float(times[1] - times[0])
        elif statistic is None:
            if rows is not None and (found := waits(rows)[metric])[0].size:
                samples, instants = found
                over_time = any(word in entries[key] for word in OVER_TIME)
                yield key, instants if over_time else np.full(samples.size, times[1]), samples
            continue
        else:
            value = numbers(metric, statistic)
        if value is not None:
            yield key, np.array([times[1]]), np.array([value])


def _numbers(rows: Mapping[str, NDArray[Any]]) -> Callable[[str, str], float | None]:
    out = Collector("", 0, {}, 0, "")
    of_rows(out, rows, lambda _: None)
    found = {(each.metric, each.statistic): each.value for each in out.values}
    return lambda metric, statistic: found.get((metric, statistic))
