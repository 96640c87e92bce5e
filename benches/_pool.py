"""Requests through a pool in the simulator: five guests with 20 vCPUs each on 20 processors, 90 % of them busy.

Each guest has a client of its own beside the pool, on the same virtual switch. Demands are exponential with a mean of 9
ms, three slices of 3 ms, and arrivals are Poisson. No row is kept, and times go into histograms.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from virtlab.experiment import load
from virtlab.planner import plan_run
from virtlab.planner.queues.ports import all_ports, with_port_links
from virtlab.simulator.lower import lower
from virtlab.simulator.pools import SLICE, supplied

GUESTS, RATE_PER_S = 5, 400
EVENTS_AT_ONCE = 500_000
ROLE = (
    "  r{n}: {{workload: request_response, from: h1.client{n}, to: h1.app{n}, protocol: {protocol}, rate: {rate} request/s, "
    "arrivals: poisson, demand: 9 ms, demand_distribution: exponential, subtasks: {subtasks}, threads: 256, "
    "backlog: 10000, connections: 512, timeout: 60 s, duration: {seconds:g} s}}\n"
)
FILE = """
version: 1
name: pool
hosts:
  h1:
    pools: {cores: {cpus: 20}, clients: {cpus: 1}}
    guests:
      app: {count: 5, platform: qemu, vcpus: 20, pool: cores}
      client: {count: 5, platform: namespace, pool: clients}
timing: {together: true}
collect: {packets: []}
limits: {run: 100000 s}
roles:
"""


def requests(count: int, protocol: str = "udp", subtasks: int = 1, slice_ns: int = 0) -> dict[str, Any]:
    """Plays about so many; CPU seconds of this thread, for each ten million that were answered. `slice_ns`: vCPUs take
    turns of that length; 0: the minimal model.
    """
    from virtlab._native import Simulation

    seconds = count / (GUESTS * RATE_PER_S)
    roles = "".join(
        ROLE.format(n=n, protocol=protocol, rate=RATE_PER_S, subtasks=subtasks, seconds=seconds)
        for n in range(1, GUESTS + 1)
    )
    with TemporaryDirectory() as folder:
        file = Path(folder) / "pool.yaml"
        file.write_text(FILE + roles, encoding="utf-8")
        experiment = load(file)
        plan = plan_run(experiment, experiment.points()[0], 0)
    plan = with_port_links(plan, all_ports)
    lowered = supplied(lower(plan, 1), plan, lambda name: float(slice_ns) if name == SLICE else 0.0)
    for role in lowered["roles"]:
        role["kept"] = False
    world = Simulation(json.dumps(lowered))
    begun = time.thread_time()
    while not world.play(EVENTS_AT_ONCE):
        pass
    cpu_s = time.thread_time() - begun
    delays_ns = {name: world.delay_ns(ratio) for name, ratio in (("p50", 0.5), ("p99", 0.99))}
    found = world.outcome()
    if found["reasons"]:
        raise AssertionError(found["reasons"])
    (counters,) = (columns for _, schema, columns in found["tables"] if schema == "counter/1")
    answered = sum(
        int(value)
        for counter, value in zip(counters["counter"], counters["value"], strict=True)
        if counter == "answered_requests"
    )
    return {
        "value": round(1e7 * cpu_s / answered, 1), "requests": answered, "protocol": protocol, "subtasks": subtasks,
        "slice_ns": slice_ns,
        "cpu_s": round(cpu_s, 2), "events_per_request": round(found["events"] / answered, 2), "response_time_ns": delays_ns,
    }  # fmt: skip
