"""Hosts that exist already: what a file may say of them, and the guest that stands for each.

Nothing of them is set, so what would set something is a mistake, except addresses and MTU of a VXLAN, which is ours.
"""

from __future__ import annotations

from virtlab.catalogue import PLATFORMS
from virtlab.catalogue.platforms.libvirt import LOCAL, NAME
from virtlab.experiment.read.findings import Findings, Steps
from virtlab.experiment.read.model import HostSpec
from virtlab.experiment.world.boxes import Attachment, Station

_NEVER_SET = (
    "cpu",
    "memory",
    "swap",
    "balloon",
    "vcpus",
    "disk",
    "vnic_model",
    "image",
    "runtime",
    "seccomp",
    "user_namespace",
    "firmware",
    "idle",
)
_SET_BY_VXLAN = ("offloads", "mtu", "ipv4", "ipv6", "mac")
_OF_EXISTING = ("address", "interface", "domain", "hypervisor")


def check_existing(at: Steps, host: HostSpec, cables: int, findings: Findings) -> None:
    """Adds every mistake about a host that exists already."""
    if host.address is None:
        findings.add(at, "nothing says how ssh reaches it", "write e.g. 'address: root@lab-a'", key=True)
    if PLATFORMS[host.platform].domains and host.domain is None:
        findings.add(
            at, "nothing says which domain it is", "write e.g. 'domain: guest1', as virsh lists it", key=True
        )
    if host.hypervisor is not None and not (LOCAL.match(host.hypervisor) or NAME.match(host.hypervisor)):
        what = f"'{host.hypervisor}' is not a local daemon of libvirt: such a URI can run programs"
        cure = "write e.g. 'qemu:///system', or a name of [hypervisors] in your own settings file"
        findings.add((*at, "hypervisor"), what, cure)
    if not PLATFORMS[host.platform].domains:
        for key in ("domain", "hypervisor"):
            if getattr(host, key) is not None:
                findings.add(
                    (*at, key),
                    "is of a domain of libvirt",
                    "remove it, or write 'platform: libvirt'",
                    key=True,
                )
    if cables:
        what = "a cable leads to a host that exists already, and has the network that it has"
        findings.add(
            at, what, "remove the link or topology; such hosts reach each other as they are", key=True
        )
    if "vswitch" in host.model_fields_set and host.vswitch != "none":
        what = "virtual switches of a host that exists already are whatever is there"
        findings.add((*at, "vswitch"), what, "remove it", key=True)
    if host.pushback is not None:
        what = "pushback of a host that exists already is whatever its wire does"
        findings.add((*at, "pushback"), what, "remove it", key=True)
    refused = _NEVER_SET if host.network == "vxlan" else (*_NEVER_SET, *_SET_BY_VXLAN)
    for where, spec in ((at, host), *(((*at, "guests", name), guest) for name, guest in host.guests.items())):
        for key in refused:
            if getattr(spec, key) is not None:
                cure = "remove it" + (", or write 'network: vxlan'" if key in _SET_BY_VXLAN else "")
                findings.add(
                    (*where, key), f"{key} of a host that exists already is read, not set", cure, key=True
                )


def refuse_existing(at: Steps, host: HostSpec, findings: Findings) -> None:
    """Adds mistakes about keys that only existing hosts have, at a host that is made."""
    for key in _OF_EXISTING:
        if getattr(host, key) is not None:
            what = f"a host of platform {host.platform} is made here"
            findings.add((*at, key), what, "remove it, or write 'platform: ssh'", key=True)
    if host.network != "own":
        what = f"a host of platform {host.platform} is made here, with links of the file"
        findings.add((*at, "network"), what, "remove it, or write 'platform: ssh'", key=True)


def existing_station(name: str, host: HostSpec) -> dict[str, Station]:
    """The guest that stands for an existing host. All of one kind of network are taken to reach each other."""
    assert PLATFORMS[host.platform].existing
    (guest, spec), *_ = host.guests.items()
    full = f"{name}.{guest}"
    vnics = {"eth0": Attachment(None, None, f"existing {host.network}", None, network=host.network)}
    because = f"hosts.{name}.guests.{guest}"
    return {full: Station(full, name, host.platform, vnics, spec, forwards=False, because=because)}
