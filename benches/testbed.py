"""How fast worlds are built and gone: guests on one switch, up when the last guest answers an echo.

The peer builds the same objects with one `ip` per object and with one `ip -batch`, for fewer guests, in the same call.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from virtlab.plan import Plan
from virtlab.testbed.build import apply
from virtlab.testbed.leader import Leader
from virtlab.testbed.lower import lower
from virtlab.testbed.machine import findings

GONE_TIMEOUT_S = 20.0
PEER_GUESTS = 20
SLAB = Path("/proc/slabinfo")
SHRINK = Path("/sys/kernel/slab/net_namespace/shrink")


class _Silent:
    def progress(self, what: str, done_ratio: float | None = None) -> None:
        """Nothing to tell."""

    def cancelled(self) -> bool:
        """Never."""
        return False


def star(guests: int) -> Plan:
    """Guests on one virtual switch, without roles."""
    vnics = {
        f"g{number}": {
            "platform": "namespace",
            "host": "h",
            "vnics": {
                "eth0": {
                    "vswitch": "h.br",
                    "mac": f"02:00:00:00:{number >> 8:02x}:{number & 255:02x}",
                    "ip": [f"10.0.{number >> 8}.{number & 255}/16"],
                }
            },
        }
        for number in range(1, guests + 1)
    }
    return Plan.model_validate(
        {
            "world": {
                "hosts": {"h": {}},
                "guests": vnics,
                "vswitches": {"h.br": {"kind": "linux_bridge", "host": "h"}},
            }
        }
    )


def network_namespaces() -> int | None:
    """Network namespaces that the kernel holds on the whole machine; None when it does not say.

    A slab counts what lies in its per-CPU caches as in use, until it is shrunk.
    """
    try:
        SHRINK.write_text("1", encoding="ascii")
        lines = SLAB.read_text(encoding="ascii").splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) for line in lines if line.startswith("net_namespace ")), None)


def up_and_gone(guests: int) -> tuple[float, float | None]:
    """Seconds until the last guest answers, and until every namespace is gone (None: cannot be seen here)."""
    plan = star(guests)
    before = network_namespaces()
    begin = time.monotonic()
    leader = Leader.start()
    try:
        lowered = lower(plan, findings().machine)
        apply(leader.control, lowered.steps, _Silent())
        ask = {
            "namespace": lowered.guests["g1"],
            "to": str(plan.world.guests[f"g{guests}"].vnics["eth0"].ip[0]).split("/")[0],
            "ip_packet_bytes": 84,
        }
        answer = leader.control.call("ping", {"pairs": [ask], "deadline_ns": 10**10}, timeout_s=20)
        up_s = time.monotonic() - begin
        assert answer["answers"] != [None], "the last guest did not answer"
    finally:
        gone_begin = time.monotonic()
        leader.end()
    if before is None:
        return up_s, None
    while (held := network_namespaces()) is not None and held > before:
        if time.monotonic() - gone_begin > GONE_TIMEOUT_S:
            break
        time.sleep(0.002)
    return up_s, time.monotonic() - gone_begin


def _peer(guests: int, *, batched: bool) -> float | None:
    """The same with iproute2, in a namespace of its own that ends with it; seconds, None when it cannot be run."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        return None
    lines = ["link add name br0 type bridge", "link set dev br0 up"]
    for number in range(1, guests + 1):
        lines += [
            f"netns add vlb{number}",
            f"link add name v{number} master br0 type veth peer name eth0 netns vlb{number}",
            f"link set dev v{number} up",
            f"-n vlb{number} link set dev eth0 up",
            f"-n vlb{number} addr add 10.0.{number >> 8}.{number & 255}/16 dev eth0",
        ]
    if batched:
        # A batch cannot change namespace: what is done inside the guests takes one call each.
        outside = "\n".join(line for line in lines if not line.startswith("-n"))
        inside = "\n".join(f"ip {line}" for line in lines if line.startswith("-n"))
        script = f"ip -batch - <<'X'\n{outside}\nX\n{inside}\n"
    else:
        script = "\n".join(f"ip {line}" for line in lines)
    ping = f"ip netns exec vlb1 ping -c1 -W2 10.0.{guests >> 8}.{guests & 255} >/dev/null"
    script = f"set -e\nmount -t tmpfs none /run\nmkdir -p /run/netns\n{script}\n{ping}\n"
    begin = time.monotonic()
    done = subprocess.run(["unshare", "-n", "-m", "bash", "-c", script], capture_output=True, check=False)
    return time.monotonic() - begin if done.returncode == 0 else None


def bench() -> Iterator[dict[str, Any]]:
    """JSON lines: name, value, unit, the ratio to the peer (ours per guest / the peer's per guest) and the peer."""
    ones, batches, ups, gones = [], [], [], []
    for _ in range(3):
        up_s, gone_s = up_and_gone(200)
        ups.append(up_s)
        if gone_s is not None:
            gones.append(gone_s)
        if (one := _peer(PEER_GUESTS, batched=False)) is not None:
            ones.append(one)
        if (batch := _peer(PEER_GUESTS, batched=True)) is not None:
            batches.append(batch)
    up_s = min(ups)
    yield _line("testbed.up.200", up_s, "s", up_s / 200, ones, "one ip per object")
    yield _line("testbed.up.200", up_s, "s", up_s / 200, batches, "ip -batch")
    if gones:
        yield {
            "name": "testbed.gone.200",
            "value": min(gones),
            "unit": "s",
            "ratio": None,
            "peer": "none: 0.5 s is the goal",
        }
    else:
        yield {
            "name": "testbed.gone.200",
            "value": None,
            "unit": "s",
            "ratio": None,
            "peer": "missing: /proc/slabinfo needs root",
        }
    many_s, _ = up_and_gone(1000)
    yield {
        "name": "testbed.up.1000",
        "value": many_s,
        "unit": "s",
        "ratio": many_s / (5 * up_s),
        "peer": "5 x 200 guests (linear = 1)",
    }


def _line(
    name: str, value: float, unit: str, per_guest: float, peer_s: list[float], peer: str
) -> dict[str, Any]:
    if not peer_s:
        return {
            "name": name,
            "value": value,
            "unit": unit,
            "ratio": None,
            "peer": f"missing: {peer} (needs root and iproute2)",
        }
    return {
        "name": name,
        "value": value,
        "unit": unit,
        "ratio": per_guest / (min(peer_s) / PEER_GUESTS),
        "peer": peer,
    }


if __name__ == "__main__":
    import json

    for line in bench():
        print(json.dumps(line), flush=True)
