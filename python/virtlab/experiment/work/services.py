"""The section `services`: systems under test on guests, checked against the catalogue's declaration of their kind.

A service says where it is, what it needs, when it is ready, and the parameters of its kind. Those that need each
other in a circle would never begin, which is found here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from virtlab.catalogue import SERVICES
from virtlab.catalogue.declaration import ServiceKind
from virtlab.catalogue.kinds import ARGV, POSITIVE_DURATION, TEXT, shown
from virtlab.catalogue.references import SERVICE_ENDS
from virtlab.catalogue.sockets import PORT
from virtlab.experiment.read.brought import Brought, filled
from virtlab.experiment.read.findings import Findings, Steps
from virtlab.experiment.read.leaves import NAME
from virtlab.experiment.read.tree import Node
from virtlab.experiment.work.chosen import chosen
from virtlab.experiment.work.references import check_references
from virtlab.lazy import pattern
from virtlab.units import nearest

COMMON = ("kind", "on", "needs", "ready")
READY = ("port", "http", "line", "argv", "every", "timeout")
_WRITE = "write e.g. 'db: {kind: program, on: h2.g1, argv: [redis-server], ready: {port: 6379}}'"
_HTTP = pattern(r"/[!-~]*\Z")


class ServiceSpec(NamedTuple):
    """A service of one design point; `ready` and `parameters` carry their Plan names and SI values."""

    name: str
    kind: str
    on: tuple[str, ...]
    needs: tuple[str, ...] = ()
    ready: Mapping[str, Any] | None = None
    parameters: Mapping[str, Any] = {}

    @property
    def declaration(self) -> ServiceKind:
        """The catalogue's entry."""
        return SERVICES[self.kind]

    @property
    def has_port(self) -> bool:
        """Whether its check says which port it serves at."""
        return self.ready is not None and "port" in self.ready

    @property
    def active(self) -> str | None:
        """The guest of its active server; None where none of them is passive."""
        key = self.declaration.active
        return self.parameters.get(key) if key is not None else None

    @property
    def of_image(self) -> bool:
        """Whether the images of its guests say what it executes."""
        return any(each.in_image and each.plan not in self.parameters for each in self.declaration.parameters)

    def words(self) -> Iterator[tuple[Steps, list[str]]]:
        """Words that may refer to addresses and ports, each list with its place in the file."""
        at: Steps = ("services", self.name)
        yield (*at, "argv"), list(self.parameters.get("argv", ()))
        yield (*at, "ready", "argv"), list((self.ready or {}).get("argv", ()))

    def commands(self) -> tuple[tuple[str, ...], ...]:
        """What its guests execute for the file."""
        check = self.ready.get("argv") if self.ready is not None else None
        return (*self.declaration.executes(self.parameters), *([tuple(check)] if check else []))


def read_services(
    findings: Findings,
    guests: Sequence[str] | None,
    images: Mapping[str, str] | None = None,
    brought: Brought = MappingProxyType({}),
) -> dict[str, ServiceSpec]:
    """The section of a resolved tree. Services with mistakes are left out; their mistakes are added.

    `guests`: those that there are; `images`: of containers that have one. None where that is unknown. `brought`: files
    that they may name.
    """
    node = findings.root.get("services")
    if node is None or node.value is None:
        return {}
    if not isinstance(node.value, dict):
        findings.add(("services",), "must map names to services", _WRITE)
        return {}
    found = {}
    for name, entry in node.value.items():
        service = _service(name, entry, list(node.value), guests, images, findings)
        if service is not None:
            filled(("services", name), service.parameters, brought, findings)
            found[name] = service
    _check_needs(found, findings)
    ports = [(each.name, each.has_port) for each in found.values()]
    for each in found.values():
        for at, words in each.words():
            check_references(at, words, SERVICE_ENDS, guests, ports, findings)
        for variable, text in each.parameters.get("environment", {}).items():
            at = ("services", each.name, "environment")
            check_references(at, [text], SERVICE_ENDS, guests, ports, findings, key=variable)
    return found


def _service(
    name: str,
    node: Node,
    names: Sequence[str],
    guests: Sequence[str] | None,
    images: Mapping[str, str] | None,
    findings: Findings,
) -> ServiceSpec | None:
    at: Steps = ("services", name)
    if not NAME.match(name):
        cure = "begin with a letter; use letters, digits, _ and -"
        findings.add(at, f"'{shown(name)}' is not a valid name of a service", cure, key=True)
        return None
    if not isinstance(node.value, dict):
        findings.add(at, f"'{shown(node.plain())}' is not a service", _WRITE)
        return None
    watch = findings.watch()
    kind = chosen(at, node, "kind", "kind of service", SERVICES, findings)
    on = _names(at, node, "on", findings)
    if "on" not in node.value:
        findings.add(at, "'on' is missing", "name its guests, e.g. h2.g1 or [h1.g1, h2.g1]", key=True)
    elif not on and not watch.wrong:
        findings.add((*at, "on"), "it is on no guest", "name at least one, e.g. h2.g1")
    for guest in on:
        if guests is not None and guest not in guests:
            listed = f"there are {', '.join(guests[:8])}{', ...' if len(guests) > 8 else ''}"
            findings.add((*at, "on"), f"there is no guest '{shown(guest)}'", nearest(guest, guests) or listed)
    needs = _names(at, node, "needs", findings)
    for other in needs:
        if other not in names:
            cure = nearest(other, names) or f"there are {', '.join(names)}"
            findings.add((*at, "needs"), f"there is no service '{shown(other)}'", cure)
    ready = _ready((*at, "ready"), node.get("ready"), kind, findings)
    in_images = images is None or (bool(on) and images.keys() >= set(on))
    parameters = _parameters(at, node, kind, findings, in_images=in_images) if kind is not None else {}
    beside = kind.more_guests if kind is not None else None
    for guest in parameters.get(beside, ()) if beside is not None else ():
        if guests is not None and guest not in guests:
            cure = nearest(guest, guests) or f"name guests of the file, e.g. {', '.join(guests[:3])}"
            findings.add((*at, beside or ""), f"there is no guest '{shown(guest)}'", cure)
    for key, text in kind.placed(parameters, on) if kind is not None and not watch.wrong else ():
        findings.add_text((*at, key), text)
    return None if kind is None or watch.wrong else ServiceSpec(name, kind.name, on, needs, ready, parameters)


