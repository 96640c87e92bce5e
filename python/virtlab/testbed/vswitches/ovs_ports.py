"""Queues at ports of Open vSwitch: what its database is given, and whether the kernel has what it made of that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

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
from virtlab.testbed.steps.operations import Discipline, Operation, QdiscAdd

NOT_PASSED_ON = "write values that it passes on as they are, or 'vswitch: linux_bridge'"


def at_ovs_port(
    vnic: Vnic, namespace: str, link: str, *, by_rules: bool
) -> tuple[Qos | None, PortQueue | None, list[Operation]]:
    """What Open vSwitch's database says of a port; the queue that this is in the kernel; what only tc can say about it,
    after its start.

    Frames find their queue by OpenFlow where the datapath keeps it and rules can name the port by an address behind it
    (`by_rules`), else by filters of tc: a frame from a virtual cable or a tap has no priority, so filters decide.
    """
    if vnic.queue is None:
        return None, None, []
    qos = qos_of(vnic.queue, vnic.port_rate_bit_per_s, vnic.mtu_bytes)
    if qos is None:
        return LEFT_ALONE, None, []
    handles = qos.handles()
    leaves = vnic.queue.classes or {"all": QueueClass(limit_packets=vnic.queue.limit_packets)}
    operations: list[Operation] = []
    for number in range(len(qos.queues)):
        own = next((each for each, at in qos.names.items() if at == number), "all")
        fifo = kernel_queues.waiting(leaves[own].limit_packets)
        handle = f"{0x100 + number:x}:"
        operations.append(QdiscAdd(namespace, link, fifo, parent=qos.handle(number), handle=handle))
    if by_rules:
        qos = replace(qos, match=vnic.queue.match)
    else:
        operations += filters(namespace, link, ROOT, vnic.queue.match, handles, None)
    return qos, PortQueue(namespace, link, handles, ROOT), operations


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
