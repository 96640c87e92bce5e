"""Disks of namespaces and containers on a store: file systems whose content is there, that wait for it and end with
their world.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import container_world as containers
import pytest
import testbed_world as worlds
from killing import children, command, descendants
from test_stores import counted, ended
from test_testbed_privileges import ROOT, as_nobody

from virtlab.experiment import load_text
from virtlab.plan import Outcome, Plan, Trial
from virtlab.planner import plan_run
from virtlab.testbed import Testbed
from virtlab.testbed.build import stored_disks
from virtlab.testbed.build.disks import FOLDER
from virtlab.testbed.kinds import container_runtime as runtime

pytestmark = [
    pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing())),
    pytest.mark.skipif(not os.access(stored_disks.DEVICE, os.R_OK | os.W_OK), reason="no FUSE here"),
    pytest.mark.timeout(240),
]
FOR_ALL = pytest.mark.skipif(
    Path(stored_disks.DEVICE).exists() and Path(stored_disks.DEVICE).stat().st_mode & 0o6 != 0o6,
    reason=f"{stored_disks.DEVICE} is root's alone",
)
IN_CONTAINERS = pytest.mark.skipif(containers.missing() is not None, reason=str(containers.missing()))
CONTAINER = ", platform: container"
BLOCK = 65_536
SIZE = 64 * BLOCK
RUNTIMES = [name for name in runtime.RUNTIMES if shutil.which(name)]
# What a file system does: parts of files over borders of blocks, names, holes, cuts, room; then content past the cache.
WRITE = r"""
set -e
cd /var/tmp
head -c 327680 /dev/urandom >/tmp/a
cp /tmp/a a
head -c 5120 /dev/urandom >/tmp/b
for to in a /tmp/a; do dd if=/tmp/b of=$to bs=2560 seek=76 conv=notrunc,fsync 2>/dev/null; done
mkdir -p d/e
mv a d/e/f
ln d/e/f kept
ln -s d/e/f soft
cmp soft /tmp/a
for to in kept /tmp/a; do truncate -s 300001 $to; truncate -s 327680 $to; done
chmod 640 kept
test $(stat -c %a.%h.%s d/e/f) = 640.2.327680
rm -r d soft
fallocate -l 200000 room
head -c 200000 /dev/zero | cmp - room
for i in 1 2 3 4 5 6 7 8 9 10 11 12; do echo $i >many.$i; done
rm many.1?
test $(ls | wc -l) = 11
! mkdir many.1 2>/dev/null
rm room many.*
dd if=kept bs=64k iflag=direct 2>/dev/null | cmp - /tmp/a
sha256sum <kept >sum
sync kept sum
"""
READ = "cd /var/tmp && dd if=kept bs=64k iflag=direct 2>/dev/null | sha256sum | cmp - sum"
ASK = "{ask: {workload: rtt, from: h1.client, to: h1.app, count: 3}}"
FULL = "cd /var/tmp && ! dd if=/dev/zero of=full bs=64k 2>said && grep -o 'No space left' said && rm full said && df ."


def planned(timeline: str, more: str = "", roles: str = "", depot: str = "", app: str = "") -> Plan:
    text = f"""
version: 1
name: folders-on-a-store
hosts:
  h1:
    guests:
      client: {{}}
      app: {{disk: {{size: {SIZE} B, medium: service, service: depot}}{app}}}
      n1: {{disk: {{size: 64 MiB}}}}
      n2: {{disk: {{size: 64 MiB}}}}
      n3: {{disk: {{size: 64 MiB}}}}
