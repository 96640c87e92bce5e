"""`program`: a server of one's own, or of a distribution; one process in each of its guests, and what that starts."""

from virtlab.catalogue.declaration import Parameter, ServiceKind
from virtlab.catalogue.kinds import ARGV, ENVIRONMENT

PROGRAM = ServiceKind(
    name="program",
    meaning="a program of yours, started in each of its guests, that stays in the foreground",
    parameters=(
        Parameter("argv", ARGV, "argv", "the program and its arguments", required=True),
        Parameter("environment", ENVIRONMENT, "environment", "variables that it gets besides the usual ones"),
    ),
    executes=lambda values: (tuple(values["argv"]),),
    arms={"testbed": None, "simulator": "a simulated guest runs no programs"},
)
