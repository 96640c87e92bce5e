"""Swift and Gluster themselves, in real guests: every answer is right, and what is lost comes back.

`make stores` runs all of it. `make test` has a small form of each where its packages are installed.
"""

from __future__ import annotations

import json
import os
import signal
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import process_world as processes
import pytest
import testbed_world as worlds
from test_stores import counted, ended, played

from virtlab.catalogue.workloads.objects import ENDINGS
from virtlab.cli.main import main
from virtlab.experiment import load_text
from virtlab.plan import Plan
from virtlab.planner import plan_run
from virtlab.testbed.image.rootfs import find_rootfs
from virtlab.testbed.services import gluster, swift
from virtlab.testbed.services.installed import missing, missing_of

pytestmark = [
    pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing())),
    pytest.mark.skipif(os.geteuid() != 0, reason="a real store needs root"),
]


on_demand = pytest.mark.skipif(
    os.environ.get("VIRTLAB_TEST_STORES") != "1", reason="'make stores' runs it on demand"
)


def installed(packages: dict[str, str]) -> Any:
    lacking = missing(packages)
    return pytest.mark.skipif(bool(lacking), reason=f"not installed: {' '.join(lacking)}")


of_swift, of_gluster = installed(swift.PACKAGES), installed(gluster.PACKAGES)
of_image = pytest.mark.skipif(
    find_rootfs("swift") is None or bool(missing_of("swift", swift.PACKAGES)),
    reason="on demand: no image 'swift' with its packages (docs/howto/run-containers.md)",
)
of_kernel = pytest.mark.skipif(
    swift.kernel() < swift.ATTRIBUTES_SINCE, reason="this kernel's disks in memory have no attributes"
)

GUESTS = "client: {disk: {size: 16 MiB}}, proxy: {}, " + ", ".join(
    f"n{number}: {{disk: {{size: 128 MiB}}}}" for number in range(1, 5)
)
SWIFT = "{kind: swift, on: [h1.n1, h1.n2, h1.n3], proxies: h1.proxy, copies: 3, ready: {timeout: 90 s}%s}"
GLUSTER = "{kind: gluster, on: [h1.n1, h1.n2], clients: h1.client, copies: 2, ready: {timeout: 90 s}}"
TWO_CLIENTS = GLUSTER.replace("clients: h1.client", "clients: [h1.client, h1.reader]")
OBJECTS = "workload: objects, from: h1.client, to: depot, folder: same, duration: 60 s"
FILES = "workload: files, from: h1.client, directory: /var/tmp/depot, folder: same, duration: 60 s"
MIX = "{create: 1, read: 4, overwrite: 2, delete: 1, stat: 2}"
THEN = """
  - {id: fill, do: run, role: fill}
  - {id: load, do: run, role: load, after: fill.finished}"""


LAST = """
  - {id: lose, do: call, service: depot, op: wipe_node, args: {guest: h1.n1}, after: %s}
  - {id: whole, do: wait, until: {call: depot.recovered}, timeout: %s, on_timeout: censor, after: lose.done}"""
LOSE = THEN + LAST % ("fill.finished", "90 s")  # while clients are at work
QUIET = LOSE.replace("load, after: fill.finished", "load, after: whole.done")


def written(service: str, roles: str, timeline: str = THEN, guests: str = GUESTS) -> str:
    return f"""
version: 1
name: real-stores
hosts: {{h1: {{guests: {{{guests}}}}}}}
services: {{depot: {service}}}
roles:
{roles}
timeline:{timeline}
"""


def planned(service: str, roles: str, timeline: str = THEN, guests: str = GUESTS) -> Plan:
    experiment = load_text(written(service, roles, timeline, guests))
    return plan_run(experiment, experiment.points()[0], 0)


def roles_of(kind: str, count: int = 60) -> str:
    return (
        f"  fill: {{{kind}, operations: create, count: {count}, threads: 4, size: 10 kB}}\n"
        f"  load: {{{kind}, operations: {MIX}, count: 300, threads: 4, size: {{3 kB: 1, 40 kB: 1}}}}"
    )


def done(kinds: dict[tuple[str, str], int]) -> int:
    return sum(number for (_, found), number in kinds.items() if found == "done")


