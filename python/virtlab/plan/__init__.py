"""The nouns: what an experiment becomes (`Plan`), who plays it (`Backend`, `Session`), and what comes back.

A Plan is intent. It holds no command, path, process or measured fact; each arm lowers it in its own way.
Maps are by name, times in ns, rates in bit/s, sizes in bytes.
"""

from virtlab.plan.backend import (
    Access,
    Backend,
    Capabilities,
    Columns,
    Event,
    Mark,
    Observer,
    Outcome,
    Reading,
    Realised,
    RealisedObject,
    Refusal,
    Session,
    Sink,
    Trial,
    Unobserved,
    Watcher,
)
from virtlab.plan.blocks import BLOCKS, BlockSchema
from virtlab.plan.model import (
    Action,
    Collect,
    Guest,
    Host,
    Limits,
    Link,
    LinkQueues,
    Match,
    Plan,
    Queue,
    QueueClass,
    Ready,
    Role,
    Route,
    SeriesRequest,
    Service,
    Switch,
    Trigger,
    Vnic,
    Vswitch,
    Wait,
    Window,
    World,
)

__all__ = [
    "BLOCKS", "Access", "Action", "Backend", "BlockSchema", "Capabilities", "Collect", "Columns", "Event", "Guest",
    "Host", "Limits", "Link", "LinkQueues", "Mark", "Match", "Observer", "Outcome", "Plan", "Queue", "QueueClass",
    "Reading", "Ready", "Realised", "RealisedObject", "Refusal", "Role", "Route", "SeriesRequest", "Service",
    "Session", "Sink", "Switch", "Trial", "Trigger", "Unobserved", "Vnic", "Vswitch", "Wait", "Watcher", "Window",
    "World",
]  # fmt: skip
