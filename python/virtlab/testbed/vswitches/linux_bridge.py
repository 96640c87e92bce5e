"""The kernel's bridge: Steps make it, and it forwards from then on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from virtlab.plan import Vswitch
from virtlab.testbed.kinds.built_switch import BuiltSwitch
from virtlab.testbed.kinds.switch import SwitchKind
from virtlab.testbed.steps.operations import BridgeAdd, ForwardingAdd, LinkSet, Operation, Rules


@dataclass(slots=True)
class Bridge(BuiltSwitch):
    """A bridge that learns behind which port an address is, and floods what it does not know, or not."""

    namespace: str
    link: str
    learning: bool = True
    flooding: bool = True

    @property
    def master(self) -> str | None:
        """Ports are born as its own."""
        return self.link

    def made(self, mtu_bytes: int) -> Iterator[Operation]:
        """The interface that it is."""
        yield BridgeAdd(self.namespace, self.link, mtu_bytes=mtu_bytes)

    def raised(self) -> Iterator[Operation]:
        """It forwards while it is up."""
        yield LinkSet(self.namespace, self.link, up=True)

    def rules(self, *, isolated: bool = False) -> Rules | None:
        """The port rules that differ from the kernel's defaults."""
        rules = Rules(
            isolated=isolated or None,
            learning=None if self.learning else False,
            flooding=None if self.flooding else False,
        )
        return rules if rules != Rules() else None

    def known(self, mac: str, port: str) -> Operation | None:
        """An entry of its table."""
        return ForwardingAdd(self.namespace, port, mac)

    def relocated(self, mac: str, port: str) -> Operation | None:
        """The entry names another port: an address has one."""
        return self.known(mac, port)


def _built(vswitch: Vswitch, namespace: str, link: str, static: bool) -> Bridge:
    """As the file has it learn and flood; static entries stay beside what it learns."""
    del static
    return Bridge(namespace, link, learning=vswitch.learning, flooding=vswitch.flooding)


IMPLEMENTATION = SwitchKind(_built)
