"""What an experiment file can name: declarations only.

A new workload, platform, virtual switch, queue discipline, service or action begins with one file here.
docs/explanation/architecture.md says which files follow.
"""

from virtlab.catalogue.actions import ACTIONS
from virtlab.catalogue.declaration import (
    Features,
    Parameter,
    Platform,
    ServiceKind,
    ServiceOperation,
    TimelineAction,
    VirtualSwitch,
    Workload,
    played,
)
from virtlab.catalogue.platforms import (
    DEFAULT_PLATFORM,
    DEFAULT_ROUTER,
    PLATFORMS,
    bounded,
    write_platform,
)
from virtlab.catalogue.qdiscs import QDISCS
from virtlab.catalogue.queueing import QueueDiscipline
from virtlab.catalogue.services import SERVICES
from virtlab.catalogue.vswitches import DEFAULT_VSWITCH, VSWITCHES
from virtlab.catalogue.workloads import WORKLOADS, below_ip, measuring

__all__ = [
    "ACTIONS",
    "DEFAULT_PLATFORM",
    "DEFAULT_ROUTER",
    "DEFAULT_VSWITCH",
    "PLATFORMS",
    "QDISCS",
    "SERVICES",
    "VSWITCHES",
    "WORKLOADS",
    "Features",
    "Parameter",
    "Platform",
    "QueueDiscipline",
    "ServiceKind",
    "ServiceOperation",
    "TimelineAction",
    "VirtualSwitch",
    "Workload",
    "below_ip",
    "bounded",
    "measuring",
    "played",
    "write_platform",
]
