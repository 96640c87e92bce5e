"""Kinds of services: systems under test on guests. One file each; the names here are what `kind:` may say."""

from virtlab.catalogue.declaration import ServiceKind
from virtlab.catalogue.services.demand_server import DEMAND_SERVER
from virtlab.catalogue.services.program import PROGRAM
from virtlab.catalogue.services.store import STORE

SERVICES: dict[str, ServiceKind] = {entry.name: entry for entry in (DEMAND_SERVER, PROGRAM, STORE)}

__all__ = ["SERVICES"]
