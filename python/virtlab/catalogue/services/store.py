"""`store`: a distributed store of whole objects: virtlab's own reference store, a study object.

Its guests are its nodes, in the order of `on`. How a client finds the nodes that hold an object, who sends the copies,
how many stand before an answer, and where a confirmed copy lies are parameters of their own, so that each can be varied
alone. Source of the three lookups: the published study of distributed storage (multicast; Swift's ring; Gluster's
elastic hash).
"""

from __future__ import annotations

from collections.abc import Sequence

from virtlab.catalogue.declaration import Parameter, ServiceKind, ServiceOperation, StoreForm, Values
from virtlab.catalogue.kinds import (
    BYTE_RATE,
    COUNT,
    GUESTS,
    POSITIVE_DURATION,
    POSITIVE_SIZE,
    choice,
)
from virtlab.catalogue.services import RECOVERED
from virtlab.catalogue.workloads.objects import OBJECTS

MULTICAST, RING, ELASTIC_HASH = "multicast", "ring", "elastic_hash"
CLIENT, PROXY, PRIMARY = "client", "proxy", "primary"
MEMORY, DISK = "memory", "disk"
PROXIES = "proxies"
TRANSFERS, PACKETS, FLUID, MESSAGES = "transfers", "packets", "fluid", "messages"
PARTITIONS_MAX = 1 << 24
PEERS_MAX = 256  # any two of them may have a connection


OF_PROCESSORS = {
    f"{who}_{field}": f"{who}_{key}"
    for who in ("node", PROXY)
    for field, key in (("ns", "time"), ("byte_per_s", "rate"))
}


def _check(values: Values) -> list[tuple[str, str]]:
    found = []
    copies = int(values["copies"])
    for key in ("write_quorum", "read_quorum"):
        if int(values.get(key, 1)) > copies:
            found.append((key, f"there are {copies} copies of an object; write at most {copies}"))
    for key in ("partitions", "zones"):
        if values.get(key) is not None and values["lookup"] != RING:
            found.append((key, f"only a ring has {key}; write 'lookup: {RING}', or remove it"))
    if values["lookup"] == RING and values.get("partitions") is None:
        found.append(("lookup", "a ring has partitions; write e.g. 'partitions: 262144'"))
    if int(values.get("partitions", 1)) > PARTITIONS_MAX:
        found.append(("partitions", f"a table holds fewer partitions; write at most {PARTITIONS_MAX}"))
    writer, proxies = values["written_by"], values.get(PROXIES)
    if writer == PROXY and not proxies:
        found.append(("written_by", f"no guest is a proxy; name some in '{PROXIES}'"))
    if writer == CLIENT and proxies:
        what = "a client that sends the copies itself asks no proxy"
        found.append((PROXIES, f"{what}; write 'written_by: {PROXY}' or '{PRIMARY}', or remove it"))
    for field, key in OF_PROCESSORS.items():
        if key.startswith(PROXY) and not proxies and values.get(field) is not None:
            found.append((key, f"no guest is a proxy; name some in '{PROXIES}', or remove it"))
    if values["ack"] == DISK and values.get("cache_bytes") is not None:
        found.append(("cache", f"copies are confirmed from the disk; write 'ack: {MEMORY}', or remove it"))
    if values["ack"] == MEMORY and values.get("cache_bytes") is None:
        found.append(("ack", "copies are confirmed from a cache; write its size, e.g. 'cache: 1 GiB'"))
    if values.get("scan_ns") is not None and values["lookup"] != RING:
        found.append(("scan", f"only a ring has partitions to scan; write 'lookup: {RING}', or remove it"))
    if values.get("scans") is not None and values.get("scan_ns") is None:
        found.append(
            ("scans", "no partition is scanned; write what one costs, e.g. 'scan: 1 s', or remove it")
        )
    if values.get("silence_ns") is not None and values.get("beat_ns") is None:
        found.append(("silence", "nodes send no signs of life; write e.g. 'beat: 1 s', or remove it"))
    elif int(values.get("silence_ns") or 2**62) <= int(values.get("beat_ns") or 0):
        found.append(("silence", "it must be longer than 'beat'; write more"))
    if int(values["question_ns"]) > int(values["timeout_ns"]):
        found.append(
            ("question", "the operation ends before the question is asked again; write less than 'timeout'")
        )
    return found


def _placed(values: Values, on: Sequence[str]) -> list[tuple[str, str]]:
    values = STORE.complete(values)
    nodes, copies = len(on), int(values["copies"])
    both = [guest for guest in values.get(PROXIES, ()) if guest in on]
    if both:
        return [(PROXIES, f"{both[0]} is a node; name another guest")]
    if nodes + len(values.get(PROXIES, ())) > PEERS_MAX:
        return [("on", f"nodes and proxies are more than {PEERS_MAX}; name fewer")]
    if copies > nodes:
        return [("copies", f"there are {nodes} nodes; write at most {nodes}, or name more in 'on'")]
    zones = int(values.get("zones", nodes))
    if values["lookup"] == RING and not copies <= zones <= nodes:
        return [
            ("zones", f"each copy has a zone of its own, and each zone has a node; write {copies} to {nodes}")
        ]
    if values["lookup"] == RING and int(values.get("partitions", 0)) < nodes:
        return [("partitions", f"each node has some; write at least {nodes}")]
    if values["lookup"] == ELASTIC_HASH and nodes % copies:
        what = f"{nodes} nodes are not a whole number of groups of {copies}"
        return [("copies", f"{what}; write a number that divides {nodes}, or name other nodes")]
    return []


