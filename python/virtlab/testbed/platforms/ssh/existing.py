"""The existing hosts of a session: reached side by side, led by an agent each, compared in clocks, and left as they
were.

Their addresses, MACs, MTUs and interfaces are known once they are reached, so the Plan that a session plays is the
file's with those read in. What a role does there is what it does anywhere: the leader at the far end starts a
probe.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from virtlab.agents import Notice
from virtlab.agents.requests.every import Bye, Hello
from virtlab.agents.requests.leader import Observe
from virtlab.errors import AgentError, GuestError
from virtlab.plan import Observer, Plan, Unobserved
from virtlab.testbed.build import networks
from virtlab.testbed.build import world as build
from virtlab.testbed.kinds.clock import GuestClock
from virtlab.testbed.kinds.platform import Running
from virtlab.testbed.kinds.reach import Reach
from virtlab.testbed.leader.channels import EXISTING
from virtlab.testbed.leader.control import Control
from virtlab.testbed.platforms.libvirt.connections import uri_of
from virtlab.testbed.platforms.libvirt.domains import Domain
from virtlab.testbed.platforms.ssh import network
from virtlab.testbed.platforms.ssh.connection import Connection
from virtlab.testbed.platforms.ssh.network import HostInterface

HELLO_TIMEOUT_S = 30.0
CURE = "see whether it is up and its network lets us in (ssh -o BatchMode=yes HOST true); what runs there ends by itself"
CONDITIONS = ("kernel", "cpu", "cpus", "clocksource", "cpufreq_governor")
# Two machines' quartz crystals: 50 ppm each, at worst.
WANDER_RATIO = 100e-6


@dataclass(slots=True)
class Host:
    """One existing host, and the guest that stands for it."""

    guest: str
    leader: int
    connection: Connection
    clock: GuestClock = field(default_factory=lambda: GuestClock(wander_ratio=WANDER_RATIO))
    read_back: dict[str, Any] = field(default_factory=dict)
    domain: Domain | None = None

    @property
    def reach(self) -> Reach:
        """The channels and the clock by which it is reached."""
        return Reach(self.leader, range(self.leader + 1, self.leader + EXISTING.each), self.clock)


class Existing(Running):
    """All existing hosts of a session."""

    def __init__(self, control: Control, plan: Plan, names: Sequence[str]) -> None:
        self.control = control
        self.plan = plan
        self.names = names
        self.hosts: dict[str, Host] = {}
        self._interfaces: dict[str, HostInterface] = {}
        self._addresses: dict[str, frozenset[str]] = {}  # of each, all that it has
        self._domains: list[Domain] = []

    def meet(self, observe: Observer) -> Plan:
        """Reaches all of them; the Plan with what they say of themselves.

        MachineError names the first that cannot be reached, GuestError the first that will not do.
        """
        names = self.names
        observe.progress(f"reach {len(names)} existing hosts", 0.0)
        domains = self._start_domains(names, observe)
        for number, name in enumerate(names):
            address = str(self.plan.world.hosts[self.plan.world.guests[name].host].address)
            connection = Connection(f"guests.{name}", address)
            first = EXISTING.at(number)
            self.hosts[name] = Host(name, first, connection, domain=domains.get(name))
        for done, host in enumerate(self.hosts.values(), start=1):
            self._lead(host)
            observe.progress(f"reach {len(names)} existing hosts", done / len(names))
        for host in self.hosts.values():
            self._look(host)
        network.told_apart(self._interfaces, self._addresses)
        self.plan = network.resolved(self.plan, self._interfaces)
        return self.plan

    def _start_domains(self, names: Sequence[str], observe: Observer) -> dict[str, Domain]:
        """Domains of a hypervisor's daemon that have to run first; those that ran before are left running."""
        found = {}
        for name in names:
            host = self.plan.world.hosts[self.plan.world.guests[name].host]
            if host.domain is not None:
                where = f"guests.{name}"
                domain = Domain(where, uri_of(where, str(host.hypervisor)), host.domain)
                self._domains.append(domain)
                domain.start(observe)
                domain.await_ssh(str(host.address), observe)
                found[name] = domain
        return found

    def _lead(self, host: Host) -> None:
        far = host.connection.introduce()
        host.connection.hand_over()
        connection = host.connection
        self.control.attach(connection.stream, host.leader, EXISTING.each, connection.death, connection)
        try:
            said = self.control.call(Hello(), channel=host.leader, timeout_s=HELLO_TIMEOUT_S)
        except AgentError as error:
            how = self.control.ended(host.leader)
            what = how or f"its agent does not answer: {error.what}"
            raise GuestError(f"guests.{host.guest}", what, error.cure or CURE) from error
        host.connection.started()
        host.read_back = {
            "agent": said.get("build"), "root": far.user_id == 0, "boot_id": said.get("boot_id"),
            "system": far.system, "machine": far.machine, **dict(said.get("machine", {})),
        }  # fmt: skip
        if host.connection.left:
            host.read_back["left_by_others"] = ", ".join(host.connection.left)

    def _look(self, host: Host) -> None:
        guest = self.plan.world.guests[host.guest]
        (_, vnic), *_ = guest.vnics.items()
        where = f"guests.{host.guest}"
        if vnic.network == "vxlan" and not host.read_back["root"]:
            what = f"only root may make a VXLAN at {host.connection.address}"
            raise GuestError(where, what, "log in as root, or write 'network: own'")
        build.apply(self.control, [network.naming(host.guest, vnic)], Unobserved(), channel=host.leader)
        name = network.home(host.guest, vnic)
        seen = self.control.call(Observe([name]), channel=host.leader)
        wanted = self.plan.world.hosts[guest.host].interface
        address = host.connection.far.address if host.connection.far is not None else None
        links = networks.links_of(self.control, name, seen, host.leader)
        found = network.choose(where, links, wanted, address)
        self._addresses[host.guest] = frozenset(
            str(text).partition("/")[0]
            for link, each in links.items()
            if link != "lo"
            for text in each["addresses"]
        )
        self._interfaces[host.guest] = found
        host.read_back |= {"interface": found.link, "carries_bytes": found.mtu_bytes}

    def start(self, observe: Observer) -> None:
        """Makes at each what was requested there."""
        for host in self.hosts.values():
            steps = network.steps(self.plan, host.guest, self._interfaces)
            if steps:
                build.apply(self.control, steps, observe, channel=host.leader)

    def unasked(self, leader: int, why: str) -> bool:
        """Notes that a host could send no echoes; False for any other guest, or if its user is root, who can."""
        host = next((each for each in self.hosts.values() if each.leader == leader), None)
        if host is None or host.read_back["root"]:
            return False
        host.read_back["reach"] = f"not looked at before the run: {why}"
        return True

    def guests(self) -> Mapping[str, Reach]:
        """The channels and the clock by which each guest is reached."""
        return {name: host.reach for name, host in self.hosts.items()}

    def ended(self, exited: Notice) -> GuestError | None:
        """The host that was lost, with ssh's own words."""
        channel = int(exited.details["channel"])
        for host in self.hosts.values():
            if channel == host.leader:
                return _loss(host, str(exited.details.get("tail")))
        return None

    def deaths(self) -> Iterator[GuestError]:
        """The loss of each host that was lost, heard of or not."""
        for host in self.hosts.values():
            if (how := self.control.ended(host.leader)) is not None:
                yield _loss(host, how)

    def realised(self, guest: str) -> tuple[dict[str, Any], dict[str, Any]]:
        """The address of a host, and what the host reported of itself."""
        host = self.hosts[guest]
        applied: dict[str, Any] = {"address": host.connection.address}
        if host.domain is not None:
            applied |= host.domain.facts()
        return applied, host.read_back

    def conditions(self) -> dict[str, str]:
        """Kernel, processors and clock source of each, as its own agent reads them."""
        return {
            f"guests.{name}.{key}": str(host.read_back[key])
            for name, host in self.hosts.items()
            for key in CONDITIONS
            if key in host.read_back
        }

    def close(self) -> None:
        """Lets the agents go, waits until their connections ended, and stops domains that were started."""
        for host in self.hosts.values():
            if self.control.ended(host.leader) is None and self.control.attached(host.leader):
                with contextlib.suppress(AgentError):
                    self.control.call(Bye(), channel=host.leader, timeout_s=5.0)
            self.control.detach(host.leader)
        for host in self.hosts.values():
            host.connection.close()
        self.hosts.clear()
        for domain in self._domains:
            domain.stop()
        self._domains.clear()


def _loss(host: Host, how: str) -> GuestError:
    return GuestError(f"guests.{host.guest}", how, CURE.replace("HOST", host.connection.address))
