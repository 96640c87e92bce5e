"""The section `timeline`: what happens during a run, as the file says it. Without it the planner derives one.

`after: EVENT`, `after: EVENT + TIME`, `after: {any: [...]}` or `{all: [...]}`; an event is `ACTION.started`,
`.done`, `.finished`, `.failed`, `.timeout` of an action above or below. The actions form a directed graph
without cycles.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from virtlab.catalogue.actions import ACTIONS, EVENTS, SET, WAIT, playable
from virtlab.catalogue.kinds import (
    DURATION,
    POSITIVE_DURATION,
    RATE,
    SLOWEST_BIT_PER_S,
    STATES,
    choice,
    shown,
)
from virtlab.experiment.read.findings import Findings, Steps
from virtlab.experiment.read.leaves import NAME, object_name
from virtlab.experiment.read.tree import Node
from virtlab.experiment.work.calls import read_call, read_until
from virtlab.experiment.work.moves import read_move
from virtlab.experiment.work.roles import RoleSpec
from virtlab.experiment.work.services import ServiceSpec
from virtlab.lazy import pattern
from virtlab.units import Bitrate, nearest

_EVENT = pattern(r"([A-Za-z][A-Za-z0-9_-]*)\.([a-z]+)\Z")
_ON_TIMEOUT = choice("fail", "cancel", "censor")
_STATE = choice(*STATES)
OF_LINK = ("rate", "state")  # what can be set of a link


class TriggerSpec(NamedTuple):
    """The events after which an action begins."""

    event: str | None = None
    plus_ns: int = 0
    any: tuple[str, ...] = ()
    all: tuple[str, ...] = ()

    def events(self) -> tuple[str, ...]:
        """Every event that it names."""
        return ((self.event,) if self.event else ()) + self.any + self.all


class ActionSpec(NamedTuple):
    """One action of the timeline; fields as in the Plan."""

    id: str
    do: str
    after: TriggerSpec | None = None
    fields: Mapping[str, Any] = {}


def read_timeline(
    findings: Findings,
    roles: Mapping[str, RoleSpec],
    guests: list[str] | None,
    services: Mapping[str, ServiceSpec],
    links: Mapping[str, int] | None = None,
) -> tuple[ActionSpec, ...] | None:
    """The actions; None when the file has no timeline. `links`: their rates in bit/s; None where they are unknown."""
    node = findings.root.get("timeline")
    if node is None or node.value is None:
        return None
    if not isinstance(node.value, list) or not node.value:
        findings.add(
            ("timeline",), "is not a list of actions", "write e.g. '- {id: load, do: start, role: load}'"
        )
        return ()
    actions = []
    seen: set[str] = set()
    for position, entry in enumerate(node.value):
        action = _action(("timeline", position), entry, findings, roles, guests, services, links)
        if action is None:
            continue
        if action.id in seen:
            findings.add(
                ("timeline", position, "id"), f"'{action.id}' is already an action", "give each its own id"
            )
        seen.add(action.id)
        actions.append(action)
    if len(actions) == len(node.value):
        _check_triggers(actions, findings)
    return tuple(actions)


def read_windows(findings: Findings, actions: Iterable[str] | None) -> dict[str, tuple[str, str]] | None:
    """Windows by name as (from, to) events; None when the file has none. `actions` are the ids that exist."""
    node = findings.root.get("windows")
    if node is None or node.value is None:
        return None
    if not isinstance(node.value, dict):
        findings.add(
            ("windows",),
            "is not a mapping",
            "write e.g. 'measured: {from: probe.started, to: probe.finished}'",
        )
        return {}
    windows = {}
    for name, entry in node.value.items():
        at: Steps = ("windows", name)
        ends = entry.plain()
        if not NAME.match(name) or not isinstance(ends, dict) or set(ends) != {"from", "to"}:
            findings.add(
                at,
                "a window is made of two events",
                "write '{from: probe.started, to: probe.finished}'",
                key=True,
            )
            continue
        for key in ("from", "to"):
            _check_event((*at, key), str(ends[key]), None if actions is None else list(actions), findings)
        windows[name] = (str(ends["from"]), str(ends["to"]))
    return windows


def _action(
    at: Steps,
    node: Node,
    findings: Findings,
    roles: Mapping[str, RoleSpec],
    guests: list[str] | None,
    services: Mapping[str, ServiceSpec],
    links: Mapping[str, int] | None,
) -> ActionSpec | None:
    if not isinstance(node.value, dict):
        findings.add(at, "is not an action", "write e.g. '{id: load, do: start, role: load}'")
        return None
    watch = findings.watch()
    values = node.plain()
    do = values.get("do")
    if do not in playable():
        cure = nearest(str(do), playable()) or f"write one of {', '.join(playable())}"
        findings.add((*at, "do"), f"there is no action '{shown(do)}'", cure)
        return None
    keys = ACTIONS[do].keys
    allowed = ["id", "do", "after", "timeout", "on_timeout", *keys]
    for key in values:
        if key not in allowed:
            findings.add(
                (*at, key),
                f"unknown key '{shown(key)}' of '{do}'",
                nearest(key, allowed) or f"it has {', '.join(allowed)}",
                key=True,
            )
    name = _parsed(at, values, "id", object_name, findings, missing="give it an id")
    fields: dict[str, Any] = {}
    if do == SET.name and "link" in values:
        fields |= _relinked(at, values, findings, links)
        keys = ()
    for key in keys:
        _fill(at, key, values, fields, findings, roles, guests, services)
    if "timeout" in values:
        fields["timeout_ns"] = _parsed(at, values, "timeout", POSITIVE_DURATION.parse, findings)
    if "on_timeout" in values:
        fields["on_timeout"] = _parsed(at, values, "on_timeout", _ON_TIMEOUT.parse, findings)
    if "until" in values and not {"timeout", "on_timeout"} <= set(values):
        findings.add(
            at, "waits without an end", "add 'timeout: 30 s' and 'on_timeout: fail | cancel | censor'"
        )
    if do == WAIT.name and ("for" in values) == ("until" in values):
        findings.add(at, "a wait has either 'for' or 'until'", "write e.g. 'for: 200 ms'")
    after = _trigger((*at, "after"), values["after"], findings) if values.get("after") is not None else None
    if watch.wrong:
        return None
    return ActionSpec(name, do, after, fields)


def _parsed(
    at: Steps, values: dict[str, Any], key: str, parse: Any, findings: Findings, *, missing: str = ""
) -> Any:
    if key not in values:
        if missing:
            findings.add(at, f"'{key}' is missing", missing)
        return None
    try:
        return parse(values[key])
    except ValueError as error:
        findings.add_text((*at, key), str(error))
        return None


def _fill(
    at: Steps, key: str, values: dict[str, Any], fields: dict[str, Any], findings: Findings,
    roles: Mapping[str, RoleSpec], guests: list[str] | None, services: Mapping[str, ServiceSpec],
) -> None:  # fmt: skip
    value = values.get(key)
    match key:
        case "role" | "guest":
            names = list(roles) if key == "role" else guests
            if names is None or value in names or (key == "role" and findings.declares("roles", value)):
                fields[key] = value
            else:
                what = f"'{key}' is missing" if value is None else f"there is no {key} '{shown(value)}'"
                findings.add(
                    (*at, key), what, nearest(str(value), names) or f"there are {', '.join(names[:8])}"
                )
        case "for" if value is not None:
            fields["for_ns"] = _parsed(at, values, key, DURATION.parse, findings)
        case "until" if value is not None:
            fields["until"] = read_until((*at, key), value, findings, services, roles)
        case "service":
            fields |= read_call(at, values, findings, services)
        case "to":
            fields |= read_move(at, values, findings, guests)
        case "argv":
            if isinstance(value, list) and value and all(isinstance(word, str) for word in value):
                fields["argv"] = tuple(value)
            else:
                findings.add((*at, key), "'argv' is a list of words", "write e.g. [ping, -c, '1', 10.0.0.2]")
        case "parameter" | "value":
            _tuned(at, values, fields, findings, roles)


def _tuned(
    at: Steps,
    values: dict[str, Any],
    fields: dict[str, Any],
    findings: Findings,
    roles: Mapping[str, RoleSpec],
) -> None:
    """`set`: a tunable parameter of a role, as the Plan's args."""
    role = roles.get(str(values.get("role")))
    if role is None or "args" in fields:
        return
    tunable = {parameter.name: parameter for parameter in role.declaration.tunable.values()}
    parameter = tunable.get(str(values.get("parameter")))
    if parameter is None:
        what = f"'{shown(values.get('parameter'))}' cannot be set while {role.workload} runs"
        findings.add((*at, "parameter"), what, f"it has {', '.join(tunable) or 'no such parameter'}")
        return
    try:
        fields["args"] = parameter.plan_values(values.get("value"))
    except ValueError as error:
        findings.add_text((*at, "value"), str(error))


