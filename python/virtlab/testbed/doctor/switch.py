"""The soft switch itself: how many frames a second it passes, and what it adds to their delay.

A sender on one machine's end floods a link far faster than the switch; what arrives at the other end is what one core
held. First 64 B frames, then full ones, half a second each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from virtlab.catalogue.actions import RUN
from virtlab.catalogue.platforms.native import NATIVE
from virtlab.catalogue.workloads.raw_stream import RAW_STREAM
from virtlab.errors import VirtlabError
from virtlab.plan import Columns, Event, Plan, Trial, Unobserved
from virtlab.testbed.build import switch_capacity
from virtlab.testbed.build.machine import findings
from virtlab.testbed.finding import Finding
from virtlab.testbed.kinds.findings import Machine
from virtlab.testbed.session import TestbedSession

GROUP = "noise floor"
NAME = "soft_switch.capacity"
RATE_BIT_PER_S = 100_000_000_000
DURATION_NS = 500_000_000
SMALL_BYTES, FULL_BYTES = 64, 1518


def plan(frame_bytes: int) -> Plan:
    """Two hosts without guests at one cable; one floods the other."""
    guests = {
        name: {
            "platform": NATIVE.name, "host": host,
            "vnics": {"eth0": {"uplink": f"{host}.up", "mac": f"02:00:00:00:00:0{n}", "ip": [f"10.0.0.{n}/24"]}},
        }
        for n, (name, host) in enumerate((("a", "h1"), ("b", "h2")), start=1)
    }  # fmt: skip
    world = {
        "hosts": {"h1": {}, "h2": {}}, "guests": guests,
        "links": {"l": {"ends": ["h1.up", "h2.up"], "rate_bit_per_s": RATE_BIT_PER_S, "realise": "soft_switch"}},
    }  # fmt: skip
    role = {
        "workload": RAW_STREAM.name, "from": "a", "to": "b", "frame_bytes": frame_bytes, "duration_ns": DURATION_NS,
    }  # fmt: skip
    return Plan.model_validate({
        "world": world, "roles": {"flood": role}, "timeline": [{"id": "flood", "do": RUN.name, "role": "flood"}],
        "collect": {"counters": ["links"]}, "limits": {"run_ns": 20_000_000_000},
    })  # fmt: skip


class _Kept(Unobserved):
    """A sink that keeps counters, and an observer that says nothing."""

    def __init__(self) -> None:
        self.last: dict[tuple[str, str], int] = {}

    def block(self, stream: str, schema: str, columns: Columns) -> None:
        """Keeps the last value of each counter."""
        del stream
        if schema == "counter/1":
            rows = zip(columns["entity"], columns["counter"], columns["value"], columns["mark"], strict=True)
            for entity, counter, value, mark in rows:
                if mark == "end":
                    self.last[str(entity), str(counter)] = int(value)

    def event(self, event: Event) -> None:
        """Not kept."""

    def artefact(self, name: str, chunks: Iterable[bytes]) -> None:
        """Not kept."""


def measure() -> switch_capacity.Capacity:
    """Two floods. VirtlabError when no world can be built."""
    passed: dict[int, int] = {}
    delays: list[int | None] = [None, None]
    for frame_bytes in (SMALL_BYTES, FULL_BYTES):
        kept = _Kept()
        machine = Machine(link="soft_switch", has_ipv6=findings().has_ipv6)
        with TestbedSession(plan(frame_bytes), machine, kept) as session:
            session.run(Trial(id="doctor", seed=1), kept)
        passed[frame_bytes] = kept.last.get(("ports.h2.up", "sent_packets"), 0) * 1_000_000_000 // DURATION_NS
        delays = [kept.last.get(("soft_switch", f"added_delay_{name}_ns")) for name in ("p50", "p99")]
    return switch_capacity.Capacity(passed[SMALL_BYTES], passed[FULL_BYTES], *delays)


def examine() -> Iterator[Finding]:
    """Measures, keeps what was found for the checks of files, and says it."""
    try:
        found = measure()
    except VirtlabError as error:
        yield Finding(NAME, GROUP, "no", f"{error.where}: {error.what}", error.cure)
        return
    switch_capacity.keep(found)
    rate = found.rate_bit_per_s()
    values: dict[str, Any] = {
        "small_pps": found.small_pps, "full_pps": found.full_pps, "rate_bit_per_s": rate,
        "flood_delay_p50_ns": found.added_delay_p50_ns, "flood_delay_p99_ns": found.added_delay_p99_ns,
    }  # fmt: skip
    says = (
        f"the soft switch passed {found.small_pps / 1000:.0f} thousand frames/s of 64 B and "
        f"{found.full_pps / 1000:.0f} thousand full ones: links up to {rate / 1e9:.2g} Gbit/s, busy both ways"
    )
    yield Finding(NAME, GROUP, "yes", says, values=values)
