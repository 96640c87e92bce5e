"""A virtual switch as a lowered Plan has it: what makes it, joins its ports, and tells it where addresses are.

The defaults are right for one that is nothing but a name.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from virtlab.plan import Vnic
from virtlab.testbed.queues.kernel import PortQueue
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

    def join_guest(self, vnic: Vnic, link: str) -> PortQueue | None:
        """Notes a port towards a vNIC; its queue in the kernel, where the program that runs the switch sets that up."""
        del vnic, link
        return None

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