_INTERFACE = (
    "whole objects by key (create, read, overwrite, delete, stat, open) and pages of names (list), by messages of its own "
    "over TCP"
)
_COPIES = "each object as 'copies', of which 'write_quorum' stand before an answer"
_HEALS = (
    "a node that comes back pulls its copies from the others; with 'beat', survivors make the copies of those that are "
    "silent"
)
FORMS = (
    StoreForm(
        f"lookup: {MULTICAST}", _INTERFACE, "the key goes to all nodes by UDP multicast, its holders answer",
        "the first nodes to answer, the least loaded of them", _COPIES, _HEALS, "the multicast store of the published study",
    ),
    StoreForm(
        f"lookup: {RING}", _INTERFACE, "a hash gives one of 'partitions', a table its nodes",
        "nodes of different 'zones'", _COPIES, f"{_HEALS}; 'scan' is what each partition costs", "OpenStack Swift's ring",
    ),
    StoreForm(
        f"lookup: {ELASTIC_HASH}", _INTERFACE, "a hash of the key gives a group of mirrors",
        "all nodes of a group; 'copies' divides the number of nodes", _COPIES, _HEALS, "Gluster's elastic hash",
    ),
)  # fmt: skip

STORE = ServiceKind(
    name="store",
    meaning="a distributed store of objects on its guests, asked by objects",
    parameters=(
        Parameter("copies", COUNT, "copies", "of each object, on as many nodes", 3),
        Parameter(
            "lookup",
            choice(MULTICAST, RING, ELASTIC_HASH),
            "lookup",
            "how the nodes that hold an object are found: all are asked at once, a table of partitions says it, or a hash",
            MULTICAST,
        ),
        Parameter("partitions", COUNT, "partitions", "of a ring"),
        Parameter("zones", COUNT, "zones", "of a ring: copies lie in different ones; absent: each node is one"),
        Parameter(
            "written_by",
            choice(CLIENT, PROXY, PRIMARY),
            "written_by",
            "who sends the copies: the client, a proxy, or a node that has the object already (from client or proxy)",
            CLIENT,
        ),
        Parameter(
            PROXIES, GUESTS, PROXIES,
            "guests that alone are asked by clients: each begins at one, and takes the next where an attempt fails",
        ),
        Parameter(
            "write_quorum", COUNT, "write_quorum",
            "copies that stand before a write is answered; absent: more than half of them",
        ),
        Parameter(
            "read_quorum", COUNT, "read_quorum",
            "nodes with a copy that have answered before a read is; absent: so many that one has the last answered write",
        ),
        Parameter(
            "ack", choice(MEMORY, DISK), "ack",
            "where a copy is when its node confirms it: in its cache, or written and flushed", DISK,
        ),
        Parameter("cache", POSITIVE_SIZE, "cache_bytes", "of each node: what the disk has yet to take, at most"),
        Parameter(
            "question", POSITIVE_DURATION, "question_ns", "a question without enough answers is asked again after it",
            "50 ms",
        ),
        Parameter("timeout", POSITIVE_DURATION, "timeout_ns", "an operation that is not done by then has failed", "10 s"),
        Parameter(
            "recovery_streams", COUNT, "recovery_streams",
            "objects that are under way to a node that recovers, or from each that makes copies; absent: 16",
        ),
        Parameter(
            "recovery_rate", BYTE_RATE, "recovery_byte_per_s",
            "of a node that recovers, or makes copies, at most; absent: as fast as links and disks allow",
        ),
        Parameter("scan", POSITIVE_DURATION, "scan_ns", "of a ring: cost of each partition before its objects are pulled"),
        Parameter("scans", COUNT, "scans", "partitions that are scanned at the same time; absent: one"),
        Parameter(
            "beat", POSITIVE_DURATION, "beat_ns",
            "nodes say so often that they are there, and make copies for one that is silent; absent: they do not",
        ),
        *(
            Parameter(f"{who}_{name}", kind, f"{who}_{key}", meaning.format(who=who))
            for who in ("node", PROXY)
            for name, kind, key, meaning in (
                ("time", POSITIVE_DURATION, "ns", "processor time of a {who} for each message that it hears; absent: none"),
                (
                    "rate", BYTE_RATE, "byte_per_s",
                    "bytes per second at which the processor of a {who} handles the contents of messages; absent: no limit",
                ),
            )
        ),
        Parameter("silence", POSITIVE_DURATION, "silence_ns", "for which a node is silent that is lost; absent: four beats"),
        Parameter(
            TRANSFERS, choice(PACKETS, FLUID, MESSAGES), TRANSFERS,
            "how the simulator plays what is sent: by packets, much content as a fluid, or all as messages; absent: packets",
        ),
    ),
    operations={
        "fail_node": ServiceOperation(
            "a node is off until it is healed: it says and hears nothing, and loses what its disk does not have",
            ends=True, of_one=True,
        ),
        "wipe_node": ServiceOperation(
            "a node loses all that it holds, and comes back at once with an empty disk to get its copies again",
            ends=True, starts=True, empties=True, of_one=True,
        ),
        "heal": ServiceOperation(
            "a node that has failed comes back with what its disk has; each asks the others for what it lacks", starts=True
        ),
    },
    progresses={RECOVERED: "every copy that was lost is made again"},
    speaks=frozenset({OBJECTS.name}),
    port=7100,
    check=_check,
    placed=_placed,
    whole=OBJECTS.name,
    more_guests=PROXIES,
    forms=FORMS,
)  # fmt: skip
