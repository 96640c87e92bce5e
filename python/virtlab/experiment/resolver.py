"""Design points resolved: references replaced, sections typed, the network wired and addressed, and all of it checked.

A section is resolved once per combination of the factors that it refers to, not once per design point, so a
large matrix costs little more than its distinct parts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from virtlab.catalogue.kinds import shown
from virtlab.experiment.read.brought import Brought
from virtlab.experiment.read.factors import Factor, Levels, references, substitute
from virtlab.experiment.read.findings import Findings
from virtlab.experiment.read.mistakes import Mistakes
from virtlab.experiment.read.model import (
    CollectSpec,
    HostSpec,
    LimitsSpec,
    LinkSpec,
    NetworkSpec,
    RouterSpec,
    SwitchSpec,
    TimingSpec,
    TopologySpec,
)
from virtlab.experiment.read.sections import merged, validate_section
from virtlab.experiment.read.traces import Traces
from virtlab.experiment.read.tree import Node
from virtlab.experiment.study import Study
from virtlab.experiment.work.ends import with_ends
from virtlab.experiment.work.reach import check_roles
from virtlab.experiment.work.roles import RoleSpec, read_roles
from virtlab.experiment.work.services import ServiceSpec, read_services
from virtlab.experiment.work.stored_disks import check_stored_disks
from virtlab.experiment.work.timeline import ActionSpec, read_timeline, read_windows
from virtlab.experiment.world.addresses import Addresses, assign
from virtlab.experiment.world.pools import check_use
from virtlab.experiment.world.port_queues import read_port_queues
from virtlab.experiment.world.queues import QueueSpec, read_queue
from virtlab.experiment.world.topology import Wiring, check_ends, container_images, wire
from virtlab.units import nearest, show_count

if TYPE_CHECKING:
    from virtlab.experiment.read.search_model import SearchSpec
    from virtlab.experiment.work.search import SearchFor

NETWORK = ("hosts", "host", "topology", "switches", "switch", "routers", "router", "links", "link", "network")
RUN = ("timing", "timeline", "windows", "collect", "limits", "search")
RESOLVED = (*NETWORK, "roles", "services", *RUN)
GUESTS_MAX = 20_000  # in the worlds of all design points together, each world counted once
VALUES_MAX = 120_000  # in the sections of all design points together, each combination of levels counted once
T = TypeVar("T")


class Resolver:
    """Resolves points of one file. Mistakes are collected; a point that has some resolves to nothing."""

    def __init__(
        self, root: Node, factors: Mapping[str, Factor], traces: Traces, brought: Brought, mistakes: Mistakes
    ) -> None:
        self._root = root
        self._factors = factors
        self._traces, self._brought = traces, brought
        self.mistakes = mistakes
        present = {name: node for name in RESOLVED if (node := root.get(name)) is not None}
        self._uses = {name: tuple(sorted(references(node) & set(factors))) for name, node in present.items()}
        self._made: dict[tuple[Any, ...], Any] = {}
        self._factors_of: dict[tuple[str, ...], tuple[str, ...]] = {}  # sections -> what they refer to
        self._values = {name: sum(1 for _ in node.walk()) for name, node in present.items()}
        self._guests_met = self._values_met = 0

    def values(self) -> int:
        """Values that the sections of all design points have together, before exclusions."""
        return sum(
            self._values[name] * math.prod(len(self._factors[factor].levels) for factor in used)
            for name, used in self._uses.items()
        )

    @property
    def too_large(self) -> bool:
        """Whether the sections met so far have more values than a file may describe."""
        return self._values_met > VALUES_MAX

    @property
    def exhausted(self) -> bool:
        """Whether what was met so far is more than a file may describe; the other points are not looked at."""
        return self._guests_met > GUESTS_MAX or self.too_large

    def study(self, point: Levels) -> Study:
        """The study of a point without mistakes."""
        study = self.resolve(point)
        assert study is not None, f"{dict(point)} was checked when the file was loaded"
        return study

    def resolve(self, point: Levels) -> Study | None:
        """The study of a point, or None when it has mistakes (which are added)."""
        key = self._key("study", RESOLVED, point)
        if key not in self._made:
            self._made[key] = self._study(point)
        return self._made[key]  # type: ignore[no-any-return]

    def _once(
        self, part: str, sections: tuple[str, ...], point: Levels, make: Callable[[Findings, Levels], T]
    ) -> T:
        """Makes it once per combination of the factors that the sections refer to."""
        key = self._key(part, sections, point)
        if key not in self._made:
            self._made[key] = make(self._findings(sections, point), point)
        return self._made[key]  # type: ignore[no-any-return]

    def _key(self, part: str, sections: tuple[str, ...], point: Levels) -> tuple[str, ...]:
        """What is made, and the point's levels of the factors that the sections refer to."""
        factors = self._factors_of.get(sections)
        if factors is None:
            used = {name for section in sections for name in self._uses.get(section, ())}
            factors = self._factors_of[sections] = tuple(sorted(used))
        return (part, *(point[name] for name in factors))

    def _findings(self, sections: tuple[str, ...], point: Levels) -> Findings:
        """A tree with the sections' references replaced."""
        chosen = {name: self._root.get(name) for name in sections}
        resolved = {
            name: self._resolved(name, node, point) for name, node in chosen.items() if node is not None
        }
        root = Node(dict(resolved), self._root.line, self._root.column, keys=self._root.keys)
        return Findings(root, self.mistakes)

    def _resolved(self, name: str, node: Node, point: Levels) -> Node:
        key = ("section", name, *(point[factor] for factor in self._uses[name]))
        if key not in self._made:
            self._values_met += self._values[name]
            self._made[key] = substitute(node, self._factors, point)
        return self._made[key]  # type: ignore[no-any-return]

    def _section(self, name: str, point: Levels) -> Any:
        return self._once(
            f"typed {name}", (name,), point, lambda findings, _: validate_section(name, findings)
        )

    def _study(self, point: Levels) -> Study | None:
        network = self._once("network", NETWORK, point, self._network)
        if self.exhausted:
            return None
        roles = self._once(
            "roles", ("roles",), point, lambda own, _: read_roles(own, self._traces, self._brought)
        )
        typed = {name: self._section(name, point) for name in ("timing", "collect", "limits", "search")}
        guests = list(network[0].stations) if network else None  # None: unknown, so nothing is said of them
        images = None if network is None else container_images(network[0])
        services = self._once(
            "services", (*NETWORK, "services"), point,
            lambda own, _: read_services(own, guests, images, self._brought),
        )  # fmt: skip
        if network is not None:
            self._once(
                "disks", (*NETWORK, "services"), point,
                lambda own, _: check_stored_disks(network[0].hosts, services, own),
            )  # fmt: skip
        checked = set(roles) if network is not None else set()
        roles = self._once(
            "ends",
            (*NETWORK, "roles", "services"),
            point,
            lambda own, _: with_ends(roles, services, guests, own),
        )
        if network is not None:
            self._once(
                "reach",
                (*NETWORK, "roles", "services"),
                point,
                lambda own, _: check_roles(network[0], network[2], roles, services, own),
            )
        self._once(
            "guests", ("hosts", "host", "roles"), point, lambda own, at: self._guests(own, at, checked)
        )
        timeline, windows = self._once(
            "timeline", (*NETWORK, "roles", "services", "timeline", "windows"), point,
            lambda own, _: _timeline(own, roles, guests, services, network[0] if network else None),
        )  # fmt: skip
        self._once("kept", ("roles", "timing", "timeline", "collect"), point, lambda own, _: _check_kept(own))
        search = self._once(
            "search", (*NETWORK, "roles", "services", "search"), point,
            lambda own, _: _search(own, typed["search"], roles, network[0] if network else None),
        )  # fmt: skip
        if network is None or len(self.mistakes):
            return None  # the file is refused as a whole, so what the other points become matters no more
        wiring, addresses, spec, queues, ports = network
        if search is not None:
            from virtlab.experiment.work.search import searched

            roles = {**roles, search.role: searched(roles[search.role], search)}
        return Study(
            wiring, addresses, spec, queues, roles, typed["timing"] or TimingSpec.model_construct(), timeline, windows,
            typed["collect"] or CollectSpec.model_construct(), typed["limits"] or LimitsSpec.model_construct(),
            search, ports, services,
        )  # fmt: skip

    def _guests(self, findings: Findings, point: Levels, checked: set[str]) -> None:
        """Names guests that no host has in roles that were not checked, because they or the network are wrong."""
        hosts, common, roles = (
            self._section("hosts", point),
            self._section("host", point),
            findings.root.get("roles"),
        )
        if hosts is None or (findings.root.get("host") is not None and common is None):
            return
        guests = [f"{name}.{guest}" for name, host in hosts.items() for guest in merged(common, host).guests]
        for name, role in (
            roles.value if roles is not None and isinstance(roles.value, dict) else {}
        ).items():
            for key in ("from", "to") if name not in checked and isinstance(role.value, dict) else ():
                end = role.get(key)
                guest = end.value if end is not None and isinstance(end.value, str) else ""
                if "." in guest and guest not in guests:
                    cure = nearest(guest, guests) or f"there are {', '.join(guests[:8])}"
                    findings.add(("roles", name, key), f"there is no guest '{guest}'", cure)

    def _network(
        self, findings: Findings, point: Levels
    ) -> (
        tuple[Wiring, Addresses, NetworkSpec, dict[str, tuple[QueueSpec, QueueSpec]], Mapping[str, QueueSpec]]
        | None
    ):
        typed = {name: self._section(name, point) for name in NETWORK}
        said = {
            name
            for name in NETWORK
            if (node := findings.root.get(name)) is not None and node.value is not None
        }
        if "hosts" not in said:
            findings.add((), "'hosts' is missing", "write e.g. 'hosts: 2'")
        if typed["hosts"] is None or any(typed[name] is None for name in said):
            return None
        watch = self.mistakes.watch()
        if typed["link"] is not None and typed["link"].ends is not None:
            findings.add(
                ("link", "ends"),
                "what all links have in common is not where they go",
                "write it in 'links'",
                key=True,
            )
        hosts: dict[str, HostSpec] = {
            name: merged(typed["host"], host) for name, host in typed["hosts"].items()
        }
        self._guests_met += sum(len(host.guests) for host in hosts.values())
        if self._guests_met > GUESTS_MAX:
            what = f"the worlds of its design points have more than {show_count(GUESTS_MAX)} guests together"
            findings.add((), what, "take fewer levels of what makes the world larger, or smaller ones")
            return None
        switch, router, link = (
            typed["switch"] or SwitchSpec.model_construct(),
            typed["router"] or RouterSpec.model_construct(),
            typed["link"] or LinkSpec.model_construct(),
        )
        switches = {name: merged(switch, own) for name, own in (typed["switches"] or {}).items()}
        routers = {name: merged(router, own) for name, own in (typed["routers"] or {}).items()}
        links = {name: merged(link, own) for name, own in (typed["links"] or {}).items()}
        topology: TopologySpec | None = typed["topology"]
        shaped = [] if topology is None else _shaped_names(topology)
        check_ends(hosts, switches, routers, links, shaped, findings)
        wiring = wire(hosts, topology, switches, routers, links, (switch, router, link), findings)
        if wiring is None or watch.wrong:
            return None
        network: NetworkSpec = typed["network"] or NetworkSpec.model_construct()
        addresses = assign(wiring, network, findings)
        queues = _queues(wiring, findings)
        ports = read_port_queues(wiring, queues, findings)
        return None if watch.wrong else (wiring, addresses, network, queues, ports)


