"""Open vSwitch as a kind of virtual switch, with one of its datapaths: what is refused, and what runs all of its bridges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from virtlab.catalogue import VSWITCHES
from virtlab.plan import Plan, Refusal, Vswitch
from virtlab.testbed.platforms.protocol import Surroundings
from virtlab.testbed.platforms.tap import CURE_TUN, tun_missing
from virtlab.testbed.registry import vswitches
from virtlab.testbed.vswitches import ovs
from virtlab.testbed.vswitches.ovs_rules import IN_KERNEL, OvsBridge
from virtlab.testbed.vswitches.protocol import BuiltSwitch, RunningSwitches, SwitchKind

if TYPE_CHECKING:
    from virtlab.testbed.build.machine import Findings


class OpenVswitch(SwitchKind):
    """Bridges of Open vSwitch with one datapath."""

    def __init__(self, datapath: str) -> None:
        self.datapath = datapath  # as Open vSwitch calls it

    def missing(self, kind: str, found: Findings) -> str | None:
        """Its programs, its kernel's module, or taps for a datapath in user space."""
        if found.open_vswitch is not None:
            return found.open_vswitch[kind]
        return ovs.missing(in_kernel=self.datapath == IN_KERNEL)

    def refusals(self, path: str, name: str, plan: Plan, found: Findings) -> Iterator[Refusal]:
        """All of one switch."""
        vswitch = plan.world.vswitches[name]
        why = self.missing(vswitch.kind, found)
        if why is not None:
            cure = {ovs.NO_MODULE: ovs.CURE_KERNEL, tun_missing(): CURE_TUN}.get(why, ovs.CURE)
            yield Refusal(f"{path}.kind", why, cure)
        kinds = {other.kind for other in plan.world.vswitches.values() if other.host == vswitch.host}
        if sum(isinstance(vswitches.find(kind), OpenVswitch) for kind in kinds) > 1:
            reason = "a host has one Open vSwitch, with one datapath"
            yield Refusal(f"{path}.kind", reason, "write the same kind for all switches of the host")
        if not vswitch.learning and vswitch.flooding:
            reason = "Open vSwitch floods as a switch that learns"
            yield Refusal(f"{path}.learning", reason, "write 'flooding: false' too, or 'learning: true'")
        for guest, entry in plan.world.guests.items():
            for own, vnic in entry.vnics.items():
                if vnic.vswitch == name and vnic.offloads != "off" and VSWITCHES[vswitch.kind].process:
                    reason = (
                        "a datapath in user space gets frames as they are, and with offloads none is finished"
                    )
                    yield Refusal(f"guests.{guest}.vnics.{own}.offloads", reason, "write 'offloads: off'")

    def built(self, vswitch: Vswitch, namespace: str, link: str, *, told: bool) -> BuiltSwitch:
        """Its ports, rules and queues are noted until it runs."""
        return OvsBridge(
            namespace,
            link,
            flooding=vswitch.flooding,
            datapath=self.datapath,
            own_entries=vswitch.parameters.get("flow_entries") == "own",
            told=told,
        )

    @property
    def starter(self) -> SwitchKind:
        """One set of daemons for each host, whatever its datapath."""
        return NETDEV

    def running(self, world: Surroundings, names: Sequence[str]) -> RunningSwitches:
        """Daemons for each host that has such a switch."""
        return ovs.OpenVswitches(world.control, world.plan, world.lowered, names)


NETDEV, KERNEL = OpenVswitch("netdev"), OpenVswitch(IN_KERNEL)