S3 = SWIFT % ", interface: s3, access_key: 'lab:client', secret_key: tested/key"
# Takes a bucket with all its objects away, by a token and Swift's own requests.
EMPTIED = r"""
get() { curl -sf --noproxy '*' "$@"; }
token=$(get -i -H 'X-Storage-User: lab:client' -H 'X-Storage-Pass: tested/key' http://$PROXY:8080/auth/v1.0 \
    | tr -d '\r' | sed -n 's/^X-Auth-Token: //p')
bucket=http://$PROXY:8080/v1/AUTH_lab/same
for key in $(get -H "X-Auth-Token: $token" $bucket); do
    get -X DELETE -H "X-Auth-Token: $token" $bucket/$key || exit 1
done
until get -X DELETE -H "X-Auth-Token: $token" $bucket; do sleep 0.2; done
"""


SMALL = (
    """
  - {id: fill, do: run, role: fill}"""
    + LAST % ("fill.finished", "60 s")
)


def all_is_there(sink: worlds.MemorySink) -> None:
    did, own = ended(sink, "load"), counted(sink, "load")
    there = 60 + did["create", "done"] - did["delete", "done"]
    assert (own["objects"], own["lost_objects"], own["stale_objects"]) == (there, 0, 0)
    assert own["failed_operations"] == own["wrong_operations"] == own["doubtful_objects"] == 0


@on_demand
@of_swift
def test_swift_answers_rightly_and_keeps_what_was_written() -> None:
    outcome, sink = played(planned(SWIFT % "", roles_of(OBJECTS)))
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert ended(sink, "fill") == {("create", "done"): 60}
    assert done(ended(sink, "load")) == 300
    all_is_there(sink)


@on_demand
@of_swift
def test_s3_answers_rightly_and_keeps_what_was_written() -> None:
    outcome, sink = played(planned(S3, roles_of(OBJECTS)))
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert ended(sink, "fill") == {("create", "done"): 60}
    assert done(ended(sink, "load")) == 300
    all_is_there(sink)
    own = counted(sink, "load")
    assert (own["missing_copies"], own["object_copies"]) == (0, 3 * own["objects"])


@on_demand
@of_swift
@pytest.mark.parametrize("service", [SWIFT % "", S3], ids=["swift", "s3"])
def test_pages_of_names_and_opened_objects_are_right_once_all_is_written(service: str) -> None:
    """While objects are written, a listing may lag behind them; a second after that it has all."""
    roles = (
        f"  fill: {{{OBJECTS}, operations: create, count: 1200, threads: 8, size: 1 kB}}\n"
        f"  load: {{{OBJECTS}, operations: {{list: 1, open: 1, stat: 1}}, count: 200, threads: 4}}"
    )
    then = """
  - {id: fill, do: run, role: fill}
  - {id: rest, do: wait, for: 1 s, after: fill.finished}
  - {id: load, do: run, role: load, after: rest.done}"""
    outcome, sink = played(planned(service, roles, then))
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    did = ended(sink, "load")
    assert {deed for deed, _ in did} == {"list", "open", "stat"}
    assert done(did) == 200, did


@dataclass(frozen=True)
class Commanded:
    """What a run by the command left: its exit code, its record, and of the role `load` its counters and all its
    operations (`is_done`: which of them were).
    """

    code: object
    status: str
    reasons: list[str]
    marks: dict[str, int]
    sent_ns: Any
    is_done: Any
    own: dict[str, int]

    def assert_its_budget_failed(self) -> None:
        assert (self.code, self.status) == (4, "failed")
        assert any("and the error budget is 1 % of them" in reason for reason in self.reasons)


