"""A lowered Plan: the Steps that build its world, and where its objects are found once the Steps are applied."""

from __future__ import annotations

from dataclasses import dataclass, field

from virtlab.agents.requests.switch import Configure
from virtlab.plan import Vnic
from virtlab.planner.topology.layer_two import OWN
from virtlab.testbed.kinds.built_switch import BuiltSwitch
from virtlab.testbed.queues.kernel import PortQueue
from virtlab.testbed.steps.operations import Operation, Step

OWN_LINK = "_host"  # no name of a Plan begins so


@dataclass(frozen=True, slots=True)
class Place:
    """The namespace and the interface of a vNIC in the built world."""

    namespace: str
    link: str


@dataclass(frozen=True, slots=True)
class Copied:
    """How a guest's memory goes: the networks of both machines that run it, and where the second one listens."""

    source: str
    destination: str
    address: str
    port: int
    disk_port: int = 0  # where its disk is written to

    @property
    def uri(self) -> str:
        """As QEMU says it.

        >>> Copied("host:h1", "host:h2", "fd00::2", 4444).uri
        'tcp:[fd00::2]:4444'
        """
        return f"tcp:{f'[{self.address}]' if ':' in self.address else self.address}:{self.port}"


@dataclass(slots=True)
class Leg:
    """One move of a guest: where it is reached then, how its memory goes, and which fixed entries change."""

    there: dict[str, Place] = field(default_factory=dict)  # vNIC -> its tap at the destination
    copied: Copied | None = None  # None: nothing is copied
    network: str | None = None  # of the machine at the destination; None: the guest's own
    moved: list[Step] = field(default_factory=list)  # fixed entries of bridges
    relocated: dict[str, dict[str, str]] = field(
        default_factory=dict
    )  # and of the soft switch: switch -> MAC -> port
    interfaces: dict[str, dict[str, str]] = field(
        default_factory=dict
    )  # and of virtual switches that are programs: switch -> MAC -> interface

    @property
    def changes(self) -> bool:
        """Whether fixed entries do."""
        return bool(self.moved or self.relocated or self.interfaces)


@dataclass(slots=True)
class Inside:
    """A guest with a kernel of its own: its taps, in the order of its vNICs, and the Steps for the leader inside."""

    taps: dict[str, Place] = field(default_factory=dict)  # vNIC -> its tap
    steps: list[Step] = field(default_factory=list)
    network: str | None = None  # of its machine at first; None: the guest's own
    legs: dict[str, Leg] = field(default_factory=dict)  # action -> the move by it, in their order


@dataclass(slots=True)
class Lowered:
    """Steps, and where the Plan's objects are found once they are applied."""

    steps: list[Step] = field(default_factory=list)
    guests: dict[str, str] = field(default_factory=dict)  # guest -> namespace
    vnics: dict[tuple[str, str], Place] = field(default_factory=dict)
    uplinks: dict[str, Place] = field(default_factory=dict)  # port -> interface on the host's side
    fabric_ports: dict[str, str] = field(default_factory=dict)  # port -> interface in `fabric`
    vswitches: dict[str, BuiltSwitch] = field(default_factory=dict)
    links: dict[str, str] = field(default_factory=dict)  # link -> realisation
    queues: dict[tuple[str, str], PortQueue] = field(default_factory=dict)  # link, direction: in the kernel
    soft_switch: Configure | None = None
    ports: dict[str, Place] = field(
        default_factory=dict
    )  # ports of links that are interfaces: kernel realisations
    machines: dict[str, Inside] = field(default_factory=dict)  # guests with a kernel of their own
    late: list[Step] = field(
        default_factory=list
    )  # about ports that come with a hypervisor's guests, once they are there

    @property
    def hosts(self) -> dict[str, Place]:
        """Host -> its own vNIC, if it has one: beside the port of its virtual switch."""
        own = {name.partition(":"): place for name, place in self.ports.items() if name.startswith(f"{OWN}:")}
        return {host: Place(place.namespace, OWN_LINK) for (_, _, host), place in own.items()}

    def join_guest(self, switch: BuiltSwitch, port: str, vnic: Vnic, link: str) -> None:
        """Joins a vNIC to a virtual switch, and notes its queue where the switch sets one up."""
        if (queue := switch.join_guest(vnic, link)) is not None:
            self.queues[port, "ab"] = queue

    def add_inside(self, guest: str, because: str, *operations: Operation) -> None:
        """Adds operations where a guest's network is: in the private world, or inside its own kernel."""
        steps = self.machines[guest].steps if guest in self.machines else self.steps
        steps.extend(Step(op, because) for op in operations)

    def add(self, because: str, *operations: Operation) -> None:
        """Adds operations with one reason."""
        self.steps.extend(Step(op, because) for op in operations)
