"""Plans in which a virtual machine moves to another host while a client talks to it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import process_world as processes
import pytest
import testbed_world as worlds

from virtlab.plan import Outcome, Plan, Trial
from virtlab.planner.mobility.copying import addressed
from virtlab.testbed import Testbed
from virtlab.testbed.build.moves import LONGEST_NS, userfaults_missing

S = 1_000_000_000
ASKED = "VIRTLAB_TEST_FAULTS"
on_demand = pytest.mark.skipif(
    os.environ.get(ASKED) != "1", reason="'make faults' breaks moves in every phase"
)
RATE_BIT_PER_S = 200_000_000
# Clients go on until the timeline stops them, which is so long after the move ended: what they could do at most is more
# than any run may last.
RUN_NS = 550 * S
ENDLESS_NS = 3600 * S
PATIENCE_NS = LONGEST_NS  # of a move that is to arrive: the most for which a guest may be out of our reach


def three_hosts(**memory: int) -> dict[str, Any]:
    """A machine v on h1, nothing on h2, a client c on h3, all around one physical switch that learns."""
    world = worlds.star(3)
    world["arp"] = "live"
    world["guests"] = {
        "v": {"platform": "qemu", "host": "h1", "vnics": {"eth0": worlds.vnic(1, vswitch="h1.br")}, **memory},
        "c": {"platform": "namespace", "host": "h3", "vnics": {"eth0": worlds.vnic(3, vswitch="h3.br")}},
    }
    return world


def moving_plan(
    *,
    rate_byte_per_s: int = 30_000_000,
    timeout_ns: int = PATIENCE_NS,
    world: dict[str, Any] | None = None,
    dirty: dict[str, int] | None = None,
    **move: Any,
) -> Plan:
    """The machine moves a second after the client began; the client ends a second after it is there.

    `dirty`: parameters of what writes to the machine's memory meanwhile; `move`: more of the action.
    """
    go = {
        "id": "go", "do": "migrate", "guest": "v", "to": "h2", "mode": "pre_copy", "over": "machine",
        "bandwidth_byte_per_s": rate_byte_per_s, "downtime_limit_ns": 100_000_000, "timeout_ns": timeout_ns,
        "on_timeout": "cancel", "after": {"event": "load.started", "plus_ns": S}, **move,
    }  # fmt: skip
    timeline = [
        {"id": "load", "do": "start", "role": "probe"},
        go,
        {"id": "settle", "do": "wait", "for_ns": S, "after": {"any": ["go.finished", "go.cancelled", "go.failed"]}},
        {"id": "end", "do": "stop", "role": "probe", "after": {"event": "settle.done"}},
    ]  # fmt: skip
    given = worlds.echo_plan(
        three_hosts() if world is None else world,
        source="c",
        target="v",
        count=ENDLESS_NS // worlds.INTERVAL_NS,
        timeline=timeline,
        windows={"measured": {"from": "load.started", "to": "end.done"}},
        limits={"run_ns": RUN_NS},
    )
    return given if dirty is None else written_to(given, **dirty)


def over_links(*, kind: str = "linux_bridge", counted: bool = False, **more: Any) -> Plan:
    """The machine moves over links of a rate between two hosts, whose virtual switches are of a kind; `counted`: frames
    on them as it begins and as it is there.
    """
    world = more.pop("world", None) or three_hosts(memory_bytes=128 << 20)
    for link in world["links"].values():
        link["rate_bit_per_s"] = RATE_BIT_PER_S
    for name in ("h1.br", "h2.br"):
        world["vswitches"][name]["kind"] = kind
    given = {"rate_byte_per_s": 100_000_000, **more}
    values = moving_plan(world=world, over="network", **given).model_dump(
        mode="json", by_alias=True, exclude_defaults=True
    )
    if counted:
        values["windows"]["moving"] = {"from": "go.started", "to": "go.finished"}
    values["collect"]["counters"] = ["links", "vnics"]
    return addressed(Plan.model_validate(values))


def written_to(plan: Plan, **parameters: int) -> Plan:
    """The Plan with a writer in the machine, from the beginning to the end."""
    values = plan.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    values["roles"]["memory"] = {"workload": "dirty", "from": "v", **parameters}
    values["timeline"] = [
        {"id": "write", "do": "start", "role": "memory"},
        *values["timeline"],
        {"id": "rest", "do": "stop", "role": "memory", "after": {"event": "settle.done"}},
    ]
    values["collect"]["packets"] = ["probe", "memory"]
    values["collect"]["series"] = [{"source": "guest.dirty_rate", "every_ns": S}]
    return Plan.model_validate(values)


def allow_faults(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has post-copy work where the machine forbids it to others than root."""
    if os.geteuid() != 0:
        pytest.skip("only root's own processes may ask for pages here")
    if userfaults_missing() is not None:
        # Its QEMU keeps root's rights, and so may do what the machine forbids to others.
        monkeypatch.setattr("virtlab.testbed.build.moves.userfaults_missing", lambda: None)
        monkeypatch.setattr("virtlab.testbed.platforms.qemu.confinement.account", lambda _: None)


def waiting_machine() -> int:
    """The process that waits for a guest: the last one, as the guest may have come to where it runs by a move."""

    def began(pid: int) -> int:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])

    return max(processes.named(b"-incoming"), key=began)


def slowed(plan: Plan, link: str, rate_bit_per_s: int, after: dict[str, Any]) -> Plan:
    """The Plan in which a link gets another rate in mid-run."""
    values = plan.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    args = {"rate_bit_per_s": rate_bit_per_s}
    values["timeline"].append({"id": "slow", "do": "set", "link": link, "args": args, "after": after})
    return Plan.model_validate(values)


def played(plan: Plan, sink: worlds.MemorySink | None = None) -> tuple[worlds.MemorySink, Outcome]:
    """What a run of that Plan gave, and how it ended; nothing of it may be refused, and it may not fail."""
    assert Testbed().check(plan) == []
    sink = sink or worlds.MemorySink()
    with Testbed().open(plan, worlds.Patient()) as session:
        outcome = session.run(Trial("t0", 1), sink)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    return sink, outcome


def of_migration(sink: worlds.MemorySink, metric: str) -> list[float]:
    """Values of a metric of the move."""
    return [
        float(value)
        for stream, _, columns in sink.blocks
        if stream == "migration"
        for name, value in zip(columns["metric"], columns["value"], strict=True)
        if name == metric
    ]


def on_and_on(*hosts: str, stays_ns: int = S, modes: Mapping[int, str] | None = None, **more: Any) -> Plan:
    """The machine moves to h2, and so long after each arrival to the next of these hosts: by `go`, `go1`, `go2`, and so
    on.

    `modes`: by the number of the move, where that is no `pre_copy`.
    """
    values = moving_plan(**more).model_dump(mode="json", by_alias=True, exclude_defaults=True)
    go, settle = values["timeline"][1:3]
    before, found = "go", []
    for number, host in enumerate(hosts, start=1):
        after = {"event": f"{before}.finished", "plus_ns": stays_ns}
        before = f"go{number}"
        found.append({**go, "id": before, "to": host, "after": after})
    for number, action in enumerate((go, *found)):
        if (mode := (modes or {}).get(number)) is not None:
            action["mode"] = mode
            del action["downtime_limit_ns"]
    values["timeline"][2:2] = found
    settle["after"] = {"event": f"{before}.finished"}
    values["limits"]["run_ns"] = 1700 * S
    return Plan.model_validate(values)