def _shaped_names(topology: TopologySpec) -> list[str]:
    letter = "s" if topology.device == "switch" else "r"
    return [f"{letter}{number}" for number in range(1, topology.switches + 1)]


def _search(
    findings: Findings, spec: SearchSpec | None, roles: Mapping[str, RoleSpec], wiring: Wiring | None
) -> SearchFor | None:
    """The search, whose reader few files need."""
    if spec is None:
        return None
    from virtlab.experiment.work.search import read_search

    return read_search(findings, spec, roles, wiring)


def _timeline(
    findings: Findings,
    roles: Mapping[str, RoleSpec],
    guests: list[str] | None,
    services: Mapping[str, ServiceSpec],
    wiring: Wiring | None,
) -> tuple[tuple[ActionSpec, ...] | None, dict[str, tuple[str, str]] | None]:
    watch = findings.watch()
    links = None if wiring is None else {name: cable.spec.rate for name, cable in wiring.cables.items()}
    timeline = read_timeline(findings, roles, guests, services, links)
    if wiring is not None and not watch.wrong:
        moved_into = {str(action.fields.get("pool")) for action in timeline or ()}
        check_use(wiring.hosts, moved_into, findings)
    if watch.wrong:
        return timeline, read_windows(findings, None)
    actions = [action.id for action in timeline] if timeline is not None else [*roles, "settle", "drain"]
    return timeline, read_windows(findings, actions)


