"""Why a Plan cannot be played in the laboratory machine: what is lacking here to boot one, and what is not inside."""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from virtlab.catalogue import PLATFORMS, VSWITCHES, WORKLOADS, Platform
from virtlab.catalogue.workloads import is_budgeted
from virtlab.errors import MachineError
from virtlab.plan import Capabilities, Guest, LinkQueues, Plan, Queue, Refusal
from virtlab.planner.guests.disks import is_folder
from virtlab.planner.queues.ports import said_ports
from virtlab.testbed import refusals as testbed
from virtlab.testbed.build.machine import findings
from virtlab.testbed.image import find, folder
from virtlab.testbed.image.initramfs import find_busybox
from virtlab.testbed.kinds import container_runtime as runtime
from virtlab.testbed.kinds.findings import Findings
from virtlab.testbed.lab.vm import MEMORY_BYTES, VCPUS, WHERE
from virtlab.testbed.platforms.qemu.command import PROGRAM

FLAVOUR = "generic"  # the cloud kernel lacks SFQ, CoDel, FQ-CoDel, HFSC and Open vSwitch
# What a laboratory machine's memory goes to, as it was read inside of MemAvailable, and a part more: kernel and
# programs (186 MiB), a guest (0.7 MiB, 3 with a probe), a container with its runtime (9 MiB, 18 with a probe), Open
# vSwitch (6 MiB).
OWN_BYTES = 200 << 20
_METER = "only virtlab's own meter is inside the laboratory machine"
_GROUPS = "this laboratory machine bounds no guest: its processor is one for all"
_IMAGE = "images of containers stay outside the laboratory machine"
_RUNTIME = "stays outside the laboratory machine, which takes runc (or crun) along"
_FORCED = f"what ${runtime.FORCED} names {_RUNTIME}"
_TASKS = "hard deadlines mean nothing on a virtual processor"
_VSWITCH = "is not inside the laboratory machine"
_SOFT_SWITCH = "no soft switch spins on a virtual processor: links and queues inside are the kernel's"


@dataclass(frozen=True, slots=True)
class Rules:
    """What a kind of laboratory machine holds. `kept`: why there is nothing to boot, and the cure; none when there
    is.
    """

    where: str
    holds: Callable[[Platform], bool]
    platform: str  # why a guest of another platform is refused
    requirements: Callable[[], Iterator[tuple[str, str]]]
    bounds: bool = False  # whether guests can have a share of the processor and of memory
    room_bytes: int | None = (
        None  # what guests can have of its memory together; None: somebody else weighs that
    )

    @property
    def platforms(self) -> tuple[str, ...]:
        """Names of those whose guests it holds."""
        return tuple(name for name, each in PLATFORMS.items() if self.holds(each))

    @property
    def leave(self) -> str:
        """The cure for all that a machine without it can do."""
        return f"leave out --in {self.where}"

    def missing(self) -> Iterator[tuple[str, str]]:
        """What this machine lacks to boot one: reason and cure."""
        return _missing(self)

    def lacking(self) -> str | None:
        """Why no such machine can be booted here; None when one can."""
        first = next(self.missing(), None)
        return "; ".join(part for part in first if part) if first is not None else None


def _kernel_kept() -> Iterator[tuple[str, str]]:
    if find(FLAVOUR) is None:
        yield f"there is no {FLAVOUR} kernel in {folder()}", f"run `virtlab image build --kernel {FLAVOUR}`"


LAB_VM = Rules(
    WHERE,
    lambda platform: platform.inside and platform.shares_kernel,
    "the laboratory machine holds guests that share its kernel (namespaces, containers, native): no QEMU is inside, "
    "whichever accelerator carries it",
    _kernel_kept,
    bounds=True,
    room_bytes=MEMORY_BYTES - OWN_BYTES,
)


def _missing(rules: Rules) -> Iterator[tuple[str, str]]:
    if platform.machine() != "x86_64":
        yield f"images are of x86_64, this is {platform.machine()}", "use a machine with an x86_64 processor"
        return
    if shutil.which(PROGRAM) is None:
        yield f"{PROGRAM} is missing", "install qemu-system-x86"
    yield from rules.requirements()
    try:
        find_busybox()
    except MachineError as error:
        yield error.what, error.cure
    if (world := findings().world) is not None:
        yield world