def _relinked(
    at: Steps, values: dict[str, Any], findings: Findings, links: Mapping[str, int] | None
) -> dict[str, Any]:
    """`set` of a link: its name, and its rate or its state, as the Plan's fields."""
    link = values["link"]
    if "role" in values:
        findings.add(
            (*at, "role"), "an action sets something of a role or of a link", "remove one of both", key=True
        )
    parameter = values.get("parameter")
    if parameter not in OF_LINK:
        of_what = f", not '{shown(parameter)}'" if "parameter" in values else ""
        what = f"only the {' or the '.join(OF_LINK)} of a link can be set while a run plays{of_what}"
        cure = " or ".join(f"'parameter: {name}'" for name in OF_LINK)
        findings.add((*at, "parameter"), what, f"write {cure}")
        return {}
    rate = state = None
    if parameter == "state":
        state = _parsed(at, values, "value", _STATE.parse, findings, missing="write up or down")
    else:
        rate = _parsed(at, values, "value", RATE.parse, findings, missing="write a rate, e.g. 10 Mbit/s")
    if links is not None and (not isinstance(link, str) or link not in links):
        cure = nearest(str(link), list(links)) or f"there are {', '.join(list(links)[:8]) or 'none'}"
        findings.add((*at, "link"), f"there is no link '{shown(link)}'", cure)
    elif rate is not None and rate < SLOWEST_BIT_PER_S:
        what = f"at {Bitrate(rate)} a frame holds the link for longer than 0.12 s, even once that has its rate again"
        findings.add((*at, "value"), what, f"write {Bitrate(SLOWEST_BIT_PER_S)} at least")
    elif links is not None and rate is not None and rate > links[link]:
        what = (
            f"link '{link}' carries {Bitrate(links[link])}, and can be slowed, but not made faster than it is"
        )
        findings.add((*at, "value"), what, f"write at most {Bitrate(links[link])}")
    return {"link": link, "args": {"rate_bit_per_s": rate} if parameter == "rate" else {"state": state}}


