"""The noise floor: a small testbed, built and measured for real, about two seconds of it.

Two guests, 1500 B echoes: first on one virtual switch, then on two hosts across one physical switch of 100 Mbit/s,
whose echo time can be computed (4 x 122.08 us). What is measured above that is this machine's share in every result.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from virtlab.catalogue import DEFAULT_PLATFORM, DEFAULT_VSWITCH
from virtlab.catalogue.actions import RUN
from virtlab.catalogue.workloads.rtt import RTT
from virtlab.errors import VirtlabError
from virtlab.plan import Columns, Event, Plan, Trial, Unobserved
from virtlab.testbed.backend import Testbed
from virtlab.testbed.finding import Finding

GROUP = "noise floor"
ECHOES, INTERVAL_NS = 90, 10_000_000
RATE_BIT_PER_S = 100_000_000
COMPUTED_NS = 4 * (1500 + 26) * 8 * 1_000_000_000 // RATE_BIT_PER_S
EXCESS_MAX_NS = 300_000


def plan(*, switched: bool) -> Plan:
    """Two guests on one virtual switch; or on two hosts, with one physical switch of 100 Mbit/s between them."""

    def guest(host: str, number: int) -> dict[str, Any]:
        vnic: dict[str, Any] = {"vswitch": f"{host}.br", "mac": f"02:00:00:00:00:0{number}"}
        vnic["ip"] = [f"10.0.0.{number}/24"]
        if switched:
            vnic["pushback_bit_per_s"] = RATE_BIT_PER_S
        return {"platform": DEFAULT_PLATFORM, "host": host, "vnics": {"eth0": vnic}}

    def bridge(host: str) -> dict[str, Any]:
        return {"kind": DEFAULT_VSWITCH, "host": host, "uplinks": [f"{host}.up"] if switched else []}

    hosts = ("h1", "h2") if switched else ("h1",)
    ends = {"l1": ["h1.up", "s1.p1"], "l2": ["s1.p2", "h2.up"]} if switched else {}
    world = {
        "hosts": {host: {} for host in hosts},
        "guests": {"a": guest("h1", 1), "b": guest(hosts[-1], 2)},
        "vswitches": {f"{host}.br": bridge(host) for host in hosts},
        "switches": {"s1": {}} if switched else {},
        "links": {name: {"ends": both, "rate_bit_per_s": RATE_BIT_PER_S} for name, both in ends.items()},
    }
    role = {
        "workload": RTT.name, "from": "a", "to": "b", "protocol": "icmp", "ip_packet_bytes": 1500,
        "interval_ns": INTERVAL_NS, "count": ECHOES, "timeout_ns": 500_000_000,
    }  # fmt: skip
    return Plan.model_validate(
        {
            "world": world,
            "roles": {"probe": role},
            "timeline": [{"id": "measure", "do": RUN.name, "role": "probe"}],
            "collect": {"packets": ["probe"]},
            "limits": {"run_ns": 20_000_000_000},
        }
    )


class _Kept(Unobserved):
    """A sink that keeps echo times, and an observer that says nothing."""

    def __init__(self) -> None:
        self.path_rtt_ns: list[int] = []

    def block(self, stream: str, schema: str, columns: Columns) -> None:
        """Keeps the echo times."""
        del stream  # there is one role
        if schema == "rtt/1":
            path, user = columns["path_rtt_ns"].tolist(), columns["rtt_ns"].tolist()
            self.path_rtt_ns += [one if one > 0 else other for one, other in zip(path, user, strict=True)]

    def event(self, event: Event) -> None:
        """Not kept."""

    def artefact(self, name: str, chunks: Iterable[bytes]) -> None:
        """Not kept."""


def examine() -> Iterator[Finding]:
    """The self-test; the default testbed works when its echoes come back."""
    before = _processor_times()
    yield _measure("noise.path", switched=False)
    yield _measure("noise.switched", switched=True)
    yield _steal(before, _processor_times())


def _measure(name: str, *, switched: bool) -> Finding:
    kept = _Kept()
    testbed, intent = Testbed(), plan(switched=switched)
    try:
        for refusal in testbed.check(intent):
            return Finding(name, GROUP, "no", f"{refusal.path}: {refusal.reason}", refusal.cure, needed=True)
        with testbed.open(intent, kept) as session:
            outcome = session.run(Trial(id="doctor", seed=1), kept)
            by = session.realised.link_realisation()
    except VirtlabError as error:
        return Finding(name, GROUP, "no", f"{error.where}: {error.what}", error.cure, needed=True)
    return judge(name, kept.path_rtt_ns, outcome.reasons, by, switched=switched)


def judge(name: str, rtt_ns: list[int], reasons: Iterable[str], by: str, *, switched: bool) -> Finding:
    """The finding that echo times give about the machine."""
    times = sorted(rtt_ns)
    if len(times) < ECHOES // 2:
        why = "; ".join(reasons) or "no reason known"
        says = f"{ECHOES - len(times)} of {ECHOES} echoes did not come back ({why})"
        return Finding(
            name, GROUP, "no", says, "see the findings above; run 'virtlab doctor' again", needed=True
        )
    values: dict[str, Any] = {f"p{share}_ns": times[len(times) * share // 100] for share in (50, 90, 99)}
    values |= {"count": len(times), "sent": ECHOES, "links": by, "taints": list(reasons)}
    p50, p99 = values["p50_ns"], values["p99_ns"]
    says = f"an echo between guests on one virtual switch takes p50 {p50 / 1000:.0f}, p99 {p99 / 1000:.0f} us"
    slow = False
    if switched:
        excess_ns = p50 - COMPUTED_NS
        values |= {"computed_ns": COMPUTED_NS, "excess_ns": excess_ns}
        slow = excess_ns > EXCESS_MAX_NS
        says = (
            f"across one switch of 100 Mbit/s ({by}) p50 {p50 / 1000:.0f}, p99 {p99 / 1000:.0f} us; "
            f"computed {COMPUTED_NS / 1000:.2f}, so {excess_ns / 1000:+.0f} us are this machine's"
        )
    if not slow and not values["taints"]:
        return Finding(name, GROUP, "yes", says, needed=True, values=values)
    says = "; ".join([says, *values["taints"]])
    cure = "stop what else runs here, or runs will be tainted and repeated; as root the soft switch has a real-time priority"
    return Finding(name, GROUP, "limited", says, cure, needed=True, values=values)


def _processor_times() -> Mapping[str, int]:
    """Ticks since boot: those that a hypervisor gave to others, and all."""
    fields = [
        int(field) for field in Path("/proc/stat").read_text(encoding="utf-8").split("\n", 1)[0].split()[1:]
    ]
    return {"steal": fields[7] if len(fields) > 7 else 0, "all": sum(fields[:8])}


def _steal(before: Mapping[str, int], after: Mapping[str, int]) -> Finding:
    ticks = after["all"] - before["all"]
    share = (after["steal"] - before["steal"]) / ticks if ticks > 0 else 0.0
    values = {"steal_ratio": share}
    says = f"{share:.1%} of processor time was stolen by a hypervisor during the self-test"
    if share <= 0.01:
        return Finding("noise.steal", GROUP, "yes", says, values=values)
    return Finding(
        "noise.steal", GROUP, "limited", says, "use a machine with processors of its own", values=values
    )
