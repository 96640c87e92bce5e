"""Open vSwitch inside the private world: for each host that has such a switch a database server and a switch of its
own.

Both are children of PID 1 of the world and end with it. What they write (database, sockets) lies on a tmpfs that
only the world sees, mounted over /etc/openvswitch, which exists where the package is installed; the system's own
database and sockets are neither read nor written.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from virtlab.agents import Data, Notice
from virtlab.agents.requests.leader import Apply, Exec
from virtlab.errors import GuestError, MachineError
from virtlab.plan import Observer, Plan
from virtlab.testbed.kinds.lowered import Lowered
from virtlab.testbed.kinds.switch import RunningSwitches
from virtlab.testbed.kinds.tap import tun_missing
from virtlab.testbed.leader.channels import OVS, OVS_COMMAND
from virtlab.testbed.leader.control import Control, RefusedError, ending, outcome
from virtlab.testbed.vswitches.ovs_applied import (
    COLUMNS,
    PORT_COLUMNS,
    isolation_differences,
    port_differences,
    rule_differences,
)
from virtlab.testbed.vswitches.ovs_rules import OvsBridge, caches, kernel_caches, rules, transaction

RUN = "/etc/openvswitch"
SCHEMA = Path("/usr/share/openvswitch/vswitch.ovsschema")
PROGRAMS = ("ovsdb-tool", "ovsdb-server", "ovs-vswitchd", "ovs-vsctl", "ovs-ofctl", "ovs-appctl")
DATABASE, SWITCH = "ovsdb-server", "ovs-vswitchd"
START_TIMEOUT_S = 60.0  # until a daemon serves what it is asked first
COMMAND_TIMEOUT_S = 60.0
# The daemon that a command waits for.
_ASKS = {"ovs-vsctl": DATABASE, "ovs-ofctl": SWITCH, "ovs-appctl": SWITCH}
DEATH_S = 0.5  # the news of a daemon's death may come after that of the command it left alone
TAIL_BYTES = 4096
CURE = "install openvswitch-switch, or write 'vswitch: linux_bridge'"
CURE_BUILD = (
    "see whether /dev/net/tun can be opened and openvswitch-switch is whole, or write 'vswitch: linux_bridge'"
)
CURE_DAEMON = (
    "see whether {} of the package openvswitch-switch runs here by hand, or write 'vswitch: linux_bridge'"
)
CURE_PORTS = "see whether /dev/net/tun can be opened, or write 'vswitch: linux_bridge'"
CURE_RULES = "run it again; when it stays so, take another Open vSwitch, or write 'vswitch: linux_bridge'"
CURE_KERNEL = "load the module openvswitch, or run with --in lab-vm"
MODULE = Path("/sys/module/openvswitch")
NO_MODULE = "this kernel has no openvswitch loaded"
# Within ten seconds of a boot ovs-vswitchd counts no processor, and makes no thread that forwards (count_cpu_cores
# in its lib/ovs-thread.c takes the clock's zero for the time of its last look).
_PREPARE = (
    "until read up _ </proc/uptime && [ ${up%.*} -ge 11 ]; do sleep 0.1; done && "
    f"mount -t tmpfs none {RUN} && for place; do "
    f'mkdir "{RUN}/$place" && ovsdb-tool create "{RUN}/$place/conf.db" {SCHEMA} || exit; done'
)


@dataclass(slots=True)
class OpenVswitches(RunningSwitches):
    """All Open vSwitches of a session."""

    control: Control
    plan: Plan
    lowered: Lowered
    names: Sequence[str]
    version: str = ""
    ports_ns: int = 0  # how long the transaction that adds all ports took, the longest of the hosts
    _places: dict[str, str] = field(default_factory=dict)  # namespace -> its folder below RUN
    _names: dict[int, str] = field(default_factory=dict)  # channel -> what runs there
    _tails: dict[int, bytearray] = field(default_factory=dict)
    _observe: Observer | None = None  # while they start

    def start(self, observe: Observer) -> None:
        """Starts them, adds all ports of a host in one transaction, and gives the rules. MachineError when one
        fails.
        """
        observe.progress("start Open vSwitch")
        self._observe = observe
        by_namespace: dict[str, list[OvsBridge]] = {}
        for bridge in self._bridges():
            by_namespace.setdefault(bridge.namespace, []).append(bridge)
        self._places = {namespace: str(number) for number, namespace in enumerate(by_namespace)}
        first = next(iter(by_namespace))
        self._run(first, ["sh", "-c", _PREPARE, "prepare", *self._places.values()])
        for namespace, bridges in by_namespace.items():
            place = f"{RUN}/{self._places[namespace]}"
            self._daemon(
                namespace,
                [DATABASE, f"{place}/conf.db", f"--remote=punix:{place}/db.sock", "-vconsole:warn"],
            )
            self._wait_for(namespace, f"{place}/db.sock")
            self._run(namespace, ["ovs-vsctl", "--no-wait", "init"])
            self._daemon(
                namespace,
                [SWITCH, f"unix:{place}/db.sock", f"--unixctl={place}/switch.ctl", "-vconsole:warn"],
            )
            begin = time.monotonic_ns()
            self._run(namespace, ["ovs-vsctl", *transaction(bridges)], asks=SWITCH)
            self.ports_ns = max(self.ports_ns, time.monotonic_ns() - begin)
            for bridge in bridges:
                if bridge.afterwards:
                    self.control.call(Apply([op.json() for op in bridge.afterwards]))
                self._run(namespace, ["ovs-ofctl", "add-flows", bridge.link, "-"], _text(bridge))
        self.version = self._run(first, ["ovs-vsctl", "--version"]).splitlines()[0]
        self._observe = None

    def ended(self, exited: Notice) -> MachineError | None:
        """Which daemon ended, with the end of what it wrote."""
        channel = int(exited.details["channel"])
        return self._death(channel, ending(exited)) if channel in self._names else None

    def deaths(self) -> Iterator[MachineError]:
        """An error for each daemon that ended, whether or not its end was reported."""
        for channel in self._names:
            if (how := self.control.ended(channel)) is not None:
                yield self._death(channel, how)

    def _death(self, channel: int, how: str) -> MachineError:
        name, said = self._names[channel], self._said(channel)
        what = f"{name} ended with {how}" + (f": {said}" if said and said not in how else "")
        return MachineError("vswitches", what, CURE_DAEMON.format(name.partition(" ")[0]))

    def facts(self, name: str) -> dict[str, Any]:
        """A bridge as Open vSwitch has it: version, datapath, ports, rules. MachineError where one differs."""
        bridge = self._bridge(name)
        ports = self._run(bridge.namespace, ["ovs-vsctl", "list-ports", bridge.link]).split()
        told = ["--format=json", f"--columns={','.join(COLUMNS)}", "list", "interface"]
        wrong = list(port_differences(bridge, ports, self._run(bridge.namespace, ["ovs-vsctl", *told])))
        if any(port.isolated for port in bridge.ports):
            told = ["--format=json", f"--columns={','.join(PORT_COLUMNS)}", "list", "port"]
            wrong += isolation_differences(bridge, self._run(bridge.namespace, ["ovs-vsctl", *told]))
        if wrong:
            raise MachineError(f"vswitches.{name}", f"Open vSwitch {', '.join(wrong)}", CURE_PORTS)
        # It ends with code 2 where rules differ. A file whose name begins with / is never taken for a switch.
        compared = ["ovs-ofctl", "diff-flows", bridge.link, "/proc/self/fd/0"]
        wrong = list(
            rule_differences(self._run(bridge.namespace, compared, _text(bridge), fine=("code 0", "code 2")))
        )
        if wrong:
            raise MachineError(f"vswitches.{name}", f"Open vSwitch {', '.join(wrong)}", CURE_RULES)
        datapath = self._run(
            bridge.namespace, ["ovs-vsctl", "get", "bridge", bridge.link, "datapath_type"]
        ).strip()
        dumped = self._run(
            bridge.namespace, ["ovs-ofctl", "--no-stats", "dump-flows", bridge.link]
        ).splitlines()
        return {
            "version": self.version,
            "datapath": datapath,
            "ports": sorted(ports),
            "rules": [line.strip() for line in dumped],
            "transaction_ns": self.ports_ns,
            "qos": {port.link: self._qos(bridge.namespace, port.link) for port in bridge.ports if port.qos},
        }

    def _bridge(self, name: str) -> OvsBridge:
        bridge = self.lowered.vswitches[name]
        assert isinstance(bridge, OvsBridge)
        return bridge

    def _bridges(self) -> list[OvsBridge]:
        return [self._bridge(name) for name in self.names]

    def _qos(self, namespace: str, link: str) -> list[str]:
        """What Open vSwitch says that a port's QoS is, without its counters."""
        control = f"{RUN}/{self._places[namespace]}/switch.ctl"
        said = self._run(namespace, ["ovs-appctl", "-t", control, "qos/show", link])
        return [
            line.strip() for line in said.splitlines() if line.strip() and not line.strip().startswith("tx_")
        ]

    def relocate(self, vswitch: str, ports: Mapping[str, str]) -> None:
        """Replaces the rules that name the ports behind which the addresses were, in one call."""
        bridge = self._bridge(vswitch)
        for mac, link in ports.items():
            bridge.known(mac, link)
        self._run(bridge.namespace, ["ovs-ofctl", "replace-flows", bridge.link, "-"], _text(bridge))

    def caches(self) -> Iterator[tuple[str, str, int]]:
        """(entity, counter, value) of the flow caches; of a host's bridges together, as they share them."""
        if any(self.deaths()):
            return  # that is the run's reason to fail; no daemon is left to ask
        for namespace, place in self._places.items():
            kernel = any(each.in_kernel for each in self._bridges() if each.namespace == namespace)
            asked = "dpctl/show" if kernel else "dpif-netdev/pmd-stats-show"
            try:
                said = self._run(namespace, ["ovs-appctl", "-t", f"{RUN}/{place}/switch.ctl", asked])
            except MachineError:
                if any(self.deaths()):
                    return  # it ended while it was asked
                raise
            for counter, value in (kernel_caches(said) if kernel else caches(said)).items():
                yield f"hosts.{namespace.removeprefix('host:')}.ovs", counter, value

    def artefacts(self) -> Iterator[tuple[str, bytes]]:
        """The output of the daemons."""
        for channel, tail in self._tails.items():
            if tail and channel in self._names:
                yield f"{self._names[channel].replace(' ', '-')}.log", bytes(tail)

    def _environment(self, namespace: str) -> dict[str, str]:
        place = f"{RUN}/{self._places[namespace]}"
        return {"OVS_RUNDIR": place, "OVS_DBDIR": place, "OVS_LOGDIR": place, "OVS_SYSCONFDIR": place}

    def _exec(self, channel: int, namespace: str, argv: Sequence[str]) -> None:
        try:
            self.control.call(Exec(channel, namespace, argv, environment=self._environment(namespace)))
        except RefusedError as error:
            raise MachineError("vswitches", f"{argv[0]}: {error.what}", CURE) from error

    def _daemon(self, namespace: str, argv: Sequence[str]) -> None:
        tail = bytearray()

        def keep(data: Data) -> None:
            tail.extend(data.content)
            del tail[:-TAIL_BYTES]

        channel = OVS.at(len(self._names))
        self.control.listen(channel, keep)
        self._exec(channel, namespace, argv)
        self._tails[channel] = tail
        self._names[channel] = _name(argv[0], namespace)

    def _run(
        self,
        namespace: str,
        argv: Sequence[str],
        given: str = "",
        *,
        asks: str | None = None,
        fine: Sequence[str] = ("code 0",),
    ) -> str:
        """Runs a command to its end; what it wrote. MachineError with its errors when its end is not one of `fine`.

        `asks`: the daemon that it waits for, where that is not the usual one; it is to blame when the command does
        not end. GuestError when the run is cancelled while they start.
        """
        output, errors = bytearray(), bytearray()
        channel = OVS_COMMAND.first  # one after the other: a long campaign would use up any others
        self.control.listen(
            channel, lambda data: (errors if data.stream == 2 else output).extend(data.content)
        )
        self._exec(channel, namespace, argv)
        self.control.data(channel, given.encode())
        if given:
            self.control.data(channel, b"")
        timeout_s = COMMAND_TIMEOUT_S if self._observe is None else START_TIMEOUT_S
        end = time.monotonic() + timeout_s
        while (how := self.control.ended(channel)) is None:
            self._check_daemons()
            if self._observe is not None and self._observe.cancelled():
                raise GuestError("vswitches", "Open vSwitch was still starting when the run was cancelled")
            if time.monotonic() > end:
                raise self._late(namespace, argv[0], asks or _ASKS.get(argv[0]), timeout_s)
            self.control.await_news(0.1)
        self.control.listen(channel, None)
        self.control.forget_end(channel)
        if outcome(how) not in fine:
            self._await_deaths()
            lines = errors.decode(errors="replace").splitlines()
            said = (
                " | ".join(line.strip() for line in lines if line.strip() and "log directory" not in line)
                or how
            )
            daemons = " | ".join(self._said(channel) for channel in self._names if self._tails[channel])
            what = f"{argv[0]}: {said}" + (f"; the daemons wrote: {daemons}" if daemons else "")
            raise MachineError("vswitches", what, CURE_BUILD)
        return output.decode(errors="replace")

    def _wait_for(self, namespace: str, path: str) -> None:
        script = 'while [ ! -S "$1" ]; do sleep 0.02; done'
        self._run(namespace, ["sh", "-c", script, "wait", path], asks=DATABASE)

    def _late(self, namespace: str, program: str, asks: str | None, timeout_s: float) -> MachineError:
        """The error that a command did not end: for the sake of the daemon that it asks, with what that wrote."""
        if asks is None:
            return MachineError("vswitches", f"{program} did not end within {timeout_s:g} s", CURE_BUILD)
        name = _name(asks, namespace)
        said = [self._said(channel) for channel, each in self._names.items() if each == name]
        what = (
            f"{name} runs but does not answer after {timeout_s:g} s; it wrote: {''.join(said) or 'nothing'}"
        )
        return MachineError("vswitches", what, CURE_DAEMON.format(asks))

    def _said(self, channel: int) -> str:
        """The last line that a daemon wrote, or nothing."""
        lines = bytes(self._tails[channel]).decode(errors="replace").strip().splitlines()
        return lines[-1][-300:] if lines else ""

    def _await_deaths(self) -> None:
        """Blames a daemon that died for the command that failed."""
        end = time.monotonic() + DEATH_S
        while self.control.open and (left := end - time.monotonic()) > 0:
            self._check_daemons()
            self.control.pump(left)
        self._check_daemons()

    def _check_daemons(self) -> None:
        for death in self.deaths():
            raise death


def _text(bridge: OvsBridge) -> str:
    """A bridge's rules as a file."""
    return "\n".join(rules(bridge)) + "\n"


def _name(program: str, namespace: str) -> str:
    return f"{program} of {namespace.removeprefix('host:')}"


def missing(*, in_kernel: bool = False) -> str | None:
    """Why Open vSwitch with a datapath in user space, or in the kernel, cannot be run here; None when it can."""
    lacking = [program for program in PROGRAMS if shutil.which(program) is None]
    if lacking or not SCHEMA.exists() or not Path(RUN).is_dir():
        return f"Open vSwitch is not installed ({', '.join(lacking) or str(SCHEMA)} is missing)"
    if in_kernel:
        return None if MODULE.is_dir() else NO_MODULE
    return tun_missing()
