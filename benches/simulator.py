"""The simulator's speed: hosts on one switch, each sending to its neighbour at half of its link, statistics on.

100 Mbit/s, queues of 100 packets, 1500 B IP packets, one every 246.08 us per host. Nobody shares a link, so every one-way
delay must be two serialisations, 244.16 us: the bench fails when it is not.
"""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Iterator
from typing import Any

from virtlab._native import Simulation

from virtlab.plan import Plan
from virtlab.simulator.lower import lower

RATE_BIT_PER_S = 48_764_630  # of IP packets: 12,000 bits every 246.08 us
SECONDS = 2
DELAY_NS = 244_160


def star(hosts: int, *, keep: bool) -> Plan:
    """Hosts on one switch; `keep` has every packet's row kept."""
    names = [f"g{number}" for number in range(hosts)]
    guests = {
        name: {"platform": "native", "host": f"h{n}", "vnics": {"eth0": {
            "uplink": f"h{n}.up", "mac": f"02:00:00:00:{n // 256:02x}:{n % 256:02x}",
            "ip": [f"10.0.{n // 200}.{n % 200 + 1}/16"],
        }}}
        for n, name in enumerate(names)
    }  # fmt: skip
    roles = {
        f"r{n}": {
            "workload": "udp_stream", "from": name, "to": names[(n + 1) % hosts], "ip_packet_bytes": 1500,
            "rate_bit_per_s": RATE_BIT_PER_S, "duration_ns": SECONDS * 10**9,
        }
        for n, name in enumerate(names)
    }  # fmt: skip
    wait = {"id": "wait", "do": "wait", "for_ns": (SECONDS + 1) * 10**9}
    starts = [
        {"id": f"a{n}", "do": "start", "role": f"r{n}", "after": {"event": "wait.started", "plus_ns": n * 246_080 // hosts}}
        for n in range(hosts)
    ]  # fmt: skip
    return Plan.parse(
        json.dumps(
            {
                "schema": "virtlab.plan/1",
                "world": {
                    "hosts": {f"h{n}": {} for n in range(hosts)},
                    "guests": guests,
                    "switches": {"s": {}},
                    "links": {
                        f"l{n}": {"ends": [f"h{n}.up", f"s.p{n}"], "rate_bit_per_s": 10**8}
                        for n in range(hosts)
                    },
                },
                "roles": roles,
                "timeline": [wait, *starts],
                "collect": {"packets": list(roles) if keep else []},
            }
        )
    )


def played(hosts: int, *, keep: bool) -> tuple[dict[str, Any], float]:
    """The outcome, and CPU seconds of playing it."""
    world = Simulation(json.dumps(lower(star(hosts, keep=keep), 1)))
    begun = time.process_time()
    world.play(2**62)
    spent_s = time.process_time() - begun
    return world.outcome(), spent_s


def bench() -> Iterator[dict[str, Any]]:
    """Delivered packets per CPU second on one thread, for two sizes."""
    for hosts in (32, 128):
        outcome, spent_s = played(hosts, keep=False)
        counters = next(columns for _, schema, columns in outcome["tables"] if schema == "counter/1")
        received = [
            int(value)
            for entity, counter, value in zip(
                counters["entity"], counters["counter"], counters["value"], strict=True
            )
            if entity.endswith("/server") and counter == "received_packets"
        ]
        kept, kept_s = played(hosts, keep=True)
        rows = [columns for _, schema, columns in kept["tables"] if schema == "packet/1"]
        delays = {int(value) for each in rows for value in set(each["received_ns"] - each["sent_ns"])}
        if delays != {DELAY_NS}:
            raise AssertionError(f"one-way delays {sorted(delays)[:5]} ns, not {DELAY_NS} ns alone")
        packets = sum(received)
        yield {
            "name": "simulator.star", "hosts": hosts, "arrivals": "constant", "unit": "packets/cpu_s",
            "value": round(packets / spent_s), "packets": packets, "events": outcome["events"],
            "cpu_s": round(spent_s, 4), "packets_per_cpu_s": round(packets / spent_s),
            "with_rows_packets_per_cpu_s": round(packets / kept_s), "delay_ns": sorted(delays),
            "peak_rss_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }  # fmt: skip