def _names(at: Steps, node: Node, key: str, findings: Findings) -> tuple[str, ...]:
    """A name, or a list of names, each once."""
    entry = node.get(key)
    if entry is None:
        return ()
    written = entry.plain()
    names = [written] if isinstance(written, str) else written
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        findings.add((*at, key), f"'{shown(written)}' does not name any", "write a name, or a list of names")
        return ()
    for name in dict.fromkeys(names):
        if names.count(name) > 1:
            findings.add((*at, key), f"'{shown(name)}' is named twice", "name each once")
    return tuple(names)


def _parameters(
    at: Steps, node: Node, kind: ServiceKind, findings: Findings, *, in_images: bool
) -> dict[str, Any]:
    assert isinstance(node.value, dict)
    known = [parameter.name for parameter in kind.parameters]
    for key in node.value:
        if key not in known and key not in COMMON:
            cure = nearest(key, [*known, *COMMON]) or f"it has {', '.join([*COMMON, *known])}"
            findings.add((*at, key), f"'{shown(key)}' is not a parameter of {kind.name}", cure, key=True)
    values: dict[str, Any] = {}
    wrong = False
    for parameter in kind.parameters:
        entry = node.get(parameter.name)
        if entry is None and parameter.default is None:
            if parameter.required and not (parameter.in_image and in_images):
                cure = f"write e.g. '{parameter.name}: {parameter.kind.example}' ({parameter.meaning})"
                if parameter.in_image:
                    cure += ", or take containers with an 'image' that says it"
                findings.add(at, f"'{parameter.name}' of {kind.name} is missing", cure, key=True)
            continue
        try:
            values |= parameter.plan_values(entry.plain() if entry is not None else parameter.default)
        except ValueError as error:
            wrong = True
            findings.add_error((*at, parameter.name), error)
    for name, text in [] if wrong else kind.check(values):
        findings.add_text((*at, name), text)
    return values


def _ready(
    at: Steps, node: Node | None, kind: ServiceKind | None, findings: Findings
) -> dict[str, Any] | None:
    """One check, how often it is tried and for how long, as the Plan says them."""
    own = kind.port if kind is not None else None
    if node is None or node.value is None:
        return None if own is None else {"port": own}
    if not isinstance(node.value, dict):
        findings.add(at, f"'{shown(node.plain())}' is not a check", "write e.g. '{port: 80, timeout: 10 s}'")
        return None
    found: dict[str, Any] = {}
    for key, entry in node.value.items():
        try:
            found |= _of_ready(key, entry.plain())
        except KeyError:
            cure = nearest(key, READY) or f"it has {', '.join(READY)}"
            findings.add((*at, key), f"unknown key '{shown(key)}'", cure, key=True)
        except ValueError as error:
            findings.add_text((*at, key), str(error))
    checks = [key for key in ("port", "line", "argv") if key in node.value]
    if kind is not None and own is not None:
        found = {"port": own, **found}
        for key in ("http", "line", "argv"):
            if key in node.value:
                what = f"a {kind.name} is ready when its port accepts a connection"
                findings.add((*at, key), what, "write 'port', or remove it", key=True)
    elif len(checks) != 1:
        what = f"it has {' and '.join(checks)}" if checks else "nothing is checked"
        findings.add(at, what, "write one of 'port' (with 'http' or without), 'line', 'argv'")
    elif "http" in node.value and checks != ["port"]:
        findings.add((*at, "http"), "a path needs a port", "write 'port', too", key=True)
    return found


def _of_ready(key: str, written: Any) -> dict[str, Any]:
    """One key of a check, by its Plan name. KeyError of an unknown one, ValueError("WHAT; CURE")."""
    match key:
        case "port":
            return {key: PORT.parse(written)}
        case "http":
            if not isinstance(written, str) or not _HTTP.match(written):
                raise ValueError(f"'{shown(written)}' is not a path; write e.g. '/' or '/health?full=1'")
            return {key: written}
        case "line":
            return {key: TEXT.parse(written)}
        case "argv":
            return {key: tuple(ARGV.parse(written))}
        case "every" | "timeout":
            return {f"{key}_ns": POSITIVE_DURATION.parse(written)}
    raise KeyError(key)


def _check_needs(services: Mapping[str, ServiceSpec], findings: Findings) -> None:
    """No service needs itself; where one of those that are needed is wrong, that is said instead."""
    if any(other not in services for each in services.values() for other in each.needs):
        return
    begun: set[str] = set()
    while more := {name for name, each in services.items() if begun.issuperset(each.needs)} - begun:
        begun |= more
    stuck = next((name for name in services if name not in begun), None)
    if stuck is not None:
        waits = ", ".join(other for other in services[stuck].needs if other not in begun)
        what = f"'{stuck}' waits for itself, through {waits}"
        findings.add(("services", stuck, "needs"), what, "break the cycle")
