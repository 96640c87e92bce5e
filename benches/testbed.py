"""How fast worlds are built and gone: guests on one switch, up when the last guest answers an echo.

The peer builds the same objects with one `ip` per object and with one `ip -batch`, for fewer guests, in the same call.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from virtlab.agents.requests.leader import Ping
from virtlab.cli.startup import lighten
from virtlab.plan import Plan, Unobserved
from virtlab.testbed.build.lower import lower
from virtlab.testbed.build.machine import findings
from virtlab.testbed.build.world import apply
from virtlab.testbed.leader.process import Leader

GONE_TIMEOUT_S = 20.0
PEER_GUESTS = 20
LIMIT = Path("/proc/sys/user/max_net_namespaces")
LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNET = 0x40000000


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


def limit_namespaces(most: int) -> None:
    """Limits how many network namespaces the own user namespace may hold."""
    LIMIT.write_text(str(most), encoding="ascii")


def none_left() -> bool:
    """Whether the kernel holds no network namespace of the own user namespace: with a limit of one, one can be made.

    The kernel counts one off when it has removed it with everything in it; other users' namespaces are not counted.
    """
    child = os.fork()
    if child == 0:
        os._exit(0 if LIBC.unshare(CLONE_NEWNET) == 0 else 1)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def wait_for_none() -> float:
    """Seconds until every network namespace of the own user namespace is gone."""
    begin = time.monotonic()
    limit_namespaces(1)
    while not none_left():
        if time.monotonic() - begin > GONE_TIMEOUT_S:
            raise TimeoutError(f"namespaces are left after {GONE_TIMEOUT_S:g} s")
        time.sleep(0.005)
    return time.monotonic() - begin


def empties_gone(count: int) -> float:
    """Seconds until empty namespaces are gone: what the kernel takes with nothing of ours in them."""
    wait_for_none()
    limit_namespaces(count + 1)  # the one that none_left made may still be there
    ready, told = os.pipe()
    child = os.fork()
    if child == 0:
        held = []
        for _ in range(count):
            if LIBC.unshare(CLONE_NEWNET) != 0:
                os._exit(1)
            held.append(os.open("/proc/thread-self/ns/net", os.O_RDONLY))
        os.write(told, b"x")
        os.kill(os.getpid(), signal.SIGSTOP)
    os.close(told)  # a child that made none ends the pipe
    if os.read(ready, 1) != b"x":
        raise OSError("the namespaces could not be made")
    begin = time.monotonic()
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    wait_for_none()
    return time.monotonic() - begin


def up_and_gone(guests: int) -> tuple[float, float, float]:
    """Seconds until the last guest answers; until every process is dead; until every namespace is gone."""
    plan = star(guests)
    machine = findings().machine
    wait_for_none()
    limit_namespaces(guests + 100)
    begin = time.monotonic()
    leader = Leader.start()
    try:
        lowered = lower(plan, machine)
        apply(leader.control, lowered.steps, Unobserved())
        ask = {
            "namespace": lowered.guests["g1"],
            "to": str(plan.world.guests[f"g{guests}"].vnics["eth0"].ip[0]).split("/")[0],
            "ip_packet_bytes": 84,
        }
        answer = leader.control.call(Ping(pairs=[ask], deadline_ns=10**10), timeout_s=20)
        up_s = time.monotonic() - begin
        assert answer["answers"] != [None], "the last guest did not answer"
    finally:
        gone_begin = time.monotonic()
        leader.end()
    dead_s = time.monotonic() - gone_begin
    wait_for_none()
    return up_s, dead_s, time.monotonic() - gone_begin


def _apart(what: str, guests: int) -> list[float]:
    """Measures in a user namespace of its own, where the kernel counts nobody else's namespaces."""
    argv = ["unshare", "--user", "--map-root-user", sys.executable, __file__, what, str(guests)]
    done = subprocess.run(argv, capture_output=True, check=True, text=True)
    return [float(word) for word in done.stdout.split()]


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
    ones, batches, ups, deads, gones, empties = [], [], [], [], [], []
    for _ in range(3):
        up_s, dead_s, gone_s = _apart("world", 200)
        ups.append(up_s)
        deads.append(dead_s)
        gones.append(gone_s)
        empties += _apart("empty", 200)
        if (one := _peer(PEER_GUESTS, batched=False)) is not None:
            ones.append(one)
        if (batch := _peer(PEER_GUESTS, batched=True)) is not None:
            batches.append(batch)
    up_s = min(ups)
    yield _line("testbed.up.200", up_s, "s", up_s / 200, ones, "one ip per object")
    yield _line("testbed.up.200", up_s, "s", up_s / 200, batches, "ip -batch")
    yield {
        "name": "testbed.dead.200",
        "value": min(deads),
        "unit": "s",
        "ratio": None,
        "peer": "none: every process is dead",
    }
    yield {
        "name": "testbed.gone.200",
        "value": min(gones),
        "unit": "s",
        "ratio": min(gones) / min(empties),
        "peer": "the kernel with 200 empty namespaces",
        "goal": "<= 0.5",
    }
    many_s = min(_apart("world", 1000)[0] for _ in range(2))
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

    if sys.argv[1:2] == ["world"]:
        lighten()  # as the command does
        print(*up_and_gone(int(sys.argv[2])))
    elif sys.argv[1:2] == ["empty"]:
        print(empties_gone(int(sys.argv[2])))
    else:
        for line in bench():
            print(json.dumps(line), flush=True)