def _check_kept(findings: Findings) -> None:
    """Roles that `collect` names exist; `timing` says nothing where a timeline says it all."""
    roles, packets = findings.root.get("roles"), findings.root.find(("collect", "packets"))[0]
    known = list(roles.value) if roles is not None and isinstance(roles.value, dict) else []
    for position, node in enumerate(packets.value if isinstance(packets.value, list) else []):
        if isinstance(node.value, str) and node.value not in known:
            cure = nearest(node.value, known) or f"there are {', '.join(known)}"
            findings.add(("collect", "packets", position), f"there is no role '{shown(node.value)}'", cure)
    timeline, timing = findings.root.get("timeline"), findings.root.get("timing")
    if (
        timeline is not None
        and timeline.value is not None
        and timing is not None
        and timing.value is not None
    ):
        findings.add(("timing",), "the timeline says when things happen", "remove 'timing'", key=True)


def _queues(wiring: Wiring, findings: Findings) -> dict[str, tuple[QueueSpec, QueueSpec]]:
    """Queues of every cable, both directions; a wrong one is reported where it is written."""
    queues = {}
    for name, cable in wiring.cables.items():
        own = findings.root.find(("links", name))[0].value
        said = own if isinstance(own, dict) and cable.spec.model_fields_set else {}
        at = ("links", name) if "queue" in said else ("link",)
        ahead = read_queue((*at, "queue"), cable.spec.queue, findings)
        back = ahead
        if cable.spec.queue_back is not None:
            at = ("links", name) if "queue_back" in said else ("link",)
            back = read_queue((*at, "queue_back"), cable.spec.queue_back, findings)
        queues[name] = (ahead, back)
    return queues
