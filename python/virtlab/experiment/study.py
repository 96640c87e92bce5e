"""The world and the work of one design point, as planners and backends read them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from virtlab.experiment.read.model import CollectSpec, LimitsSpec, NetworkSpec, TimingSpec
    from virtlab.experiment.work.roles import RoleSpec
    from virtlab.experiment.work.search import SearchFor
    from virtlab.experiment.work.services import ServiceSpec
    from virtlab.experiment.work.timeline import ActionSpec
    from virtlab.experiment.world.addresses import Addresses
    from virtlab.experiment.world.queues import QueueSpec
    from virtlab.experiment.world.topology import Wiring


class Study(NamedTuple):
    """One design point with all references replaced and everything typed, wired and addressed."""

    wiring: Wiring
    addresses: Addresses
    network: NetworkSpec
    queues: Mapping[str, tuple[QueueSpec, QueueSpec]]  # by cable: first -> second end, and back
    roles: Mapping[str, RoleSpec]
    timing: TimingSpec
    timeline: tuple[ActionSpec, ...] | None
    windows: Mapping[str, tuple[str, str]] | None
    collect: CollectSpec
    limits: LimitsSpec
    search: SearchFor | None = None
    port_queues: Mapping[str, QueueSpec] = {}  # by host: at its ports towards guests
    services: Mapping[str, ServiceSpec] = {}
