"""Queues at ports of Open vSwitch: what its database is given, and whether the kernel has what it made of that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from virtlab.catalogue import QDISCS
from virtlab.catalogue.qos import QosQueue
from virtlab.catalogue.queueing import TICK_NS, Spans, same
from virtlab.errors import MachineError
from virtlab.plan import QueueClass, Vnic
from virtlab.testbed.queues import kernel as kernel_queues
from virtlab.testbed.queues.applied import NOT_THERE, by_handle, differences, of_class, of_discipline
from virtlab.testbed.queues.kernel import PortQueue
from virtlab.testbed.queues.ovs import LEFT_ALONE, ROOT, WHOLE, Qos, qos_of
from virtlab.testbed.queues.rules import filters
from virtlab.testbed.steps.operations import Discipline, QdiscAdd

if TYPE_CHECKING:
    from virtlab.testbed.kinds.lowered import Lowered
    from virtlab.testbed.vswitches.ovs_rules import OvsBridge

NOT_PASSED_ON = "write values that it passes on as they are, or 'vswitch: linux_bridge'"


def at_ovs_port(port: str, vnic: Vnic, ovs: OvsBridge, link: str, out: Lowered) -> Qos | None:
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
    out.queues[port, "ab"] = PortQueue(ovs.namespace, link, handles, ROOT)
    leaves = vnic.queue.classes or {"all": QueueClass(limit_packets=vnic.queue.limit_packets)}
    for number in range(len(qos.queues)):
        own = next((each for each, at in qos.names.items() if at == number), "all")
        fifo = kernel_queues.waiting(leaves[own].limit_packets)
        handle = f"{0x100 + number:x}:"
        ovs.afterwards.append(QdiscAdd(ovs.namespace, link, fifo, parent=qos.handle(number), handle=handle))
    if ovs.in_kernel and ovs.static:
        return replace(qos, match=vnic.queue.match)
    ovs.afterwards += filters(ovs.namespace, link, ROOT, vnic.queue.match, handles, None)
    return qos


def _of_qos(qos: Qos) -> dict[str, Spans]:
    """What the kernel has of a QoS record: handle to values."""
    kind = qos.discipline
    record = QDISCS[kind].qos
    if record is None or record.classes is None:
        values = qos.said()
        found = of_discipline(Discipline(kind, values))
        if "delay_ns" in values:  # the record says it in ticks
            delay_ns = int(values["delay_ns"])
            found["delay_ns"] = delay_ns, delay_ns // TICK_NS * TICK_NS, delay_ns
        return {ROOT: found}
    whole = QosQueue(qos.config["max-rate"], qos.config["max-rate"])
    spans: dict[str, Spans] = {ROOT: {"kind": same(kind), "default_class": same(1)}}
    queues = {qos.handle(number): queue for number, queue in enumerate(qos.queues)}
    for handle, queue in {WHOLE: whole, **queues}.items():
        parent = ROOT if handle == WHOLE else WHOLE
        spans[handle] = {
            **of_class(Discipline(kind, record.classes.class_options(queue))),
            "parent": same(parent),
        }
    return spans


def check_qos(qos: Qos, link: Mapping[str, Any], where: str) -> None:
    """Whether the kernel has the discipline and all values that Open vSwitch was given. MachineError where not."""
    entries = by_handle(link)
    wrong: list[str] = []
    for handle, spans in _of_qos(qos).items():
        if handle not in entries:
            what = f"the kernel has no {handle} at the port, which Open vSwitch's {qos.kind} makes"
            raise MachineError(where, what, NOT_THERE)
        wrong += differences(spans, entries[handle])
    if wrong:
        raise MachineError(where, f"by Open vSwitch's {qos.kind} {', '.join(wrong)}", NOT_PASSED_ON)
