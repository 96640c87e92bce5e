"""One-way delays between existing hosts are told only where the comparison of their clocks is good enough for them.

The far hosts share one kernel's clock, so the true offset is 0 and the true delay is known to be what was measured. How
far the product knows that is up to its questions over ssh: a way that holds every answer up makes it know little, and a
queue on the measured way makes the delay long.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import far_world as far_worlds
import numpy as np
import pytest
import testbed_world as worlds
from test_existing_hosts import opened, plan_of

from virtlab.analysis.runs import values_of_run
from virtlab.plan import Plan, Trial
from virtlab.results import Dataset, RunRecord
from virtlab.results.record import RunKey

pytestmark = [
    pytest.mark.skipif(far_worlds.missing() is not None, reason=str(far_worlds.missing())),
    pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing())),
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("reached"),
]
HELD_UP_S = 0.02
QUEUE_NS = 200_000_000
DELAYS = ("owd", "path_owd")
# Passes bytes on both ways, and what comes back later than it came.
RELAY = """
import os, socket, sys, threading, time
far = socket.create_connection((sys.argv[1], int(sys.argv[2])))
def back():
    while content := far.recv(1 << 16):
        time.sleep(float(sys.argv[3]))
        os.write(1, content)
    os._exit(0)
threading.Thread(target=back, daemon=True).start()
while content := os.read(0, 1 << 16):
    far.sendall(content)
os._exit(0)
"""


def streaming(rate_bit_per_s: int) -> Plan:
    """Datagrams from `a` to `b` for half a second."""
    plan = plan_of()
    values: dict[str, Any] = plan.model_dump(mode="json", exclude_none=True, by_alias=True)
    values["roles"] = {
        "load": {
            "workload": "udp_stream", "from": "a", "to": "b", "payload_bytes": 1000,
            "rate_bit_per_s": rate_bit_per_s, "duration_ns": 500_000_000,
        }
    }  # fmt: skip
    values["timeline"] = [{"id": "measure", "do": "run", "role": "load"}]
    values["collect"]["packets"] = ["load"]
    return Plan.model_validate(values)


def played(plan: Plan, folder: Path, before: Any = lambda: None) -> RunRecord:
    """The record of one run, as a campaign would write it; `before`: what to do when the hosts were reached."""
    with (
        Dataset.create(folder / "d.results", "version: 1\n", name="d") as dataset,
        opened(plan) as session,
        dataset.begin_run(RunKey(0, 0, 0), session.plan) as writer,
    ):
        before()
        outcome = session.run(Trial("t0", 1), writer)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        writer.commit(outcome, session.realised, {})
    (record,) = Dataset.open(folder / "d.results").runs()
    return record


def told(record: RunRecord, metric: str) -> tuple[dict[str, float], set[str]]:
    """Statistics of a metric, and the reasons of those that are absent."""
    found = [value for value in values_of_run(record) if (value.role, value.metric) == ("load", metric)]
    return (
        {value.statistic: value.value for value in found if value.value is not None},
        {value.reason for value in found if value.value is None},
    )


def bound_ns(record: RunRecord) -> int:
    """Of both clocks together; what was found of each is within its own, as they are truly the same."""
    for name in ("a", "b"):
        assert abs(record.clocks[name]["offset_ns"]) <= record.clocks[name]["bound_ns"]
    return sum(int(record.clocks[name]["bound_ns"]) for name in ("a", "b"))


@pytest.fixture
def _answers_held_up(far: far_worlds.FarHosts, reached: None, monkeypatch: pytest.MonkeyPatch) -> None:
    (far.folder / "relay.py").write_text(RELAY)
    proxy = f"-o 'ProxyCommand={sys.executable} {far.folder}/relay.py %h %p {HELD_UP_S}'"
    monkeypatch.setenv("VIRTLAB_SSH", f"{far.command} {proxy}")


@pytest.mark.usefixtures("_answers_held_up")
def test_delays_shorter_than_what_is_known_of_the_clocks_are_absent_and_say_why(tmp_path: Path) -> None:
    record = played(streaming(4_000_000), tmp_path)
    assert bound_ns(record) >= HELD_UP_S * 1e9, "no answer was here sooner"
    arrived = record.samples("load", "packet/1")
    assert float(np.median(arrived["received_ns"] - arrived["sent_ns"])) < bound_ns(record)
    for metric in DELAYS:
        values, reasons = told(record, metric)
        assert values == {}
        (reason,) = reasons
        assert reason.startswith("not estimable: the clocks of its two ends agree within")
        assert f"{bound_ns(record) / 1000:.4g} us only" in reason
    # Differences of delays need no common clock.
    assert told(record, "pdv")[0]["max"] >= 0
    assert told(record, "loss")[0]["ratio"] == 0


@pytest.fixture
def queue(far: far_worlds.FarHosts) -> Iterator[list[str]]:
    """The words that make a long queue of 4 Mbit/s towards host b; it goes with the test."""
    limit_bytes = 4_000_000 // 8 * QUEUE_NS // 10**9
    yield f"tc qdisc replace dev port2 root tbf rate 4mbit burst 3000 limit {limit_bytes}".split()
    far.run("middle", "sh", "-c", "tc qdisc del dev port2 root 2>/dev/null || true")


def test_delays_longer_than_what_is_known_of_the_clocks_are_told_with_their_bound(
    far: far_worlds.FarHosts, queue: list[str], tmp_path: Path
) -> None:
    record = played(streaming(16_000_000), tmp_path, lambda: far.run("middle", *queue))
    bound = bound_ns(record)
    arrived = record.samples("load", "packet/1")
    delay_ns = arrived["received_ns"] - arrived["sent_ns"]
    assert float(np.median(delay_ns)) > QUEUE_NS / 4, "most of them waited in the queue"
    slow = bound > float(
        np.median(delay_ns)
    )  # a busy machine, which answered too slowly for its clocks to be compared any better
    for metric in DELAYS:
        values, reasons = told(record, metric)
        assert bool([reason for reason in reasons if "estimable" in reason]) == slow
        if not slow:
            assert values["bound"] == bound
            assert values["median"] > QUEUE_NS / 4
    if not slow:
        assert told(record, "path_owd")[0]["min"] > -bound, (
            "nothing comes before it is sent, as far as the clocks are known"
        )
