"""Records what a soft switch does with real packets, for `tests/golden/switch`:
`python -m tests.testbed.record_switch pie`.

Host h1 sends datagrams of two sizes and several classes to h2, twice as many as the line takes, and h2 answers that
nothing listens there. A recording is kept by hand, once it holds what it is for: waits, drops, marks.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tests.testbed import switch_world as worlds

RATE_BIT_PER_S = 2_000_000
FRAMES = 190
OVERLOAD = 1.5
QUEUES: dict[str, dict[str, Any]] = {
    "pie": {
        "kind": "pie",
        "limit_packets": 60,
        "parameters": {
            "target_ns": 2_000_000, "tupdate_ns": 5_000_000, "alpha": 1, "beta": 20, "ecn": True, "seed": 9,
        },
    }
}  # fmt: skip
# Frames, the time between two, and h2's address: payloads of 1400 B and, every fourth, of 200 B; their first class is
# no ECN transport, the second is (RFC 3168).
SEND = """
import socket, sys, time
count, gap, address = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3]
ends = {}
for tos in (0x10, 0x02):
    ends[tos] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    ends[tos].setsockopt(socket.IPPROTO_IP, socket.IP_TOS, tos)
begin = time.monotonic()
for number in range(count):
    time.sleep(max(0.0, begin + number * gap - time.monotonic()))
    tos = (0x10, 0x02)[number % 3 > 0]
    try:
        ends[tos].sendto(b"x" * (200 if number % 4 == 3 else 1400), (address, 5000 + tos))
    except ConnectionRefusedError:
        pass  # what the datagram before it met
"""


def recorded(queue: dict[str, Any]) -> dict[str, Any]:
    """Layout, ports, arrivals and departures."""
    layout = {
        "ports": ["h1.up", "h2.up"],
        "links": {
            "l": {
                "ends": ["h1.up", "h2.up"],
                "rate_bit_per_s": RATE_BIT_PER_S,
                "queue": {"ab": queue, "ba": {}},
            }
        },
    }
    with worlds.world() as world:
        ports = worlds.two_hosts(world)
        switch = world.switch()
        switch.ask("configure", ports=ports, links=layout["links"], spin="auto", mtu_bytes=1500)
        switch.ask("start")
        switch.ask("record", frames=4000)
        gap_s = 1450 * 8 / RATE_BIT_PER_S / OVERLOAD
        code = worlds.python_inside(world, "h1", SEND, str(FRAMES), str(gap_s), worlds.HOSTS["h2"][0])

        subprocess.run(code, check=True, timeout=60)
        time.sleep(1)
        return {"layout": layout, **switch.ask("recorded")}


def main() -> None:
    """Writes a recording beside the others."""
    kind = sys.argv[1]
    found = recorded(QUEUES[kind])
    out = Path(__file__).parents[1] / "golden" / "switch" / f"recorded-{kind.replace('_', '-')}.json"
    head = {"layout": found["layout"], "ports": found["ports"]}
    parts = [json.dumps(head, separators=(",", ":"))[:-1]]
    for key in ("arrivals", "departures"):
        rows = ",\n".join(json.dumps(row, separators=(",", ":")) for row in found[key])
        parts.append(f'"{key}":[\n{rows}]')
    out.write_text(",\n".join(parts) + "}\n", encoding="utf-8")
    marked = sum(1 for row in found["departures"] if row[4])
    sys.stdout.write(
        f"{len(found['arrivals'])} came, {len(found['departures'])} left, {marked} of them marked\n"
    )


if __name__ == "__main__":
    main()
