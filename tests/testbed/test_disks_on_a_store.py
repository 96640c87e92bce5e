"""Disks of virtual machines on a store: what is written is read again, also once a node was wiped, and it is
counted.
"""

from __future__ import annotations

import machine_world as machines
import pytest
import testbed_world as worlds

from virtlab.experiment import load_text
from virtlab.plan import Plan, Trial
from virtlab.planner import plan_run
from virtlab.testbed import Testbed

pytestmark = [
    pytest.mark.skipif(machines.missing() is not None, reason=str(machines.missing())),
    pytest.mark.timeout(300),
]
BLOCK = 65_536
SIZE = 16 * BLOCK
# Blocks are written whole and in part, across their borders, and read past what the kernel holds.
WRITE = (
    "head -c 327680 /dev/urandom >/tmp/a; head -c 5120 /dev/urandom >/tmp/b; "
    "dd if=/tmp/a of=/dev/vda bs=64k seek=2 oflag=direct 2>/dev/null; "
    "dd if=/tmp/b of=/dev/vda bs=2560 seek=76 oflag=direct 2>/dev/null; "
    "dd if=/tmp/b of=/tmp/a bs=512 seek=124 conv=notrunc 2>/dev/null; "
)
READ = "dd if=/dev/vda bs=64k skip=2 count=5 iflag=direct 2>/dev/null | cmp - /tmp/a"
ZEROS = " && dd if=/dev/vda bs=64k count=2 iflag=direct 2>/dev/null | tr -d '\\0' | wc -c | grep -qx 0"


def planned() -> Plan:
    text = f"""
version: 1
name: disks-on-a-store
hosts:
  h1: {{guests: {{client: {{}}}}}}
  h2: {{platform: qemu, guests: {{app: {{disk: {{size: {SIZE} B, medium: service, service: depot}}}}}}}}
  h3: {{guests: {{n1: {{disk: {{size: 64 MiB}}}}, n2: {{disk: {{size: 64 MiB}}}}, n3: {{disk: {{size: 64 MiB}}}}}}}}
topology: {{shape: star, switches: 1}}
link: {{rate: 1 Gbit/s}}
services:
  depot: {{kind: store, on: [h3.n1, h3.n2, h3.n3], copies: 3, lookup: elastic_hash, timeout: 1 s}}
  app: {{kind: demand_server, on: h2.app, demand: 10 us, write: 4 KiB, write_mode: fsync}}
roles:
  load: {{workload: request_response, from: h1.client, to: app, rate: 20 request/s, connections: 2, duration: 1 s}}
timeline:
  - {{id: write, do: exec, guest: h2.app, argv: [sh, -c, "{WRITE}{READ}{ZEROS}"]}}
  - {{id: lose, do: call, service: depot, op: wipe_node, args: {{guest: h3.n2}}, after: write.done}}
  - {{id: whole, do: wait, until: {{call: depot.recovered}}, timeout: 20 s, on_timeout: fail, after: lose.done}}
  - {{id: read, do: exec, guest: h2.app, argv: [sh, -c, "{READ}"], after: whole.done}}
  - {{id: load, do: run, role: load, after: read.done}}
collect: {{counters: [disks]}}
"""
    experiment = load_text(text.replace("\\0", "\\\\0"))
    return plan_run(experiment, next(iter(experiment.points())), 0)


def test_a_machine_reads_what_it_wrote_from_the_store_and_a_server_writes_there() -> None:
    plan = planned()
    backend = Testbed()
    assert backend.check(plan) == []
    with backend.open(plan, worlds.Patient()) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    begin, end = sink.counters("begin"), sink.counters("end")

    def counted(name: str) -> int:
        return end["guests.h2.app.disk", name] - begin["guests.h2.app.disk", name]

    writes = sink.counters("stop")["load/client", "answered_requests"]
    assert writes > 0
    # What its kernel held of the smaller ones goes to the disk in whole pages.
    assert counted("disk_writes") >= 5 + 1 + writes
    assert counted("disk_written_bytes") >= 5 * BLOCK + 5120 + 4096 * writes
    assert counted("disk_reads") >= 5 + 2 + 5
    assert counted("disk_write_ns") > 0
