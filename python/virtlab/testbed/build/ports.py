"""Queues at guest ports on this testbed: the kernel's at the tap or veth itself, or virtlab's in the soft switch.

`by: auto` is the one that paces the port. A port with a rate is paced by the links' player; one without a rate is the
kernel's, and there a frame waits only where its discipline holds it (tbf, htb, netem, hfsc with an upper limit) or
the guest takes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from virtlab.catalogue import QDISCS
from virtlab.catalogue.qdiscs.htb import HTB
from virtlab.plan import Plan, Refusal, Vnic
from virtlab.planner.queues.ports import Wanted, port_mistakes, said_ports, with_port_links
from virtlab.testbed.build import fabric
from virtlab.testbed.queues import kernel as kernel_queues
from virtlab.testbed.queues.kernel import PortQueue
from virtlab.testbed.queues.outputs import LAB_VM
from virtlab.testbed.steps.operations import Operation

if TYPE_CHECKING:
    from virtlab.testbed.kinds.findings import Findings
    from virtlab.testbed.kinds.lowered import Lowered


def in_switch(plan: Plan, automatic: str) -> Wanted:
    """Which ports are the soft switch's. `automatic`: who realises links that say `auto` here."""
    switched = bool(plan.world.links) and fabric.realisation(plan, automatic) == "soft_switch"

    def wanted(vnic: Vnic) -> bool:
        if vnic.queue is None:
            return False
        paced = vnic.port_rate_bit_per_s is not None and switched
        return vnic.queue.by == "virtlab" or (vnic.queue.by == "auto" and paced)

    return wanted


def as_built(plan: Plan, automatic: str) -> Plan:
    """The Plan that is lowered: ports of the soft switch are links."""
    return with_port_links(plan, in_switch(plan, automatic))


def at_guest_port(port: str, vnic: Vnic, namespace: str, link: str, out: Lowered) -> list[Operation]:
    """The operations at a port whose queue is the kernel's, noted in `out.queues` for counters and read-back."""
    if vnic.queue is None or (port, "ab") in out.queues:
        return []  # Open vSwitch sets it up
    rate = vnic.port_rate_bit_per_s
    handles = kernel_queues.class_handles(vnic.queue)
    top = "1:" if rate is not None else kernel_queues.QUEUE
    out.queues[port, "ab"] = PortQueue(namespace, link, handles, top)
    return list(kernel_queues.at_port(namespace, link, rate, vnic.queue))


def port_refusals(plan: Plan, findings: Findings) -> Iterator[Refusal]:
    """Why queues at guest ports cannot be as the file wants them."""
    switched = in_switch(plan, findings.machine.link)
    yield from port_mistakes(plan, switched)
    for port, _, vnic in said_ports(plan):
        assert vnic.queue is not None
        path = f"{port}.queue"
        if vnic.queue.kind not in QDISCS:
            continue  # which is refused wherever it stands
        if switched(vnic):
            if vnic.port_rate_bit_per_s is None:
                reason = (
                    "a port without a rate hands every frame on at once, and nothing waits in a soft switch"
                )
                yield Refusal(f"{path}.by", reason, "write 'port_rate: 500 Mbit/s', or 'by: kernel'")
            continue
        for key, reason, cure in kernel_queues.missing(vnic.queue, findings.qdiscs, findings.inside):
            paced = "" if vnic.port_rate_bit_per_s is not None else " and a 'port_rate'"
            yield Refusal(f"{path}.{key}", reason, cure.replace("'by: virtlab'", f"'by: virtlab'{paced}", 1))
        if vnic.port_rate_bit_per_s is not None and findings.qdiscs.get(HTB.name, "not tried") is not None:
            yield Refusal(
                f"{path}.by", "this kernel has no htb to hold a port's rate", f"load sch_htb, or {LAB_VM}"
            )
        if QDISCS[vnic.queue.kind].kernel.own_packets:
            reason = (
                "frames that crossed a virtual switch have lost the priority that the kernel's bands go by"
            )
            yield Refusal(f"{path}.kind", reason, "write prio with match rules")
