"""The section `search`: the highest value of one numeric input that a goal allows, found inside every design point.

Without `until`, the input is the rate of a stream and a load is good by its loss (`goals`). With `until` it is any
parameter of a role that is a number (rate, size, time, count), and a value is too much when a condition on any
metric holds after a trial of the whole timeline. A role is armed again for every trial, so no parameter is built
into the world.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from virtlab.catalogue import below_ip
from virtlab.catalogue.declaration import Parameter, size_of
from virtlab.catalogue.flows import FLOWS_TOLD, flow_names, flows_of
from virtlab.catalogue.kinds import NUMBERS, shown
from virtlab.experiment.read.findings import Findings
from virtlab.experiment.read.search_model import GoalSpec, SearchSpec
from virtlab.experiment.work.benchmark import TestsFor, read_tests
from virtlab.experiment.work.roles import RoleSpec
from virtlab.experiment.world.topology import Wiring
from virtlab.metrics import MetricPath
from virtlab.units import nearest, parse_quantity
from virtlab.units.ethernet import AROUND_PACKET_BYTES, HEADER_AND_FCS_BYTES, WIRE_LEAST_BYTES

OWN_LENGTH = "duration_ns"  # of a stream: a trial's own length, no input
WIRE = "wire"
RFC2544_TRIAL_NS = 60 * 10**9
LAST_TRIAL_MAX_NS = 10**9
_CONDITION = re.compile(r"\s*(\S+)\s*(<=|>=|<|>)\s*(.+?)\s*\Z")


@dataclass(frozen=True, slots=True)
class Condition:
    """`path operator limit`, the limit in the metric's unit: true means that a value was too much."""

    path: str
    operator: Literal["<", "<=", ">", ">="]
    limit: float
    text: str


@dataclass(frozen=True, slots=True)
class SearchFor:
    """A search as the file asks for it; `parameter` is the input's name in the Plan, its bounds in Plan values."""

    role: str
    parameter: str
    written: str
    low: int
    high: int
    resolution: int | None
    method: str  # mlrsearch, bisection, rfc2544
    goals: tuple[GoalSpec, ...]
    warmup_ns: int
    until: Condition | None
    loss_per: str = "stream"  # whose loss judges a load: the worst flow's, or the stream's
    tests: TestsFor | None = None
    own_trial_ns: int | None = None  # where a condition judges a stream: the length of the role itself

    @property
    def longest_trial_ns(self) -> int:
        """The longest trial that it, or a test after it, can ask for."""
        tests_ns = self.tests.longest_trial_ns if self.tests is not None else 0
        return max([self.warmup_ns, tests_ns, *(trial_ns(goal, self.method) for goal in self.goals)])

    @property
    def last_trial_ns(self) -> int:
        """Length of the trial at the value found that is kept with its samples."""
        return min(max(trial_ns(goal, self.method) for goal in self.goals), LAST_TRIAL_MAX_NS)


def trial_ns(goal: GoalSpec, method: str) -> int:
    """Length of a final trial: as the goal says, else 60 s for bisections and 1 s for MLRsearch."""
    return goal.trial if goal.trial is not None else 10**9 if method == "mlrsearch" else RFC2544_TRIAL_NS


def read_search(
    findings: Findings, spec: SearchSpec, roles: Mapping[str, RoleSpec], wiring: Wiring | None
) -> SearchFor | None:
    """The search of a point, checked against its roles; None when a mistake was added."""
    watch = findings.watch()
    parameter = _variable(findings, spec, roles)
    if parameter is None:
        return None
    role = roles[spec.variable.partition(".")[0]]
    if spec.low is None:
        findings.add(("search", "low"), "has no value", "write the lowest value, e.g. '1 kpacket/s'")
        return None
    bounds, layers = {}, []
    for key in ("low", "high", "resolution"):
        if getattr(spec, key) is not None and not (key == "high" and spec.high == WIRE):
            layer, bounds[key] = _value(findings, key, getattr(spec, key), parameter)
            layers.append(layer)
    if len(set(layers)) > 1:
        findings.add(
            ("search", "high"), "its bounds are sizes of different things", "write all as e.g. '64 B frame'"
        )
    parameter = replace(parameter, plan=layers[0])
    _limit_by_wire(findings, bounds, role, parameter, wiring, loss=spec.until is None)
    if watch.wrong:
        return None
    if bounds["low"] >= bounds["high"]:
        findings.add(("search", "low"), "is not below 'high'", "exchange them, or widen the interval")
    if parameter.plan != role.declaration.pace and spec.until is None:
        cure = "add e.g. 'until: probe.loss.ratio > 0 %'"
        findings.add(
            ("search", "variable"),
            f"{spec.variable} is not a rate of a stream, so loss alone is no goal",
            cure,
        )
    until = _until(findings, spec, roles)
    method = spec.method or ("bisection" if until else "mlrsearch")
    if until is not None and method != "bisection":
        findings.add(
            ("search", "method"), f"{method} judges loss, not a condition", "write 'method: bisection'"
        )
    if until is not None and spec.goals:
        findings.add(
            ("search", "goals"), "'until' is the goal here", "keep one of 'until' and 'goals'", key=True
        )
    if method != "mlrsearch" and len(spec.goals) > 1:
        findings.add(("search", "goals"), f"{method} has one goal", "keep one, or write 'method: mlrsearch'")
    goals = tuple(spec.goals) or (GoalSpec.model_construct(),)
    _check_goals(findings, goals, method, given=bool(spec.goals))
    _check_ends(findings, role, parameter, bounds)
    tests = None
    if spec.tests is not None and parameter.plan != role.declaration.pace:
        what = f"{spec.variable} is not a rate of a stream, and these tests are of frames at rates"
        findings.add(("search", "tests"), what, "remove 'tests'", key=True)
    else:
        tests = read_tests(findings, spec.tests, parameter, role, wiring)
    if watch.wrong:
        return None
    warmup_ns = spec.warmup if spec.warmup is not None else 10**9 if method == "mlrsearch" else 0
    return SearchFor(
        role.name, parameter.plan, spec.variable, bounds["low"], bounds["high"], bounds.get("resolution"), method, goals,
        0 if until else warmup_ns, until, _loss_per(findings, spec, flows_of(role.parameters)), tests,
        role.parameters.get("duration_ns") if until else None,
    )  # fmt: skip


