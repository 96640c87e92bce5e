"""Kinds that nothing in virtlab names: a declaration each, and a tiny implementation where this testbed can have one.

- `pause`, a platform: guests that are namespaces; who starts them waits a moment first, and says how long.
- `hub`, a virtual switch: the kernel's bridge that learns nothing and is told nothing, so every frame goes to every
  port.
- `morse`, a workload: no probe and no simulator has it, so that it can be declared and refused only.
- `short`, a queue discipline: the kernel's FIFO, with room for two packets.
- `nod`, an action: it tells that it began, and a moment later that it is done.
- `bell`, a service: it says `ding` when it is ready, and can be restarted.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from virtlab.catalogue import (
    ACTIONS,
    PLATFORMS,
    QDISCS,
    SERVICES,
    VSWITCHES,
    WORKLOADS,
    Features,
    Parameter,
    Platform,
    QueueDiscipline,
    ServiceKind,
    ServiceOperation,
    TimelineAction,
    VirtualSwitch,
    Workload,
)
from virtlab.catalogue.kinds import POSITIVE_DURATION
from virtlab.catalogue.qdiscs.fifo import PFIFO
from virtlab.catalogue.queueing import Kernel
from virtlab.plan import Action, Observer
from virtlab.testbed.kinds.platform import Counted, GuestPlatform, Running
from virtlab.testbed.kinds.registry import platforms, vswitches
from virtlab.testbed.kinds.switch import SwitchKind
from virtlab.testbed.play.actions import actions
from virtlab.testbed.play.actions.action import ActionKind, Playing
from virtlab.testbed.play.timeline import Timeline
from virtlab.testbed.services.service import Invocation, ServiceImplementation, services
from virtlab.testbed.vswitches.linux_bridge import Bridge

UNMEASURED = "nobody has measured what it costs"
PAUSE_NS = 1_000_000
NOD_NS = 20_000_000
ROOM_PACKETS = 2

PAUSE = Platform(
    name="pause",
    meaning="a namespace whose start takes a moment",
    guests_max=None,
    vswitch=True,
    limits=(),
    features=Features(
        type="in an operating system",
        virtualisation=("namespaces",),
        own_kernel=False,
        migration="none",
        snapshots="none",
        licence="any",
    ),
    shares_files=True,
    arms={"testbed": None, "simulator": UNMEASURED},
)
HUB = VirtualSwitch(
    name="hub", meaning="a bridge that floods every frame", ports_max=1024, arms={"testbed": None}
)


MORSE = Workload(
    name="morse",
    meaning="dots and dashes",
    part="measure",
    parameters=(Parameter("duration", POSITIVE_DURATION, "duration_ns", "how long it sends", "1 s"),),
    streams={"transaction/1": "from"},
    metrics=frozenset({"transaction_time"}),
    transport=lambda _: "udp",
    duration_ns=lambda values: int(values["duration_ns"]),
    rows=lambda _, traffic_ns: {"transaction/1": traffic_ns // 10**6 + 1},
    arms={"testbed": "no agent has a key", "simulator": "nobody has measured how it fades"},
)
SHORT = QueueDiscipline(
    name="short",
    meaning="first in, first out, with room for two packets",
    limit=(),
    tail_drop=True,
    serves="in_order",
    kernel=Kernel(
        kind=lambda _: PFIFO.name,
        needs=(PFIFO.name,),
        options=lambda *_: {"limit_packets": ROOM_PACKETS},
        built_in=True,
    ),
    arms={"testbed": None, "simulator": UNMEASURED},
)
NOD = TimelineAction(
    name="nod",
    meaning="nothing but two events",
    events=frozenset({"started", "done"}),
    arms={"testbed": None, "simulator": "nobody nods in virtual time"},
)
BELL = ServiceKind(
    name="bell",
    meaning="a bell that rings once",
    operations={"restart": ServiceOperation("it rings again", ends=True, starts=True)},
    arms={"testbed": None, "simulator": "nobody hears it in virtual time"},
)


def nod(trial: Playing, action: Action, at_ns: int, timeline: Timeline) -> None:
    """Begins, and is done a moment later."""
    trial.note(timeline, f"{action.id}.started", at_ns)
    timeline.expect(action.id, at_ns + NOD_NS)


class Paused(Running):
    """Guests of a session."""

    def __init__(self, names: Sequence[str]) -> None:
        self.names = names

    def start(self, observe: Observer) -> None:
        observe.progress("pause")
        time.sleep(PAUSE_NS / 1e9)

    def realised(self, guest: str) -> tuple[dict[str, Any], dict[str, Any]]:
        assert guest in self.names
        return {"pause_ns": PAUSE_NS}, {}

    def counters(self) -> Iterator[Counted]:
        return ((f"guests.{name}", "start_ns", PAUSE_NS) for name in self.names)


class Repeater(Bridge):
    """One hub."""

    def known(self, mac: str, port: str) -> None:
        """It is told nothing."""


def declare(monkeypatch: pytest.MonkeyPatch) -> None:
    """Declares all and registers what this testbed plays, until the test ends."""
    for declared, entry in (
        (PLATFORMS, PAUSE),
        (VSWITCHES, HUB),
        (WORKLOADS, MORSE),
        (QDISCS, SHORT),
        (ACTIONS, NOD),
        (SERVICES, BELL),
    ):
        monkeypatch.setitem(declared, entry.name, entry)  # type: ignore[attr-defined]
    actions.register(NOD.name, ActionKind(nod))
    services.register(
        BELL.name,
        ServiceImplementation(
            invocation=lambda *_: Invocation(("sh", "-c", "echo ding; exec sleep 1000")),
            refusals=lambda *_: iter(()),
            cure="ring again",
        ),
    )
    platforms.register(PAUSE.name, GuestPlatform(running=lambda world, names: Paused(names)))
    vswitches.register(
        HUB.name, SwitchKind(lambda vswitch, namespace, link, told: Repeater(namespace, link, learning=False))
    )
