"""Open vSwitch as a kind of virtual switch, with one of its datapaths: what is refused, and what runs all of its
bridges.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from virtlab.catalogue import VSWITCHES
from virtlab.plan import Plan, Refusal, Vswitch
from virtlab.testbed.kinds.findings import Findings
from virtlab.testbed.kinds.platform import Surroundings
from virtlab.testbed.kinds.registry import vswitches
from virtlab.testbed.kinds.switch import RunningSwitches, SwitchKind
from virtlab.testbed.kinds.tap import CURE_TUN, tun_missing
from virtlab.testbed.vswitches import ovs
from virtlab.testbed.vswitches.ovs_rules import IN_KERNEL, OvsBridge


def kind(name: str, datapath: str) -> SwitchKind:
    """Open vSwitch with a datapath, by what Open vSwitch calls that."""

    def missing(findings: Findings) -> str | None:
        if findings.open_vswitch is not None:
            return findings.open_vswitch[name]
        return ovs.missing(in_kernel=datapath == IN_KERNEL)

    def refusals(path: str, vswitch: str, plan: Plan, findings: Findings) -> Iterator[Refusal]:
        why = missing(findings)
        if why is not None:
            cure = {ovs.NO_MODULE: ovs.CURE_KERNEL, tun_missing(): CURE_TUN}.get(why, ovs.CURE)
            yield Refusal(f"{path}.kind", why, cure)
        yield from refused(path, vswitch, plan)

    def built(vswitch: Vswitch, namespace: str, link: str, static: bool) -> OvsBridge:
        own = vswitch.parameters.get("flow_entries") == "own"
        return OvsBridge(namespace, link, vswitch.flooding, datapath, own_entries=own, static=static)

    return SwitchKind(built, missing, refusals, _running)


def refused(path: str, name: str, plan: Plan) -> Iterator[Refusal]:
    """What no Open vSwitch does, whatever is installed."""
    vswitch = plan.world.vswitches[name]
    kinds = {other.kind for other in plan.world.vswitches.values() if other.host == vswitch.host}
    if sum(found.running is _running for each in kinds if (found := vswitches.find(each)) is not None) > 1:
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


def _running(world: Surroundings, names: Sequence[str]) -> RunningSwitches:
    """One set of daemons for each host, whatever its datapath."""
    return ovs.OpenVswitches(world.control, world.plan, world.lowered, names)
