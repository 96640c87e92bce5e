"""Kinds of services: systems under test on guests. One file each; the names here are what `kind:` may say."""

from virtlab.catalogue.declaration import ServiceKind
from virtlab.catalogue.services.program import PROGRAM

SERVICES: dict[str, ServiceKind] = {entry.name: entry for entry in (PROGRAM,)}

__all__ = ["SERVICES"]
