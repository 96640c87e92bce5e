"""`program`: a server of one's own, or of a distribution; one process in each of its guests, and what that starts."""

from virtlab.catalogue.costs import SIMULATED_AS, cost_kind
from virtlab.catalogue.declaration import Parameter, ServiceKind, ServiceOperation
from virtlab.catalogue.kinds import (
    ARGV,
    ENVIRONMENT,
    FILES,
    POSITIVE_SIZE,
    RATIO,
    USER,
)
from virtlab.catalogue.workloads.request_response import OF_OUR_SERVER, REQUEST_RESPONSE

# A program over HTTP has no refusal of virtlab's, so what waits for it does so; and its writes are its own.
COSTS = {
    entry.name: entry
    for entry in REQUEST_RESPONSE.parameters
    if entry.name in OF_OUR_SERVER and not entry.plan.startswith(("write", "idle_write", "backlog", "full"))
}

COST = cost_kind(
    "cost of a server",
    list(COSTS.values()),
    "{demand: 2 ms, threads: 4}",
    lambda values: REQUEST_RESPONSE.check(REQUEST_RESPONSE.complete(values)),
)

PROGRAM = ServiceKind(
    name="program",
    meaning="a program of yours, started in each of its guests, that stays in the foreground",
    parameters=(
        Parameter("argv", ARGV, "argv", "the program and its arguments", required=True, in_image=True),
        Parameter("environment", ENVIRONMENT, "environment", "variables that it gets besides the usual ones"),
        Parameter("user", USER, "user", "the user of its guest that it runs as; absent: the guest's own"),
        Parameter(
            "files", FILES, "files", "files in its working folder, by name: texts, or from beside this file"
        ),
        Parameter(
            SIMULATED_AS,
            COST,
            SIMULATED_AS,
            "in the simulator: what it costs, by parameters of virtlab's own server of requests",
        ),
        Parameter(
            "cpu", RATIO, "cpu_quota_ratio", "processor time that it gets at most, as a share of one CPU"
        ),
        Parameter(
            "memory", POSITIVE_SIZE, "memory_bytes", "memory that it uses at most, with all that it starts"
        ),
    ),
    operations={
        "fail": ServiceOperation("it is killed, with all that it started", ends=True),
        "heal": ServiceOperation(
            "where it was killed, it is started again; done once it is ready", starts=True
        ),
        "restart": ServiceOperation(
            "it is killed and started again; done once it is ready", ends=True, starts=True
        ),
    },
    progresses={"ready": "it runs, and its check holds"},
    executes=lambda values: (tuple(values["argv"]),) if "argv" in values else (),
    speaks=frozenset({"http"}),
    stands_in={"simulator": SIMULATED_AS},
    arms={
        "testbed": None,
        "simulator": "a simulated guest runs no programs; say what it costs, e.g. 'simulated_as: {demand: 2 ms}', or run "
        "the file on the testbed",
    },
)