def _loss_per(findings: Findings, spec: SearchSpec, flows: int) -> str:
    """Whose loss judges a load; flows are counted separately up to a number."""
    if spec.loss_per == "flow" and flows > FLOWS_TOLD:
        what = f"{flows} flows are more than are counted separately, {FLOWS_TOLD}"
        findings.add(("search", "loss_per"), what, "write 'loss_per: stream', or take fewer flows")
    return "stream" if flows == 1 or flows > FLOWS_TOLD else spec.loss_per or "flow"


def wire_rate(role: RoleSpec, wiring: Wiring | None) -> int | None:
    """The most that a stream's own access link carries, in the stream's parameter; None: no link bounds it.

    On the wire a frame takes header, FCS and what lies between frames beside its packet.
    """
    station = None if wiring is None else wiring.stations.get(role.source)
    rates = [] if station is None else [one.rate_bit_per_s for one in station.vnics.values()]
    rate = min((each for each in rates if each is not None), default=None)
    if rate is None or role.declaration.pace is None:
        return None
    layer, size_bytes = size_of(role.parameters)
    ip_bytes = size_bytes + {"frame": -HEADER_AND_FCS_BYTES, "ip_packet": 0, "payload": 28}[layer]
    wire_bytes = max(ip_bytes + AROUND_PACKET_BYTES, WIRE_LEAST_BYTES)
    return rate // (8 * wire_bytes) if below_ip(role.workload) else rate * ip_bytes // wire_bytes


def _limit_by_wire(
    findings: Findings,
    bounds: dict[str, int],
    role: RoleSpec,
    parameter: Parameter,
    wiring: Wiring | None,
    *,
    loss: bool,
) -> None:
    """Above what its own link carries, a sender only fills its own queue: no load of the device."""
    at = ("search", "high")
    if parameter.plan != role.declaration.pace:
        if "high" not in bounds:
            bounds["high"] = bounds["low"] + 1
            findings.add(at, "'high' is missing, and no wire bounds this input", "write the highest value")
        return
    most = wire_rate(role, wiring)
    if "high" not in bounds:
        if most is None and wiring is not None:
            findings.add(at, f"no link bounds what {role.source} sends", "write the highest load")
        bounds["high"] = most if most is not None else bounds["low"] + 1
    elif loss and most is not None and bounds["high"] > most:
        unit = "packet/s" if below_ip(role.workload) else "bit/s"
        what = f"the link of {role.source} carries {most} {unit}; more would only fill the sender's own queue"
        findings.add(at, what, "write 'high: wire', or a lower load")


def _check_ends(findings: Findings, role: RoleSpec, parameter: Parameter, bounds: Mapping[str, int]) -> None:
    """The role may be written with any value; with the lowest and the highest it must not contradict itself either."""
    if parameter.plan == role.declaration.pace:
        return
    for key in ("low", "high"):
        values = _with_input(role, parameter.plan, bounds[key])
        for _, text in role.declaration.check(values):
            findings.add_text(("search", key), text)


def _with_input(role: RoleSpec, plan: str, value: int) -> dict[str, Any]:
    """The role's parameters with another value of an input; of a packet size in whichever layer it is given."""
    sizes = {"frame_bytes", "ip_packet_bytes", "payload_bytes"}
    kept = {key: held for key, held in role.parameters.items() if not (plan in sizes and key in sizes)}
    return {**kept, plan: value}


