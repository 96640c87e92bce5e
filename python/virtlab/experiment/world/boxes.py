"""What a wiring is made of: cables, stations with their vNICs, virtual switches."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from virtlab.experiment.read.model import GuestSpec, LinkSpec


class Cable(NamedTuple):
    """A link between two boxes; `ports` are the physical ports at its ends."""

    name: str
    boxes: tuple[str, str]
    ports: tuple[str, str]
    spec: LinkSpec
    because: str
    vswitches: tuple[str | None, str | None] = (None, None)  # which one of a host that has several


class Station(NamedTuple):
    """A guest (or native stack, or router) with its vNICs: name -> what it stands on."""

    name: str
    host: str
    platform: str
    vnics: Mapping[str, Attachment]
    spec: GuestSpec
    forwards: bool
    because: str
    bridges: bool = False  # forwards frames: its vNICs have no IP address


class Attachment(NamedTuple):
    """What a vNIC stands on (a virtual switch, an uplink, an existing host's network), its broadcast domain, its
    cables.
    """

    vswitch: str | None
    uplink: str | None
    domain: str
    rate_bit_per_s: int | None  # of the access link; None: no cable
    isolated: bool = False
    network: str | None = None  # of an existing host: own, vxlan


class Bridge(NamedTuple):
    """A virtual switch with its uplinks."""

    kind: str
    host: str
    uplinks: tuple[str, ...]
    because: str
    learning: bool = True
    flooding: bool = True
    parameters: Mapping[str, str] = {}  # of its kind alone