def refusals(plan: Plan, findings: Findings, rules: Rules = LAB_VM) -> list[Refusal]:
    """Every refusal of a Plan; empty when it can be played inside."""
    own = list(_inside(plan, rules))
    paths = {refusal.path for refusal in own}
    # What the testbed asks of this machine (routing daemons, processors, deadlines) was answered above for the one
    # inside.
    others = testbed.refusals(_as_if_here(plan), replace(findings, inside=rules.where))
    return own + [refusal for refusal in others if refusal.path not in paths]


def _as_if_here(plan: Plan) -> Plan:
    """The Plan without what `_inside` refuses of hosts, links and queues, so that all else that is wrong is found,
    too.
    """
    world = plan.world
    hosts = {name: host.model_copy(update={"at": "local"}) for name, host in world.hosts.items()}
    guests = {}
    for name, guest in world.guests.items():
        vnics = {
            own: vnic.model_copy(
                update={
                    "queue": vnic.queue and _anybodys(vnic.queue),
                    "there": {
                        host: port.model_copy(update={"queue": port.queue and _anybodys(port.queue)})
                        for host, port in vnic.there.items()
                    },
                }
            )
            for own, vnic in guest.vnics.items()
        }
        guests[name] = guest.model_copy(update={"vnics": vnics})
    links = {}
    for name, link in world.links.items():
        queues = LinkQueues(ab=_anybodys(link.queue.ab), ba=_anybodys(link.queue.ba))
        realise = "auto" if link.realise == "soft_switch" else link.realise
        links[name] = link.model_copy(update={"queue": queues, "realise": realise})
    changed = {"hosts": hosts, "guests": guests, "links": links}
    return plan.model_copy(update={"world": world.model_copy(update=changed)})


def _anybodys(queue: Queue) -> Queue:
    return queue.model_copy(update={"by": "auto"}) if queue.by == "virtlab" else queue


def _inside(plan: Plan, rules: Rules) -> Iterator[Refusal]:
    for name, host in plan.world.hosts.items():
        if host.at not in {"local", rules.where}:
            yield Refusal(f"hosts.{name}.at", f"'{host.at}' is outside the laboratory machine", rules.leave)
    for name, guest in plan.world.guests.items():
        path = f"guests.{name}"
        if guest.platform not in rules.platforms:
            cure = f"write one of {', '.join(rules.platforms)}, or {rules.leave}"
            yield Refusal(f"{path}.platform", rules.platform, cure)
        platform = PLATFORMS.get(guest.platform)
        if platform is not None and platform.runtimes and guest.image is not None:
            yield Refusal(
                f"{path}.image", _IMAGE, f"remove it: a bare one with busybox is inside, or {rules.leave}"
            )
        bounded = platform is not None and not platform.shares_kernel
        if guest.runtime not in {None, *_carried()}:
            yield Refusal(
                f"{path}.runtime", f"{guest.runtime} {_RUNTIME}", f"remove 'runtime', or {rules.leave}"
            )
        for key in ("cpu_quota_ratio", *(() if bounded else ("memory_bytes",))):
            if getattr(guest, key) is not None and not rules.bounds:
                yield Refusal(f"{path}.{key}", _GROUPS, f"remove it, or {rules.leave}")
        if guest.idle != "sleep":
            yield Refusal(f"{path}.idle", "no processor inside is a guest's alone", "write 'idle: sleep'")
        if guest.pin != "none":
            yield Refusal(f"{path}.pin", "no processor inside is a guest's alone", "write 'pin: none'")
        if guest.routing != "static":
            yield Refusal(
                f"{path}.routing",
                "there is no routing daemon in the laboratory machine",
                "write 'routing: static'",
            )
    yield from _room(plan, rules)
    unsaid = [
        name
        for name, guest in plan.world.guests.items()
        if guest.platform in PLATFORMS and PLATFORMS[guest.platform].runtimes and guest.runtime is None
    ]
    if unsaid and os.environ.get(runtime.FORCED, runtime.OCI[0]) not in runtime.OCI:
        cure = f"unset {runtime.FORCED}, or set it to {' or '.join(runtime.OCI)}, or {rules.leave}"
        yield Refusal(f"guests.{unsaid[0]}.runtime", _FORCED, cure)
    kinds = [name for name, each in VSWITCHES.items() if each.inside]
    for name, vswitch in plan.world.vswitches.items():
        if vswitch.kind not in kinds:
            yield Refusal(
                f"vswitches.{name}.kind", f"'{vswitch.kind}' {_VSWITCH}", f"write {' or '.join(kinds)}"
            )
    for name, role in plan.roles.items():
        if is_budgeted(role.workload):
            yield Refusal(f"roles.{name}.workload", _TASKS, rules.leave)
        if role.parameters.get("meter", "virtlab") != "virtlab":
            yield Refusal(f"roles.{name}.meter", _METER, f"remove 'meter', or {rules.leave}")
    yield from _switched(plan, rules)


