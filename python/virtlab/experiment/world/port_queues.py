"""Queues at the ports of a host's virtual switches: towards its guests, towards the wire, or both.

A port queues what leaves the virtual switch through it. Towards the wire that is the queue in front of the uplink's
link, so a host that says so replaces what the link says; towards a guest it stands at the tap or veth that the guest
hangs on. A port with a rate has a queue in any case: a FIFO where the host's stands elsewhere.
"""

from __future__ import annotations

from collections.abc import Mapping

from virtlab.experiment.read.findings import Findings, Steps
from virtlab.experiment.world.queues import QueueSpec, read_queue
from virtlab.experiment.world.topology import Wiring, is_bare

GUEST, UPLINK = ("guest", "both"), ("uplink", "both")

CableQueues = dict[str, tuple[QueueSpec, QueueSpec]]


def read_port_queues(wiring: Wiring, cables: CableQueues, findings: Findings) -> Mapping[str, QueueSpec]:
    """Host -> queue at its ports towards guests; queues of cables that leave a host which says so are replaced."""
    found: dict[str, QueueSpec] = {}
    for name, host in wiring.hosts.items():
        own = findings.root.find(("hosts", name))[0].value
        said = own if isinstance(own, dict) else {}

        def at(key: str, name: str = name, classes: Mapping[str, object] = said) -> Steps:
            return ("hosts", name, key) if key in classes else ("host", key)

        if host.queue is None and host.port_rate is None:
            if "queue_at" in host.model_fields_set and host.queue_at != "none":
                cure = "write 'queue: fq_codel', or remove 'queue_at'"
                findings.add(at("queue_at"), "there is no queue to place", cure, key=True)
            continue
        queue = read_queue(at("queue"), host.queue, findings)
        if host.queue_at in GUEST or host.port_rate is not None:
            if is_bare(wiring, name):
                what = "there is no port of a virtual switch towards a guest"
                cure = "write 'queue_at: uplink' without 'port_rate', or give the host a virtual switch"
                wrong = "port_rate" if host.queue is None else "queue"
                findings.add(at("queue_at" if "queue_at" in said else wrong), what, cure)
            found[name] = queue if host.queue_at in GUEST else QueueSpec()
        if host.queue_at in UPLINK and host.queue is not None:
            if not any(name in cable.boxes for cable in wiring.cables.values()):
                cure = "write 'queue_at: guest', or a link that leads to it"
                if is_bare(wiring, name):
                    cure = "remove 'queue'"
                findings.add(at("queue_at"), f"there is no port of '{name}' towards the wire", cure)
            _at_uplinks(wiring, name, queue, cables)
    return found


def _at_uplinks(wiring: Wiring, host: str, queue: QueueSpec, cables: CableQueues) -> None:
    """The queue in front of every cable, in the direction that leaves the host."""
    for name, cable in wiring.cables.items():
        ahead, back = cables[name]
        if cable.boxes[0] == host:
            ahead = queue
        if cable.boxes[1] == host:
            back = queue
        cables[name] = (ahead, back)
