"""`gluster`: GlusterFS itself, by the programs of its distribution's packages: a real store of files.

The guests of `on` are its nodes, each with a brick on its disk; in those of `clients` the volume is mounted, where
roles of `files` work on it. Every `copies` nodes in turn mirror each other, and files are spread over such groups by a
hash.
"""

from __future__ import annotations

from collections.abc import Sequence

from virtlab.catalogue.declaration import Parameter, ServiceKind, ServiceOperation, StoreForm, Values
from virtlab.catalogue.kinds import COUNT, GUESTS, choice
from virtlab.catalogue.services import RECOVERED

CLIENTS = "clients"
ACCESS, FUSE, NFS = "access", "fuse", "nfs"


def _placed(values: Values, on: Sequence[str]) -> list[tuple[str, str]]:
    values, nodes = GLUSTER.complete(values), len(on)
    both = [guest for guest in values.get(CLIENTS, ()) if guest in on]
    if both:
        return [(CLIENTS, f"{both[0]} is a node; name another guest")]
    copies = int(values["copies"])
    if nodes % copies:
        what = f"{nodes} nodes are not a whole number of groups of {copies}"
        return [("copies", f"{what}; write a number that divides {nodes}, or name other nodes")]
    return []


_RESET = ServiceOperation(
    "a node's brick is reset to an empty one while its daemon runs on, and it gets its copies again",
    empties=True, of_one=True,
)  # fmt: skip

GLUSTER = ServiceKind(
    name="gluster",
    meaning="GlusterFS, of this machine's packages: a volume of its nodes, mounted in its clients for files",
    parameters=(
        Parameter(CLIENTS, GUESTS, CLIENTS, "guests in which the volume is mounted, at /var/tmp/NAME", required=True),
        Parameter(ACCESS, choice(FUSE, NFS), ACCESS, "how clients mount it: fuse; nfs is refused, and why is said", FUSE),
        Parameter("copies", COUNT, "copies", "of each file: nodes that mirror each other", 2),
    ),
    operations={
        "fail": ServiceOperation("it is killed in its guest: daemon and brick of a node, or a client's mount", ends=True),
        "fail_node": ServiceOperation(
            "a node is off until it is healed: it has no daemon, and keeps its disk; what it misses meanwhile is counted",
            ends=True, of_one=True,
        ),
        "heal": ServiceOperation(
            "where it was killed, it is started again, with what its disk has; a node that failed gets what it missed",
            starts=True,
        ),
        "restart": ServiceOperation("it is killed and started again; done once it is ready", ends=True, starts=True),
        "wipe_node": _RESET,
        "reset_brick": _RESET,  # Gluster's own word
    },
    executes=lambda _: (("glusterd",),),
    progresses={
        "ready": "its daemons run, and a file that each client wrote was read again when it started",
        RECOVERED: "every file that a wiped node held is there again, or every one that a failed node missed is healed",
    },
    port=24007,
    placed=_placed,
    more_guests=CLIENTS,
    forms=(
        StoreForm(
            "10.x", "files of a mounted directory, by FUSE", "a hash of the name gives a group of mirrors",
            "all nodes of a group; 'copies' divides the number of nodes",
            "each file as 'copies', written by the client; more than half stand before an answer, of two one",
            "a daemon of each node", "itself: the programs of a distribution",
        ),
    ),
    arms={
        "testbed": None,
        "simulator": "a simulated guest runs no programs; write 'kind: store' with 'lookup: elastic_hash', which finds "
        "objects in this way, or run the file on the testbed",
    },
)  # fmt: skip