services:
  depot: {{kind: store, on: [h1.n1, h1.n2, h1.n3], copies: 3, lookup: elastic_hash, timeout: 1 s{depot}}}
{more}
roles: {roles or ASK}
timeline:
{timeline}
collect: {{counters: [disks]}}
"""
    experiment = load_text(text)
    return plan_run(experiment, next(iter(experiment.points())), 0)


def script(name: str, words: str, after: str = "") -> str:
    quoted = words.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    told = f", after: {after}" if after else ""
    return f'  - {{id: {name}, do: exec, guest: h1.app, argv: [sh, -c, "{quoted}"]{told}}}\n'


def played(plan: Plan, sink: worlds.MemorySink | None = None) -> tuple[Outcome, worlds.MemorySink]:
    sink = sink or worlds.MemorySink()
    assert Testbed().check(plan) == []
    with Testbed().open(plan, worlds.Patient()) as session:
        disk = session.realised.objects["guests.h1.app"].read_back["disk"]
        assert (disk["file_system"], disk["size_bytes"], disk["service"]) == ("fuse", SIZE, "depot")
        return session.run(Trial("t0", 1), sink), sink


def written_and_read(app: str = "") -> None:
    wiped = (
        "  - {id: lose, do: call, service: depot, op: wipe_node, args: {guest: h1.n2}, after: full.done}\n"
        "  - {id: whole, do: wait, until: {call: depot.recovered}, timeout: 20 s, on_timeout: fail, after: lose.done}\n"
    )
    timeline = script("write", WRITE) + script("full", FULL, "write.done") + wiped
    outcome, sink = played(planned(timeline + script("read", READ, "whole.done"), app=app))
    said = {name: content.decode(errors="replace") for name, content in sink.artefacts.items()}
    assert outcome.status in {"ok", "tainted"}, (outcome.reasons, said)
    begin, end = sink.counters("begin"), sink.counters("end")

    def of_disk(name: str) -> int:
        return end["guests.h1.app.disk", name] - begin["guests.h1.app.disk", name]

    assert of_disk("disk_written_bytes") >= 327_680 + 5120 + SIZE - 7 * BLOCK, "the disk was filled, too"
    assert of_disk("disk_read_bytes") >= 2 * 300_001, "what was cut is zeros, of which nothing is read"
    assert of_disk("disk_flushes") >= 3
    assert of_disk("disk_write_ns") > 0
    assert of_disk("disk_lost_blocks") == 0
    assert not Path(FOLDER, "kept").exists(), "nothing of it is on this machine"


def test_a_guest_reads_what_it_wrote_from_the_store_also_once_a_node_was_wiped() -> None:
    written_and_read()


@IN_CONTAINERS
@pytest.mark.parametrize("name", RUNTIMES)
def test_so_does_a_container_by_every_runtime(name: str) -> None:
    written_and_read(f"{CONTAINER}, runtime: {name}")


@ROOT
@IN_CONTAINERS
def test_so_does_a_container_whose_users_are_its_own() -> None:
    written_and_read(f"{CONTAINER}, runtime: runc, user_namespace: own")


@ROOT
@FOR_ALL
@pytest.mark.parametrize("app", ["", pytest.param(CONTAINER, marks=IN_CONTAINERS)])
def test_an_ordinary_users_guests_have_the_same(app: str) -> None:
    written_and_read(app)  # loads what the interpreter has where only root reads
    assert as_nobody(lambda: written_and_read(app)) == ""


@pytest.mark.parametrize("platform", ["", pytest.param(CONTAINER, marks=IN_CONTAINERS)])
def test_servers_and_roles_of_files_work_on_it_as_on_any_disk(platform: str) -> None:
    roles = """
  load: {workload: request_response, from: h1.client, to: app, rate: 20 request/s, connections: 2, duration: 1 s}
  files: {workload: files, from: h1.app, threads: 4, count: 200, size: {3 kB: 1, 90 kB: 1}, sync: fsync,
          operations: {create: 2, read: 4, overwrite: 2, delete: 1, stat: 1, open: 1, list: 1}}
  past: {workload: files, from: h1.app, threads: 2, count: 40, size: 64 KiB, direct: true,
         operations: {create: 1, read: 1}}"""
    app = "  app: {kind: demand_server, on: h1.app, demand: 10 us, write: 4 KiB, write_mode: fsync}"
    timeline = (
        "  - {id: load, do: run, role: load}\n  - {id: files, do: run, role: files, after: load.done}\n"
        "  - {id: past, do: run, role: past, after: files.done}"
    )
    outcome, sink = played(planned(timeline, app, roles, app=platform))
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    begin, end = sink.counters("begin"), sink.counters("end")
    writes = sink.counters("stop")["load/client", "answered_requests"]
    assert writes > 0
    for role, count in (("files", 200), ("past", 40)):
        did, told = ended(sink, role), counted(sink, role)
        assert sum(number for (_, ending), number in did.items() if ending == "done") == count
        wrong = ("failed_operations", "wrong_operations", "lost_objects", "stale_objects", "left_files")
        assert [told[name] for name in wrong] == [0] * 5, told
    of_disk = end["guests.h1.app.disk", "disk_writes"] - begin["guests.h1.app.disk", "disk_writes"]
    assert of_disk >= writes + 20


def test_a_write_waits_for_a_store_that_is_away_and_is_done_when_that_is_back() -> None:
    timeline = (
        "  - {id: lose, do: call, service: depot, op: fail_node, args: {guest: h1.n2}}\n"
        "  - {id: heal, do: call, service: depot, op: heal, args: {guest: h1.n2}, after: lose.done + 2 s}\n"
    ) + script("write", "cd /var/tmp && echo a >a && sync a", "lose.done")
    outcome, sink = played(planned(timeline, depot=", write_quorum: 3"))
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert outcome.marks["write.finished"].t_ns - outcome.marks["lose.done"].t_ns >= 2_000_000_000
    assert sink.counters("end")["guests.h1.app.disk", "disk_retries"] >= 1, "it was given up after a second"


def away(words: str, app: str = "") -> Plan:
    """One of three nodes stays away until long after the run has to end."""
    timeline = (
        "  - {id: lose, do: call, service: depot, op: fail_node, args: {guest: h1.n2}}\n"
        "  - {id: heal, do: call, service: depot, op: heal, args: {guest: h1.n2}, after: lose.done + 1 h}\n"
    ) + script("write", words, "lose.done")
    plan = planned(timeline, depot=", write_quorum: 3", app=app)
    return plan.model_copy(update={"limits": plan.limits.model_copy(update={"run_ns": 3_000_000_000})})


def test_who_waits_for_a_store_that_is_away_ends_with_its_run() -> None:
    begun = time.monotonic()
    outcome, _ = played(away("cd /var/tmp; for i in 1 2 3 4; do echo a >$i & done; wait"))
    assert outcome.status == "failed"
    assert any("limit" in reason for reason in outcome.reasons), outcome.reasons
    assert time.monotonic() - begun < 30


@pytest.mark.parametrize("app", ["", pytest.param(CONTAINER, marks=IN_CONTAINERS)])
def test_who_is_killed_does_not_wait_for_the_store(app: str) -> None:
    kills = "cd /var/tmp; (echo a >a; echo b >b) & sleep 0.5; kill -9 $!; wait $!; echo ended: $?"
    outcome, sink = played(away(kills, app))
    assert outcome.status == "failed", "the store stays away, and the run comes to its limit"
    assert sink.artefacts["write.out"].decode() == "ended: 137\n"


def serving() -> int:
    """The thread of a leader below this process that serves a disk."""
    leaders = [pid for pid in descendants(os.getpid()) if " leader " in command(pid)]
    for pid in sorted(leaders, reverse=True):
        for task in Path(f"/proc/{pid}/task").iterdir():
            if (task / "comm").read_text() == "disk\n":
                return int(task.name)
    raise AssertionError(f"no leader among {children(os.getpid())} serves a disk")


# In the mounts of the guest: a program for that looks into /proc, which is of the world's processes there.
UNMOUNT = """
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
assert libc.setns(os.open(f"/proc/{sys.argv[1]}/ns/mnt", os.O_RDONLY), 0) == 0
libc.umount2(b"/var/tmp", int(sys.argv[2]))
"""
FORCE, DETACH = 1, 2


def unmounted(how: int, words: str) -> tuple[Outcome, worlds.MemorySink]:
    def unmount() -> None:
        subprocess.run([sys.executable, "-c", UNMOUNT, str(serving()), str(how)], check=True)

    return played(planned(script("measure", words)), worlds.ActingSink(unmount))


def tells_of_the_disk(outcome: Outcome) -> bool:
    where = "guests.h1.app.disk: it is mounted no more at /var/tmp"
    return outcome.status == "failed" and any(where in reason for reason in outcome.reasons)


@ROOT
def test_a_disk_that_is_unmounted_in_mid_run_fails_the_run_by_its_name() -> None:
    outcome, _ = unmounted(DETACH, "sleep 2")
    assert tells_of_the_disk(outcome), outcome.reasons


@ROOT
def test_a_guest_whose_disk_is_given_up_gets_errors_and_does_not_hang() -> None:
    outcome, sink = unmounted(FORCE, "cd /var/tmp; while echo a >a; do sleep 0.05; done; echo refused")
    assert tells_of_the_disk(outcome), outcome.reasons
    assert sink.artefacts["measure.out"].decode().endswith("refused\n")


def test_a_machine_without_the_device_refuses_it_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_disks, "DEVICE", "/dev/none")
    [refusal] = Testbed().check(planned(script("write", "true")))
    assert refusal.path == "guests.h1.app.disk.medium"
    assert refusal.reason.endswith("/dev/none cannot be opened: No such file or directory")
    assert "load the kernel module 'fuse'" in refusal.cure