def commanded(text: str) -> Commanded:
    """`virtlab run` of one run of a file, in the folder in which this process is."""
    Path("commanded.yaml").write_text(text)
    with pytest.raises(SystemExit) as ended:
        main(["run", "commanded.yaml", "--allow-exec", "--no-report", "--max-runs", "1"])
    (run,) = Path("real-stores.results/runs").iterdir()
    record = json.loads((run / "run.json").read_text())
    with duckdb.connect() as db:
        rows = db.sql(
            f"SELECT sent_ns, outcome FROM '{run}/samples/load.operation-1.parquet' ORDER BY sent_ns"
        ).fetchnumpy()
        counters = f"SELECT counter, value FROM '{run}/samples/counters.counter-1.parquet' WHERE entity LIKE 'load/%'"
        own = dict(db.sql(counters).fetchall())
    return Commanded(
        ended.value.code,
        record["status"],
        record["reasons"],
        {name: mark["t_ns"] for name, mark in record["marks"].items()},
        rows["sent_ns"],
        rows["outcome"] == ENDINGS.index("done"),
        own,
    )


ONCE = "\nrepeat: {minimum: 1}"


@on_demand
@of_swift
def test_nothing_is_done_in_a_bucket_that_is_taken_away_in_mid_run_and_the_command_ends_with_another_code_than_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its objects go one after another, then the bucket, while a role reads them. A write finds no bucket either."""
    plan = planned(S3, roles_of(OBJECTS))
    proxy = swift.IMPLEMENTATION.client_parameters(plan, "load", plan.roles["load"])["swift"]["proxies"][0]
    script = json.dumps(EMPTIED.replace("$PROXY", proxy))
    timeline = (
        "\n  - {id: fill, do: run, role: fill}"
        "\n  - {id: load, do: start, role: load, after: fill.finished}"
        f"\n  - {{id: empty, do: exec, guest: h1.client, argv: [sh, -c, {script}], after: load.started + 1 s}}"
        "\n  - {id: late, do: run, role: late, after: empty.finished}"
        "\n  - {id: end, do: stop, role: load, after: empty.finished + 1500 ms}"
    )
    roles = (
        f"{roles_of(OBJECTS, 20).partition(chr(10))[0]}\n"
        f"  load: {{{OBJECTS}, operations: read, threads: 2, error_budget: 1 %}}\n"
        f"  late: {{{OBJECTS}, operations: create, count: 10, threads: 2, size: 1 kB}}"
    )
    monkeypatch.chdir(tmp_path)
    found = commanded(written(S3, roles, timeline + ONCE))
    found.assert_its_budget_failed()
    begun, gone = found.marks["empty.started"], found.marks["empty.finished"]
    assert found.sent_ns[found.is_done].min() < begun
    assert found.sent_ns[found.is_done].max() <= gone, "the rate is 0 from then on"
    assert (found.sent_ns[~found.is_done] > gone).sum() > 20
    own = found.own
    assert 20 < own["no_bucket_operations"] <= own["failed_operations"] + own["missing_operations"]
    assert own["lost_objects"] == own["objects"]


@on_demand
@of_swift
def test_nothing_is_done_once_the_proxy_is_killed_and_the_run_fails_by_its_service_and_its_error_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A command of the timeline is the sign by which this test, outside of the run, knows that the role is at work."""
    timeline = (
        THEN
        + "\n  - {id: sign, do: exec, guest: h1.client, argv: [sleep, '1.25'], after: load.started + 500 ms}"
    )
    load = f"  load: {{{OBJECTS}, operations: {{create: 1, read: 1}}, threads: 2, size: 1 kB, error_budget: 1 %}}"
    fill, _, _ = roles_of(OBJECTS, 20).partition("\n")
    over = threading.Event()

    def kill() -> None:
        while not processes.named(b"sleep\0001.25\0") and not over.wait(0.05):
            pass
        for pid in [] if over.is_set() else processes.named(b"swift-proxy-server"):
            os.kill(pid, signal.SIGKILL)

    monkeypatch.chdir(tmp_path)
    killer = threading.Thread(target=kill)
    killer.start()
    try:
        found = commanded(written(S3, f"{fill}\n{load.replace('60 s', '4 s')}", timeline + ONCE))
    finally:
        over.set()
        killer.join()
    found.assert_its_budget_failed()
    assert any(reason.startswith("services.depot: in h1.proxy it ended") for reason in found.reasons)
    first_failed = found.sent_ns[~found.is_done].min()
    assert found.is_done.sum() > 0
    assert found.sent_ns[found.is_done].max() <= first_failed + 100_000_000, (
        "what was under way when it was killed"
    )
    assert 0 < found.own["broken_operations"] == found.own["failed_operations"]
    assert found.own["wrong_operations"] == 0


