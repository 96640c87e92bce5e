"""`demand_server`: virtlab's own server on a guest of its own choice: for each request it spends a demand of processor time.

It has the parameters of the server that a role of `request_response` brings along, and is asked by roles of that workload.
It stays where it is while roles come and go, so that several can load it, and the timeline can end it and start it again.
"""

from virtlab.catalogue.declaration import ServiceKind
from virtlab.catalogue.services.program import PROGRAM
from virtlab.catalogue.workloads.request_response import OF_OUR_SERVER, REQUEST_RESPONSE, server_mistakes

DEMAND_SERVER = ServiceKind(
    name="demand_server",
    meaning="virtlab's own server, which spends a demand of processor time on each request of request_response",
    parameters=tuple(each for each in REQUEST_RESPONSE.parameters if each.name in OF_OUR_SERVER),
    operations=PROGRAM.operations,
    progresses=PROGRAM.progresses,
    speaks=frozenset({"tcp"}),
    port=7000,
    check=server_mistakes,
)
