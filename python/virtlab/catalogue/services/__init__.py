"""Kinds of services: systems under test on guests. One file each; the names here are what `kind:` may say."""

from virtlab.catalogue.declaration import ServiceKind
from virtlab.catalogue.named import Named

SERVICES: Named[ServiceKind] = Named(__name__, "DEMAND_SERVER PROGRAM STORE SWIFT GLUSTER")

RECOVERED = "recovered"  # the progress of any store whose lost copies are counted

__all__ = ["RECOVERED", "SERVICES"]