def searched(role: RoleSpec, search: SearchFor) -> RoleSpec:
    """The role as its Plan has it: at the highest value, and for a stream as long as the longest trial."""
    parameters = _with_input(role, search.parameter, search.high)
    if search.until is None:
        parameters["duration_ns"] = search.longest_trial_ns
    elif search.tests is not None:
        parameters["duration_ns"] = max(search.own_trial_ns or 0, search.tests.longest_trial_ns)
    return role._replace(parameters=parameters)


def _variable(findings: Findings, spec: SearchSpec, roles: Mapping[str, RoleSpec]) -> Parameter | None:
    at = ("search", "variable")
    name, _, key = spec.variable.partition(".")
    role = roles.get(name)
    if role is None and findings.declares("roles", name):
        return None
    if role is None:
        cure = nearest(name, roles) or f"there are {', '.join(roles) or 'none'}; write ROLE.PARAMETER"
        findings.add(at, f"there is no role '{shown(name)}'", cure)
        return None
    if not role.active:
        what = f"{name} is switched off or has no load, so no trial of it can be made"
        findings.add(at, what, f"remove 'enabled' from {name}, and give it a load above zero")
        return None
    parameter = role.declaration.parameter(key)
    inputs = [each.name for each in role.declaration.parameters if _is_input(each, role)]
    listed = f"{role.workload} has {', '.join(inputs) or 'none'}"
    if parameter is None:
        findings.add(
            at, f"'{shown(key)}' is not a parameter of {role.workload}", nearest(key, inputs) or listed
        )
        return None
    if not _is_input(parameter, role):
        cure = f"{listed}; what is no number, or is built into the world, can be a factor"
        findings.add(at, f"{spec.variable} is not an input that a trial can set to more and less", cure)
        return None
    if role.meter != "virtlab":
        findings.add(at, f"the meter {role.meter} cannot be searched", "remove 'meter' from the role")
        return None
    return parameter


def _is_input(parameter: Parameter, role: RoleSpec) -> bool:
    numeric = any(parameter.kind is kind for kind in NUMBERS) and parameter.plan != OWN_LENGTH
    return parameter.tunable or (numeric and not role.declaration.budgeted)


def _value(findings: Findings, key: str, written: Any, parameter: Parameter) -> tuple[str, int]:
    """(name in the Plan, value) of a bound; a packet's size has its layer in the name."""
    try:
        ((name, value),) = parameter.plan_values(written).items()
        return name, int(value)
    except ValueError as error:
        findings.add_text(("search", key), str(error))
        return parameter.plan, 0


def _until(findings: Findings, spec: SearchSpec, roles: Mapping[str, RoleSpec]) -> Condition | None:
    if spec.until is None:
        return None
    at = ("search", "until")
    match = _CONDITION.match(spec.until)
    if match is None:
        findings.add(at, f"'{shown(spec.until)}' is not a condition", "write e.g. 'probe.rtt.p99 > 1 ms'")
        return None
    name, _, flow = match[1].rsplit(".", 2)[0].partition(".")
    if name not in roles and findings.declares("roles", name):
        return None  # its own mistake says what to mend
    try:
        path = MetricPath.parse(match[1], {role: spec.declared for role, spec in roles.items()})
        limit = parse_quantity(match[3], path.unit)
    except ValueError as error:
        findings.add_text(at, str(error))
        return None
    if name not in roles:
        findings.add(
            at,
            f"there is no role '{name}'",
            nearest(name, roles) or f"there are {', '.join(roles)}",
        )
    elif flow and flow not in (flows := flow_names(roles[name].parameters)):
        cure = nearest(flow, flows) or f"it has {', '.join(flows[:8]) or 'one'}"
        findings.add(at, f"{name} has no flow '{shown(flow)}'", cure)
    elif path.declared is None and path.metric not in roles[name].declaration.metrics:
        findings.add(
            at, f"{path.metric} is not measured by {roles[path.role].workload}", "name a metric of that role"
        )
    return Condition(str(path), match[2], limit, spec.until)  # type: ignore[arg-type]


def _check_goals(findings: Findings, goals: tuple[GoalSpec, ...], method: str, *, given: bool) -> None:
    names: set[str] = set()
    for position, goal in enumerate(goals):
        at = ("search", "goals", position) if given else ("search",)
        name = goal_name(goal)
        if name in names:
            findings.add(
                at, f"two goals are called {name}", "keep one goal without loss and one with a loss ratio"
            )
        names.add(name)
        final = trial_ns(goal, method)
        if method == "mlrsearch" and goal.duration_sum < final:
            findings.add(
                at, "the duration sum does not hold one trial", "lengthen 'duration_sum', or shorten 'trial'"
            )
        if goal.initial_trial is not None and goal.initial_trial > final:
            findings.add(at, "the initial trial is longer than the final one", "shorten 'initial_trial'")


def goal_name(goal: GoalSpec) -> str:
    """`ndr` for no loss, `pdr` for a loss ratio."""
    return "pdr" if goal.loss else "ndr"
