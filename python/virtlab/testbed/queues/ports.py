"""Queues at guest ports on this testbed: the kernel's at the tap or veth itself, or virtlab's in the soft switch.

`by: auto` is the one that paces the port. A port with a rate is paced by the links' player; one without a rate is the
kernel's, and there a frame waits only where its discipline holds it (tbf, htb, netem, hfsc with an upper limit) or
the guest takes nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from virtlab.catalogue import QDISCS
from virtlab.catalogue.qdiscs import HTB
from virtlab.catalogue.queueing import TICK_NS, Spans, same
from virtlab.errors import MachineError
from virtlab.plan import Plan, QueueClass, Refusal, Vnic
from virtlab.planner.ports import Wanted, guest_ports, port_mistakes, port_of, with_port_links
from virtlab.testbed.build import fabric
from virtlab.testbed.build.operations import Discipline, Operation, QdiscAdd
from virtlab.testbed.queues import kernel as kernel_queues
from virtlab.testbed.queues.applied import NOT_THERE, by_handle, differences, of_class, of_discipline
from virtlab.testbed.queues.kernel import PortQueue
from virtlab.testbed.queues.outputs import LAB_VM
from virtlab.testbed.queues.rules import filters
from virtlab.testbed.vswitches.ovs_qos import LEFT_ALONE, ROOT, WHOLE, OvsQueue, Qos, qos_of

if TYPE_CHECKING:
    from virtlab.testbed.build.lower import Lowered
    from virtlab.testbed.build.machine import Findings
    from virtlab.testbed.vswitches.ovs_rules import OvsBridge

NOT_PASSED_ON = "write values that it passes on as they are, or 'vswitch: linux_bridge'"


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


def at_guest_port(
    guest: str, name: str, vnic: Vnic, namespace: str, link: str, out: Lowered
) -> list[Operation]:
    """The operations at a port whose queue is the kernel's, noted in `out.queues` for counters and read-back."""
    if vnic.queue is None or (port_of(guest, name), "ab") in out.queues:
        return []  # Open vSwitch sets it up
    rate = vnic.port_rate_bit_per_s
    handles = kernel_queues.class_handles(vnic.queue)
    top = "1:" if rate is not None else kernel_queues.QUEUE
    out.queues[port_of(guest, name), "ab"] = PortQueue(namespace, link, handles, top)
    return list(kernel_queues.at_port(namespace, link, rate, vnic.queue))


def at_ovs_port(guest: str, name: str, vnic: Vnic, ovs: OvsBridge, link: str, out: Lowered) -> Qos | None:
    """What Open vSwitch's database says of the port; what only tc can say about it comes after its start.

    Frames find their queue by OpenFlow where the datapath keeps it and rules can name the port by an address behind it,
    else by filters of tc: a frame from a virtual cable or a tap has no priority, so filters decide.
    """
    if vnic.queue is None:
        return None
    qos = qos_of(vnic.queue, vnic.port_rate_bit_per_s, vnic.mtu_bytes)
    if qos is None:
        return LEFT_ALONE
    handles = qos.handles()
    out.queues[port_of(guest, name), "ab"] = PortQueue(ovs.namespace, link, handles, ROOT)
    leaves = vnic.queue.classes or {"all": QueueClass(limit_packets=vnic.queue.limit_packets)}
    for number in range(len(qos.queues)):
        own = next((each for each, at in qos.names.items() if at == number), "all")
        fifo = kernel_queues.waiting(leaves[own].limit_packets)
        handle = f"{0x100 + number:x}:"
        ovs.afterwards.append(QdiscAdd(ovs.namespace, link, fifo, parent=qos.handle(number), handle=handle))
    if ovs.in_kernel and ovs.told:
        return replace(qos, match=vnic.queue.match)
    ovs.afterwards += filters(ovs.namespace, link, ROOT, vnic.queue.match, handles, None)
    return qos


def _of_qos(qos: Qos) -> dict[str, Spans]:
    """What the kernel has to tell of a QoS record: handle to values."""
    kind = qos.kind.removeprefix("linux-")
    if not qos.queues:
        values = qos.said()
        found = of_discipline(Discipline(kind, values))
        if "delay_ns" in values:  # the record says it in ticks
            delay_ns = int(values["delay_ns"])
            found["delay_ns"] = delay_ns, delay_ns // TICK_NS * TICK_NS, delay_ns
        return {ROOT: found}
    whole = OvsQueue(qos.config["max-rate"], qos.config["max-rate"])
    spans: dict[str, Spans] = {ROOT: {"kind": same(kind), "default_class": same(1)}}
    queues = {qos.handle(number): queue for number, queue in enumerate(qos.queues)}
    for handle, queue in {WHOLE: whole, **queues}.items():
        parent = ROOT if handle == WHOLE else WHOLE
        spans[handle] = {**of_class(Discipline(kind, queue.options(kind))), "parent": same(parent)}
    return spans


def check_qos(qos: Qos, link: Mapping[str, Any], where: str) -> None:
    """Whether the kernel has the discipline and all values that Open vSwitch was told. MachineError where not."""
    entries = by_handle(link)
    wrong: list[str] = []
    for handle, spans in _of_qos(qos).items():
        if handle not in entries:
            what = f"the kernel has no {handle} at the port, which Open vSwitch's {qos.kind} makes"
            raise MachineError(where, what, NOT_THERE)
        wrong += differences(spans, entries[handle])
    if wrong:
        raise MachineError(where, f"by Open vSwitch's {qos.kind} {', '.join(wrong)}", NOT_PASSED_ON)


def port_refusals(plan: Plan, found: Findings) -> Iterator[Refusal]:
    """Why queues at guest ports cannot be as the file wants them."""
    switched = in_switch(plan, found.machine.link)
    yield from port_mistakes(plan, switched)
    for guest, name, vnic in guest_ports(plan):
        assert vnic.queue is not None
        path = f"guests.{guest}.vnics.{name}.queue"
        if vnic.queue.kind not in QDISCS:
            continue  # which is refused wherever it stands
        if switched(vnic):
            if vnic.port_rate_bit_per_s is None:
                reason = (
                    "a port without a rate hands every frame on at once, and nothing waits in a soft switch"
                )
                yield Refusal(f"{path}.by", reason, "write 'port_rate: 500 Mbit/s', or 'by: kernel'")
            continue
        for key, reason, cure in kernel_queues.missing(vnic.queue, found.qdiscs, found.inside):
            paced = "" if vnic.port_rate_bit_per_s is not None else " and a 'port_rate'"
            yield Refusal(f"{path}.{key}", reason, cure.replace("'by: virtlab'", f"'by: virtlab'{paced}", 1))
        if vnic.port_rate_bit_per_s is not None and found.qdiscs.get(HTB.name, "not tried") is not None:
            yield Refusal(
                f"{path}.by", "this kernel has no htb to hold a port's rate", f"load sch_htb, or {LAB_VM}"
            )
        if QDISCS[vnic.queue.kind].kernel.own_packets:
            reason = (
                "frames that crossed a virtual switch have lost the priority that the kernel's bands go by"
            )
            yield Refusal(f"{path}.kind", reason, "write prio with match rules")