# The span for which nobody has a valid token lasts from `revoke.done` until the role is stopped, and the last operation
# that is done may have begun before the command that revokes it has ended.
REVOKED = """
  - {id: fill, do: run, role: fill}
  - {id: load, do: start, role: load, after: fill.finished}
  - {id: revoke, do: call, service: depot, op: revoke_tokens, after: load.started + 1 s}
  - {id: end, do: stop, role: load, after: revoke.done + 1500 ms}"""


@on_demand
@of_swift
def test_nothing_is_done_once_a_token_is_revoked_in_mid_run_and_the_command_ends_with_another_code_than_0(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By two proxies, which share what they know of tokens: what one of them is not told, the other would allow."""
    service = (SWIFT % ", auth: tempauth, access_key: 'lab:client'").replace("h1.proxy", "[h1.proxy, h1.n4]")
    fill, _, _ = roles_of(OBJECTS, 20).partition("\n")
    load = f"  load: {{{OBJECTS}, operations: {{create: 1, read: 3}}, threads: 4, size: 1 kB, error_budget: 1 %}}"
    monkeypatch.chdir(tmp_path)
    found = commanded(written(service, f"{fill}\n{load}", REVOKED + ONCE))
    found.assert_its_budget_failed()
    marks, own = found.marks, found.own
    assert found.sent_ns[found.is_done].min() < marks["revoke.started"]
    assert found.sent_ns[found.is_done].max() <= marks["revoke.done"], "the rate is 0 from then on"
    assert (found.sent_ns[~found.is_done] > marks["revoke.done"]).sum() > 20
    assert own["denied_operations"] == own["failed_operations"] == (~found.is_done).sum()
    assert own["lost_objects"] == own["wrong_operations"] == 0, "all is there to who logs in again"


@on_demand
@of_swift
def test_swift_is_asked_at_a_rate_whatever_has_ended() -> None:
    load = f"  load: {{{OBJECTS}, operations: {{read: 1}}, rate: 40 request/s, count: 80, arrivals: poisson}}"
    fill = f"  fill: {{{OBJECTS}, operations: create, count: 20, threads: 2, size: 1 kB}}"
    outcome, sink = played(planned(SWIFT % "", f"{fill}\n{load}"))
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert sum(ended(sink, "load").values()) == 80


@on_demand
@of_swift
def test_swift_answers_while_a_node_is_away_and_it_comes_back() -> None:
    """Two of three copies stand before an answer, so nothing fails, and nothing is lost."""
    timeline = (
        "\n  - {id: fill, do: run, role: fill}"
        "\n  - {id: lose, do: call, service: depot, op: fail, args: {guest: h1.n2}, after: fill.finished}"
        "\n  - {id: load, do: run, role: load, after: lose.done}"
        "\n  - {id: heal, do: call, service: depot, op: heal, after: load.finished}"
    )
    service = SWIFT % ", concurrency: 2, interval: 1 s"
    outcome, sink = played(planned(service, roles_of(OBJECTS), timeline))
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    own = counted(sink, "load")
    assert (own["lost_objects"], own["stale_objects"]) == (0, 0)


def wiped(plan: Plan, role: str = "load") -> dict[str, int]:
    """Counters of a role of a run in which the wiped node has all again, and every object each of its copies."""
    outcome, sink = played(plan)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert outcome.censored == ()
    own = counted(sink, role)
    assert (own["lost_objects"], own["stale_objects"], own["wrong_operations"]) == (0, 0, 0)
    assert own["recovery_made"] == own["recovery_missing"]
    times = [own[f"recovery_{name}_ns"] for name in ("known", "first", "half", "most", "whole")]
    assert times == sorted(times)
    return own


@of_swift
@of_kernel
def test_a_small_swift_makes_again_what_a_node_lost() -> None:
    service = (
        (SWIFT % ", concurrency: 1, interval: 1 s").replace(", h1.n3]", "]").replace("copies: 3", "copies: 2")
    )
    own = wiped(planned(service, roles_of(OBJECTS, 20).partition("\n")[0], SMALL), "fill")
    assert (own["recovery_missing"], own["recovery_bytes"]) == (20, 200_000)
    assert (own["missing_copies"], own["object_copies"]) == (0, 40)


@on_demand
@of_image
def test_containers_with_an_image_of_its_packages_are_nodes_and_proxy_of_a_swift() -> None:
    inside = ", platform: container, image: swift"
    guests = f"client: {{}}, proxy: {{{inside[2:]}}}, " + ", ".join(
        f"n{number}: {{disk: {{size: 128 MiB}}{inside}}}" for number in (1, 2)
    )
    service = (
        (SWIFT % ", concurrency: 1, interval: 1 s").replace(", h1.n3]", "]").replace("copies: 3", "copies: 2")
    )
    own = wiped(planned(service, roles_of(OBJECTS, 20).partition("\n")[0], SMALL, guests), "fill")
    assert (own["recovery_missing"], own["recovery_bytes"]) == (20, 200_000)
    assert (own["missing_copies"], own["object_copies"]) == (0, 40)


@of_gluster
def test_a_small_gluster_heals_what_a_node_lost() -> None:
    own = wiped(planned(GLUSTER, roles_of(FILES, 20).partition("\n")[0], SMALL), "fill")
    assert (own["recovery_missing"], own["recovery_bytes"]) == (20, 200_000)
    assert (own["missing_copies"], own["object_copies"]) == (0, 40)


@on_demand
@of_swift
def test_what_a_node_of_swift_lost_is_made_again_by_the_others() -> None:
    """Three nodes have three copies of each of 60 objects, and nobody writes until all are there again."""
    service = SWIFT % ", concurrency: 2, interval: 1 s"
    own = wiped(planned(service, roles_of(OBJECTS), QUIET))
    assert (own["recovery_missing"], own["recovery_bytes"]) == (60, 600_000)
    assert (own["missing_copies"], own["object_copies"]) == (0, 3 * own["objects"])


@on_demand
@of_swift
def test_swift_is_asked_while_a_node_recovers() -> None:
    """Clients have created and deleted some objects when the node loses what it has."""
    service = SWIFT % ", concurrency: 2, interval: 1 s"
    assert 20 < wiped(planned(service, roles_of(OBJECTS), LOSE))["recovery_missing"] < 100


AWAY = """
  - {id: fill, do: run, role: fill}
  - {id: lose, do: call, service: depot, op: fail_node, args: {guest: h1.n1}, after: fill.finished}
  - {id: load, do: run, role: load, after: lose.done}
  - {id: heal, do: call, service: depot, op: heal, args: {guest: h1.n1}, after: load.finished}
  - {id: whole, do: wait, until: {call: depot.recovered}, timeout: 90 s, on_timeout: censor, after: heal.done}"""


@on_demand
@of_swift
def test_what_a_node_of_swift_missed_while_it_was_away_is_sent_by_the_others() -> None:
    """20 objects are made before the loss, and 30 while one of three nodes is away: it lacks these alone."""
    service = SWIFT % ", concurrency: 2, interval: 1 s"
    fill = roles_of(OBJECTS, 20).partition("\n")[0]
    own = wiped(planned(service, f"{fill}\n{fill.replace('fill:', 'load:').replace('20', '30')}", AWAY))
    assert (own["recovery_missing"], own["recovery_bytes"]) == (30, 300_000)
    assert (own["missing_copies"], own["object_copies"]) == (0, 150)


@on_demand
@of_swift
def test_a_node_of_swift_that_was_away_gets_newer_versions_too() -> None:
    service = SWIFT % ", concurrency: 2, interval: 1 s"
    fill = roles_of(OBJECTS, 20).partition("\n")[0]
    load = f"  load: {{{OBJECTS}, operations: overwrite, count: 100, threads: 4, size: 10 kB}}"
    own = wiped(planned(service, f"{fill}\n{load}", AWAY))
    assert 15 <= own["recovery_missing"] <= 20
    assert (own["missing_copies"], own["object_copies"]) == (0, 60)


@on_demand
@of_gluster
def test_what_a_node_of_gluster_missed_while_it_was_away_is_healed_by_its_mirror() -> None:
    fill = roles_of(FILES, 20).partition("\n")[0]
    own = wiped(planned(GLUSTER, f"{fill}\n{fill.replace('fill:', 'load:').replace('20', '30')}", AWAY))
    assert (own["recovery_missing"], own["recovery_bytes"]) == (30, 300_000)
    assert (own["missing_copies"], own["object_copies"]) == (0, 100)


@on_demand
@of_swift
def test_a_recovery_of_swift_that_does_not_end_is_censored() -> None:
    """The next pass of any replicator comes after an hour: nothing comes back, and what is missing is counted."""
    service = SWIFT % ", concurrency: 1, interval: 1 h"
    outcome, sink = played(planned(service, roles_of(OBJECTS), THEN + LAST % ("load.finished", "3 s")))
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert outcome.censored == ("whole",)
    own = counted(sink, "load")
    there = own["objects"]
    assert (own["recovery_missing"], own["recovery_made"]) == (there, 0)
    assert not {"recovery_known_ns", "recovery_whole_ns"} & own.keys()
    assert (own["object_copies"], own["missing_copies"], own["lost_objects"]) == (2 * there, there, 0)


@on_demand
@of_swift
def test_swift_that_is_started_again_has_what_its_disks_have() -> None:
    """All nodes are started again with nothing but their disks: what was written is read."""
    timeline = (
        "\n  - {id: fill, do: run, role: fill}"
        "\n  - {id: again, do: call, service: depot, op: restart, after: fill.finished}"
        "\n  - {id: load, do: run, role: load, after: again.done}"
    )
    outcome, sink = played(planned(SWIFT % "", roles_of(OBJECTS), timeline))
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    all_is_there(sink)


@on_demand
@of_gluster
def test_gluster_answers_rightly_and_keeps_what_was_written() -> None:
    outcome, sink = played(planned(GLUSTER, roles_of(FILES)))
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert ended(sink, "fill") == {("create", "done"): 60}
    assert done(ended(sink, "load")) == 300
    all_is_there(sink)


@on_demand
@pytest.mark.parametrize(
    ("service", "kind"),
    [pytest.param(SWIFT % "", OBJECTS, marks=of_swift), pytest.param(TWO_CLIENTS, FILES, marks=of_gluster)],
    ids=["swift", "gluster"],
)
def test_a_client_reads_what_one_in_another_guest_wrote(service: str, kind: str) -> None:
    reader = f"  audit: {{{kind.replace('h1.client', 'h1.reader')}, operations: read, order: once}}"
    then = THEN + "\n  - {id: audit, do: run, role: audit, after: load.finished}"
    guests = f"reader: {{disk: {{size: 16 MiB}}}}, {GUESTS}"
    outcome, sink = played(planned(service, f"{roles_of(kind)}\n{reader}", then, guests))
    assert outcome.status in {"ok", "tainted"}, outcome
    changed = ended(sink, "load")
    there = 60 + changed["create", "done"] - changed["delete", "done"]
    assert ended(sink, "audit") == {("read", "done"): there}
    own = counted(sink, "audit")
    assert (own["objects"], own["lost_objects"], own["stale_objects"]) == (there, 0, 0)
    assert counted(sink, "load")["objects_elsewhere"] == 1
    assert own.get("left_files", 0) == 0


@on_demand
@of_gluster
def test_what_a_node_of_gluster_lost_is_healed_by_its_mirror() -> None:
    own = wiped(planned(GLUSTER, roles_of(FILES), QUIET))
    assert (own["recovery_missing"], own["recovery_bytes"]) == (60, 600_000)
    assert (own["missing_copies"], own["object_copies"]) == (0, 2 * own["objects"])


@on_demand
@of_gluster
def test_files_are_used_while_a_node_of_gluster_recovers() -> None:
    """Clients delete files that were lost: what is healed then is all that is missing."""
    own = wiped(planned(GLUSTER, roles_of(FILES), LOSE.replace("wipe_node", "reset_brick")))
    assert 0 < own["recovery_missing"] <= 60
