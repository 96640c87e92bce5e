"""`program`: a server of one's own, or of a distribution; one process in each of its guests, and what that starts."""

from typing import Any

from virtlab.catalogue.declaration import Parameter, ServiceKind, ServiceOperation
from virtlab.catalogue.kinds import (
    ARGV,
    ENVIRONMENT,
    FILES,
    POSITIVE_SIZE,
    RATIO,
    USER,
    Kind,
    PlacedError,
    SeveralError,
    placed,
    shown,
)
from virtlab.catalogue.workloads.request_response import OF_OUR_SERVER, REQUEST_RESPONSE
from virtlab.units import nearest

SIMULATED_AS = "simulated_as"
# A program over HTTP has no refusal of virtlab's, so what waits for it does so; and simulated guests have no disks.
COSTS = {
    entry.name: entry
    for entry in REQUEST_RESPONSE.parameters
    if entry.name in OF_OUR_SERVER and not entry.plan.startswith(("write", "idle_write", "backlog", "full"))
}
_COST_EXAMPLE = "{demand: 2 ms, threads: 4}"


def _cost(value: Any) -> dict[str, Any]:
    """Plan values of the parameters of our own server that stand for the program."""
    if not isinstance(value, dict) or not value:
        raise ValueError(f"'{shown(value)}' says no cost; write e.g. '{_COST_EXAMPLE}'")
    wrong: list[PlacedError] = []
    found: dict[str, Any] = {}
    for key, written in value.items():
        if key not in COSTS:
            cure = nearest(str(key), COSTS) or f"it has {', '.join(COSTS)}"
            wrong.append(PlacedError((key,), f"'{shown(key)}' is no cost of a server; {cure}"))
            continue
        try:
            found |= COSTS[key].plan_values(written)
        except ValueError as error:
            wrong += [PlacedError((key, *steps), text) for steps, text in placed(error)]
    if not wrong:
        across = REQUEST_RESPONSE.check(REQUEST_RESPONSE.complete(found))
        wrong = [PlacedError((key,), text) for key, text in across]
    if wrong:
        raise SeveralError(wrong)
    return found


COST = Kind(
    "cost of a server",
    _cost,
    {
        "type": "object",
        "minProperties": 1,
        "additionalProperties": False,
        "properties": {
            name: {**entry.kind.schema, "description": entry.meaning} for name, entry in COSTS.items()
        },
    },
    _COST_EXAMPLE,
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
