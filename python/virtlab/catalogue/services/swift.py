"""`swift`: OpenStack Swift itself, by the programs of its distribution's packages: a real store of objects.

The guests of `on` are its nodes, each a server of accounts, of containers and of objects on the guest's disk; those of
`proxies` serve clients over HTTP. Its rings are built by Swift's own builder from partitions, copies and zones. With
`interface: s3` its proxies speak S3 instead, by Swift's own middleware, and check each request's signature.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from virtlab.catalogue.declaration import Parameter, ServiceKind, ServiceOperation, StoreForm, Values
from virtlab.catalogue.kinds import COUNT, GUESTS, POSITIVE_DURATION, Kind, choice, shown
from virtlab.catalogue.services import RECOVERED
from virtlab.catalogue.workloads.objects import OBJECTS

PROXIES = "proxies"
PART_POWER_MAX = 16  # each guest builds the rings: seconds beyond
WORKERS_MAX = 64
OWN, S3 = "swift", "s3"
AUTH, NO_AUTH, TEMPAUTH = "auth", "none", "tempauth"
REVOKE = "revoke_tokens"
KEYS = {"access_key": "test:tester", "secret_key": "testing"}  # as Swift's own documentation has them
BUCKET = re.compile(r"[a-z0-9][a-z0-9-]{1,61}[a-z0-9]")


def _access_key(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9]{1,64}:[A-Za-z0-9]{1,64}", value):
        raise ValueError(
            f"'{shown(value)}' is not an account and a user; write letters and digits, e.g. {KEYS['access_key']}"
        )
    return value


def _secret_key(value: Any) -> str:
    if not isinstance(value, str) or not re.fullmatch(r"[A-Za-z0-9+/=_-]{1,128}", value):
        raise ValueError(
            "a secret key has 1 to 128 letters, digits, '+', '/', '=', '_' and '-'; write such a one"
        )
    return value


ACCESS_KEY = Kind("account and user", _access_key, {"type": "string"}, KEYS["access_key"])
SECRET_KEY = Kind("secret key", _secret_key, {"type": "string"}, KEYS["secret_key"])


def _check(values: Values) -> list[tuple[str, str]]:
    found = []
    if int(values["part_power"]) > PART_POWER_MAX:
        found.append(
            ("part_power", f"each guest builds rings of 2^part_power; write at most {PART_POWER_MAX}")
        )
    if int(values["workers"]) > WORKERS_MAX:
        found.append(("workers", f"each server has fewer; write at most {WORKERS_MAX}"))
    if values["interface"] == S3 and values[AUTH] != NO_AUTH:
        found.append(
            (AUTH, f"requests of S3 are signed, and bear no token; write 'interface: {OWN}', or remove it")
        )
    elif values["interface"] != S3 and values[AUTH] == NO_AUTH:
        cure = f"write 'interface: {S3}' or '{AUTH}: {TEMPAUTH}', or remove it"
        reason = f"requests are neither signed nor bear a token; {cure}"
        found.extend((key, reason) for key in KEYS if values.get(key) is not None)
    if values.get("interval_ns") is not None and values.get("concurrency") is None:
        found.append(
            (
                "interval",
                "no replicator runs; write how much it does at once, e.g. 'concurrency: 1', or remove it",
            )
        )
    return found


def _placed(values: Values, on: Sequence[str]) -> list[tuple[str, str]]:
    values, nodes = SWIFT.complete(values), len(on)
    both = [guest for guest in values.get(PROXIES, ()) if guest in on]
    if both:
        return [(PROXIES, f"{both[0]} is a node; name another guest")]
    copies, zones = int(values["copies"]), int(values.get("zones", nodes))
    if copies > nodes:
        return [("copies", f"there are {nodes} nodes; write at most {nodes}, or name more in 'on'")]
    if zones > nodes:
        return [("zones", f"each zone has a node; write at most {nodes}")]
    return []


SWIFT = ServiceKind(
    name="swift",
    meaning="OpenStack Swift, of this machine's packages: nodes and proxies, asked by objects over HTTP",
    parameters=(
        Parameter(PROXIES, GUESTS, PROXIES, "guests that serve clients; each thread begins at one", required=True),
        Parameter(
            "interface", choice(OWN, S3), "interface",
            "what clients speak over HTTP: swift, its own requests, or s3, those of S3, signed", OWN,
        ),
        Parameter(
            AUTH, choice(NO_AUTH, TEMPAUTH), AUTH,
            "of Swift's own requests: tempauth, each bears a token, for which a role logs in once, or none", NO_AUTH,
        ),
        Parameter("access_key", ACCESS_KEY, "access_key", "account:user of Swift, of S3 or tempauth; absent: test:tester"),
        Parameter("secret_key", SECRET_KEY, "secret_key", "by which S3 is signed, or a role logs in; absent: testing"),
        Parameter("copies", COUNT, "copies", "of each object, account and container: replicas of the rings", 3),
        Parameter("part_power", COUNT, "part_power", "each ring has 2 to the power of it partitions", 8),
        Parameter("zones", COUNT, "zones", "into which the nodes are dealt in runs; absent: each node is one"),
        Parameter("workers", COUNT, "workers", "processes of each server", 1),
        Parameter(
            "concurrency", COUNT, "concurrency",
            "what each replicator of a node, of objects, containers, accounts, compares at once; absent: none runs",
        ),
        Parameter("interval", POSITIVE_DURATION, "interval_ns", "from one pass of a replicator to the next; absent: 30 s"),
        Parameter("timeout", POSITIVE_DURATION, "timeout_ns", "an operation that is not done by then has failed", "10 s"),
    ),
    operations={
        "fail": ServiceOperation("it is killed in its guest, with all its servers", ends=True),
        "fail_node": ServiceOperation(
            "a node is off until it is healed: it has no servers, and keeps its disk; what it misses meanwhile is counted",
            ends=True, of_one=True,
        ),
        "heal": ServiceOperation(
            "where it was killed, it is started again, with what its disk has; a node that failed gets what it missed",
            starts=True,
        ),
        REVOKE: ServiceOperation("every token that was given is revoked, while all servers run on; with 'auth: tempauth'"),
        "restart": ServiceOperation("it is killed and started again; done once it is ready", ends=True, starts=True),
        "wipe_node": ServiceOperation(
            "a node's disk is replaced by an empty one while its servers run on, and it gets its copies again",
            empties=True, of_one=True,
        ),
    },
    executes=lambda _: tuple((f"swift-{each}-server",) for each in ("account", "container", "object")),
    progresses={
        "ready": "its servers run, and an object that was put at each proxy was read again when it started",
        RECOVERED: "every object and database that a wiped node held is there again, or every object that one missed",
    },
    speaks=frozenset({OBJECTS.name}),
    port=8080,
    check=_check,
    placed=_placed,
    whole=OBJECTS.name,
    more_guests=PROXIES,
    forms=(
        StoreForm(
            "2.x", "whole objects by key over HTTP, by 'interface' as Swift or as S3",
            "a hash gives one of 2^'part_power' partitions, a table its nodes",
            "nodes of different 'zones', as far as there are enough",
            "each object as 'copies'; more than half stand before an answer",
            "replicators of each node, with 'concurrency'", "itself: the programs of a distribution",
        ),
    ),
    arms={
        "testbed": None,
        "simulator": "a simulated guest runs no programs; write 'kind: store' with 'lookup: ring', which is such a ring, "
        "or run the file on the testbed",
    },
)  # fmt: skip
