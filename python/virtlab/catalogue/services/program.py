"""`program`: a server of one's own, or of a distribution; one process in each of its guests, and what that starts."""

from virtlab.catalogue.declaration import Parameter, ServiceKind
from virtlab.catalogue.kinds import ARGV, ENVIRONMENT, FILES

PROGRAM = ServiceKind(
    name="program",
    meaning="a program of yours, started in each of its guests, that stays in the foreground",
    parameters=(
        Parameter("argv", ARGV, "argv", "the program and its arguments", required=True),
        Parameter("environment", ENVIRONMENT, "environment", "variables that it gets besides the usual ones"),
        Parameter("files", FILES, "files", "text files in its working folder, by name"),
    ),
    operations={
        "fail": "it is killed, with all that it started",
        "heal": "where it was killed, it is started again; done once it is ready",
        "restart": "it is killed and started again; done once it is ready",
    },
    progresses={"ready": "it runs, and its check holds"},
    executes=lambda values: (tuple(values["argv"]),),
    speaks=frozenset({"http"}),
    arms={"testbed": None, "simulator": "a simulated guest runs no programs; run the file on the testbed"},
)
