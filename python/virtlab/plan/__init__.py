"""The nouns: what an experiment becomes (`Plan`), who plays it (`Backend`, `Session`), and what comes back.

A Plan is intent. It holds no command, path, process or measured fact; each arm lowers it in its own way.
Maps are by name, times in ns, rates in bit/s, sizes in bytes.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from virtlab.plan.blocks import BLOCKS, BlockSchema

if TYPE_CHECKING:
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
    from virtlab.plan.model import (
        Action,
        Collect,
        Disk,
        Guest,
        Host,
        Limits,
        Link,
        LinkQueues,
        Match,
        Plan,
        Pool,
        Port,
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
else:

    def __getattr__(name: str) -> Any:
        """Load the nouns when one is first used: `virtlab check` needs the block schemas alone."""
        if name in __all__:
            for module in map(import_module, ("virtlab.plan.backend", "virtlab.plan.model")):
                globals().update((noun, vars(module)[noun]) for noun in __all__ if noun in vars(module))
            return globals()[name]
        raise AttributeError(f"module 'virtlab.plan' has no attribute '{name}'")


__all__ = [
    "BLOCKS", "Access", "Action", "Backend", "BlockSchema", "Capabilities", "Collect", "Columns",
    "Disk", "Event", "Guest", "Host", "Limits", "Link", "LinkQueues", "Mark", "Match", "Observer", "Outcome", "Plan",
    "Pool", "Port", "Queue", "QueueClass", "Reading", "Ready", "Realised", "RealisedObject", "Refusal", "Role", "Route",
    "SeriesRequest", "Service", "Session", "Sink", "Switch", "Trial", "Trigger", "Unobserved", "Vnic", "Vswitch",
    "Wait", "Watcher", "Window", "World",
]  # fmt: skip