def _trigger(at: Steps, value: Any, findings: Findings) -> TriggerSpec | None:
    if isinstance(value, str):
        event, plus, time = (part.strip() for part in value.partition("+"))
        plus_ns = 0
        if plus:
            try:
                plus_ns = DURATION.parse(time)
            except ValueError as error:
                findings.add_text(at, str(error))
        return TriggerSpec(event=event, plus_ns=plus_ns)
    if isinstance(value, dict) and len(value) == 1 and next(iter(value)) in {"any", "all"}:
        key, events = next(iter(value.items()))
        if isinstance(events, list) and events and all(isinstance(event, str) for event in events):
            return TriggerSpec(any=tuple(events)) if key == "any" else TriggerSpec(all=tuple(events))
    findings.add(at, "is not a trigger", "write 'EVENT', 'EVENT + 500 ms', '{any: [...]}' or '{all: [...]}'")
    return None


def _check_event(at: Steps, event: str, actions: list[str] | None, findings: Findings) -> None:
    match = _EVENT.match(event)
    if match is None or match[2] not in EVENTS:
        findings.add(
            at, f"'{shown(event)}' is not an event", f"write ACTION.EVENT with one of {', '.join(EVENTS)}"
        )
    elif actions is not None and match[1] not in actions:
        cure = nearest(match[1], actions) or f"there are {', '.join(actions)}"
        findings.add(at, f"there is no action '{match[1]}'", cure)


def _check_triggers(actions: list[ActionSpec], findings: Findings) -> None:
    ids = [action.id for action in actions]
    watch = findings.watch()
    for position, action in enumerate(actions):
        for event in action.after.events() if action.after else ():
            _check_event(("timeline", position, "after"), event, ids, findings)
    if watch.wrong:
        return
    needs = {
        action.id: {event.partition(".")[0] for event in action.after.events()} if action.after else set()
        for action in actions
    }
    ready: set[str] = set()
    while len(ready) < len(needs):
        now = {name for name, others in needs.items() if name not in ready and others <= ready}
        if not now:
            stuck = next(position for position, name in enumerate(ids) if name not in ready)
            what = f"'{ids[stuck]}' waits for itself, through {', '.join(sorted(needs[ids[stuck]] - ready))}"
            findings.add(("timeline", stuck, "after"), what, "break the cycle")
            return
        ready |= now