def _switched(plan: Plan, rules: Rules) -> Iterator[Refusal]:
    """Everything that names the soft switch, where it does."""
    queues = {f"{path}.queue": vnic.queue for path, _, vnic in said_ports(plan) if vnic.queue is not None}
    for name, link in plan.world.links.items():
        queues |= {f"links.{name}.queue.ab": link.queue.ab, f"links.{name}.queue.ba": link.queue.ba}
        if link.realise == "soft_switch":
            cure = f"write 'realise: auto' (or 'shaping'), or {rules.leave}"
            yield Refusal(f"links.{name}.realise", _SOFT_SWITCH, cure)
    for path, queue in queues.items():
        if queue.by == "virtlab":
            yield Refusal(f"{path}.by", _SOFT_SWITCH, f"write 'by: kernel' or 'by: auto', or {rules.leave}")


def _disk_bytes(guest: Guest) -> int:
    """The size of a disk that is a folder in memory; that of a guest whose memory is bounded is part of it."""
    return guest.disk.size_bytes if guest.disk is not None and is_folder(guest) else 0


def _room(plan: Plan, rules: Rules) -> Iterator[Refusal]:
    """Guests of which one asks for more processors than there are, or all together for more memory."""
    if rules.room_bytes is None:
        return
    for name, guest in plan.world.guests.items():
        if guest.cpu_quota_ratio is not None and guest.cpu_quota_ratio > VCPUS:
            what = f"the laboratory machine has {VCPUS} processors, not {guest.cpu_quota_ratio:g}"
            yield Refusal(
                f"guests.{name}.cpu_quota_ratio", what, f"write at most {VCPUS * 100} %, or {rules.leave}"
            )
    guests = [guest for guest in plan.world.guests.values() if guest.platform in rules.platforms]
    needed = sum(
        PLATFORMS[guest.platform].inside_bytes + (guest.memory_bytes or _disk_bytes(guest))
        for guest in guests
    )
    switched: dict[str, int] = {}  # host -> what the programs of its virtual switches take
    for each in plan.world.vswitches.values():
        own = VSWITCHES[each.kind].inside_bytes if each.kind in VSWITCHES else 0
        switched[each.host] = max(switched.get(each.host, 0), own)
    needed += sum(switched.values())
    if needed > rules.room_bytes:
        what = (
            f"{len(guests)} guests with what the file lets them have need {_mebibytes(needed)} together, the laboratory "
            f"machine has {_mebibytes(rules.room_bytes)} for them"
        )
        yield Refusal("guests", what, f"write fewer guests, or less 'memory' for each, or {rules.leave}")


def _mebibytes(size: int) -> str:
    return f"{-(-size >> 20)} MiB"


def _carried() -> set[str]:
    """The container runtime that goes along."""
    found = runtime.find(among=runtime.OCI)
    return {found.name} if found is not None else set()


def capabilities(findings: Findings, fingerprint: dict[str, str], rules: Rules = LAB_VM) -> Capabilities:
    """The kinds that work inside."""
    why = None if findings.world is None else "; ".join(part for part in findings.world if part)
    inside = testbed.capabilities(findings, fingerprint)
    absent = dict.fromkeys(inside.platforms, rules.platform)
    return Capabilities(
        backend=rules.where,
        platforms={**absent, **dict.fromkeys(rules.platforms, why)},
        vswitches={
            **{kind: why if VSWITCHES[kind].inside else _VSWITCH for kind in inside.vswitches},
            **{kind: why or reason for kind, reason in (findings.open_vswitch or {}).items()},
        },
        qdiscs=inside.qdiscs,
        workloads={**inside.workloads, **dict.fromkeys(filter(is_budgeted, WORKLOADS), _TASKS)},
        actions=inside.actions,
        links={**inside.links, "soft_switch": _SOFT_SWITCH},
        parallel_sessions=1,
        fingerprint=fingerprint,
    )
