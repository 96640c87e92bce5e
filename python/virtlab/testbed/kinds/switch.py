"""What a kind of virtual switch is to this testbed, whether the kernel or a program forwards its frames.

`SwitchKind` says whether such switches can be here, and lowers each to a `BuiltSwitch`: its part of the world's Steps.
One that the kernel forwards for is done when these are applied; one that is a program is started by `running`, and told
then what its `BuiltSwitch` noted. It is found by its declared name (`testbed/kinds/registry.py`), and nothing else of
it is used.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from virtlab.plan import Plan, Refusal, Vnic, Vswitch
from virtlab.testbed.kinds.platform import (
    Counted,
    Running,
    Surroundings,
    nothing_missing,
    nothing_refused,
)

if TYPE_CHECKING:
    from virtlab.testbed.kinds.findings import Findings
    from virtlab.testbed.kinds.lowered import Lowered
    from virtlab.testbed.queues.ovs import Qos
    from virtlab.testbed.steps.operations import Operation, Rules


class BuiltSwitch:
    """A virtual switch of a world: an interface of its host's namespace, and the settings of its ports."""

    __slots__ = ()
    namespace: str
    link: str

    @property
    def afterwards(self) -> Sequence[Operation]:
        """tc's part of queues that a program sets up, once it runs."""
        return ()

    @property
    def master(self) -> str | None:
        """The bridge that an interface is born as a port of; None where a program takes it in later."""
        return None

    def made(self, mtu_bytes: int) -> Iterator[Operation]:
        """The operations that make the switch, before it has ports."""
        del mtu_bytes
        return iter(())

    def raised(self) -> Iterator[Operation]:
        """What has it forward, once all ports are there."""
        return iter(())

    def join_guest(self, port: str, vnic: Vnic, link: str, out: Lowered) -> None:
        """Notes a port towards a vNIC, with its queue where the program that runs the switch sets that up."""

    def join_uplink(self, link: str, *, shared: bool, mtu_bytes: int, names: set[str]) -> None:
        """Notes a port towards a link; `shared`: guests share the queue in front of that link's wire.

        `names`: interfaces of the namespace, to which a switch adds what it has to make between itself and the link.
        """

    def rules(self, *, isolated: bool = False) -> Rules | None:
        """What to set at a port of a kernel's bridge; None where the kernel's own defaults hold."""
        del isolated
        return None

    def known(self, mac: str, port: str) -> Operation | None:
        """Notes behind which port an address is; what has the kernel know it, where that forwards."""
        del mac, port
        return None

    def relocated(self, mac: str, port: str) -> Operation | None:
        """What has the kernel know that an address is behind another port now; None where a program has to be told."""
        del mac, port
        return None

    def qos(self, port: str) -> Qos | None:
        """The record of a port's queues, where a program set them up by one."""
        del port
        return None


class RunningSwitches(Running, ABC):
    """Virtual switches of a session that are programs."""

    __slots__ = ()

    @abstractmethod
    def facts(self, vswitch: str) -> dict[str, Any]:
        """A switch as its program has it. MachineError where it is not as told."""

    @abstractmethod
    def relocate(self, vswitch: str, ports: Mapping[str, str]) -> None:
        """Tells a switch that knows where addresses are behind which of its ports some are from now on: MAC ->
        interface.

        MachineError where it cannot be told.
        """

    def caches(self) -> Iterator[Counted]:
        """Counters that take processes to read: of its flow caches."""
        return iter(())


@dataclass(frozen=True, slots=True)
class SwitchKind:
    """A kind of virtual switch: `missing`, `refusals` and `running` as of `GuestPlatform`."""

    # One of them: in a namespace, by a name, and whether it is told from the start where addresses are.
    built: Callable[[Vswitch, str, str, bool], BuiltSwitch]
    missing: Callable[[Findings], str | None] = nothing_missing
    refusals: Callable[[str, str, Plan, Findings], Iterator[Refusal]] = nothing_refused
    running: Callable[[Surroundings, Sequence[str]], RunningSwitches] | None = None
