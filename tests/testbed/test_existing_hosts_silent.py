"""A network to an existing host that vanishes without a word: no reset, no end, the link up. Frames are just gone.

Nobody is told, so both sides have to find out: here by the questions of ssh, there by those of sshd, or,
where it asks none, by the kernel that gets no answer to what it sends.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import far_world as far_worlds
import pytest
import testbed_world as worlds
from test_existing_hosts import opened, plan_of
from test_existing_hosts_cut import await_none

from virtlab.campaign import CampaignObserver, open_dataset, run_campaign
from virtlab.campaign.progress import Standing
from virtlab.errors import MachineError
from virtlab.experiment import load_text
from virtlab.plan import Plan, Trial
from virtlab.results import RunRecord
from virtlab.testbed import Testbed
from virtlab.testbed.leader import branch, far_ledger
from virtlab.testbed.platforms.ssh.connection import Connection

pytestmark = [
    pytest.mark.skipif(far_worlds.missing() is not None, reason=str(far_worlds.missing())),
    pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing())),
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("reached"),
    pytest.mark.slow,
]
BOUND_S = 90.0  # silence is noticed within 12 s, mending is tried for 10 s; the rest is a busy machine
ASKING = ("ClientAliveInterval 1", "ClientAliveCountMax 3")
FILE = """
version: 1
name: silent
hosts:
  h1: {platform: ssh, address: host-a}
  h2: {platform: ssh, address: host-b}
roles:
  probe: {workload: rtt, from: h1.g1, to: h2.g1, size: 1000 B ip_packet, interval: 5 ms, count: 600}
timing: {warmup: 10 ms, drain: 10 ms}
repeat: 2
"""


@pytest.fixture
def _asking(far: far_worlds.FarHosts) -> Iterator[None]:
    """The second host's sshd asks whether anybody is still there."""
    far_worlds.restart(far, "b", *ASKING)
    yield
    far.restore("b")
    far_worlds.restart(far, "b")


def lasting(plan: Plan) -> Plan:
    """With a limit that is not what ends the run."""
    return plan.model_copy(update={"limits": plan.limits.model_copy(update={"run_ns": 10**12})})


def test_where_no_sshd_asks_the_kernel_of_the_host_ends_what_it_cannot_send(
    far: far_worlds.FarHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(branch, "PATIENCE_S", 1.0)  # nobody comes back
    # Linux gives up after 15 tries, a quarter of an hour; a host that tries less often shows the same sooner.
    tries = Path("/proc/sys/net/ipv4/tcp_retries2")
    before = far.run("b", "cat", str(tries)).strip()
    far.run("b", "sh", "-c", f"echo 3 > {tries}")
    try:
        # Its role is over after 3 s of silence, which its agent says to nobody.
        plan = plan_of(first="host-b", second="host-a", count=600)
        with opened(lasting(plan)) as session:
            outcome = session.run(Trial("t0", 1), worlds.ActingSink(lambda: far.silence("b")))
            assert outcome.status == "failed"
            assert outcome.reasons[0].startswith("guests.a: its connection to host-b "), outcome.reasons
        await_none(far, "b")
    finally:
        far.run("b", "sh", "-c", f"echo {before} > {tries}")
        far.restore("b")


class Silencing(CampaignObserver):
    """Silences a host in the first run; when that has failed, looks what is left there, and lets frames pass again."""

    def __init__(self, far: far_worlds.FarHosts) -> None:
        super().__init__()
        self._far = far
        self._silent_s: float | None = None
        self.took_s = 0.0
        self.told: list[tuple[str, tuple[str, ...]]] = []

    def progress(self, what: str, done_ratio: float | None = None) -> None:
        if what == "run probe" and self._silent_s is None:
            self._silent_s = time.monotonic()
            threading.Timer(0.3, self._far.silence, ("b",)).start()

    def run_ended(self, record: RunRecord, standing: Standing) -> None:
        if not self.told:
            self.took_s = time.monotonic() - (self._silent_s or 0.0)
            # Nobody has come back, and none of our words has reached it since.
            await_none(self._far, "b")
            assert self._far.agents("b") == []
            self._far.restore("b")
        self.told.append((record.status, tuple(record.reasons)))


@pytest.mark.usefixtures("_asking")
def test_a_network_that_vanishes_without_a_word_fails_one_run_in_bounded_time_and_the_rest_goes_on(
    far: far_worlds.FarHosts, tmp_path: Path
) -> None:
    experiment = load_text(FILE)
    backend, observer = Testbed(), Silencing(far)
    able = backend.capabilities()
    with open_dataset(tmp_path / "d", FILE, name="silent", seed=experiment.seed, backend=able) as dataset:
        run_campaign(experiment, dataset, backend, observer, run_limit=3)
    (status, reasons), *others = observer.told
    assert status == "failed", reasons
    told = [reason for reason in reasons if "host-b" in reason or "failed" in reason or "ended" in reason]
    assert len(told) == 1, reasons
    assert re.match(
        r"guests\.[^:]+: its connection to host-b ended with code 255: .*10\.77\.0\.2", told[0]
    ), told
    assert "(ssh -o BatchMode=yes host-b true)" in told[0], "the cure"
    assert observer.took_s < BOUND_S
    assert all(status != "failed" for status, _ in others), others
    assert len(others) == 2
    for name in far_worlds.NAMES:
        await_none(far, name)
        assert far.agents(name) == []
    assert list(far_ledger.folder().glob("*")) == []


def test_a_network_that_vanishes_while_the_agent_is_brought_is_one_error_and_its_file_goes_later(
    far: far_worlds.FarHosts,
) -> None:
    connection = Connection("guests.b", "host-b")
    try:
        connection.introduce()
        assert len(far.agents("b")) == 1
        far.silence("b")
        with pytest.raises(MachineError, match=r"guests\.b: host-b cannot be reached by ssh: .*10\.77\.0\.2"):
            connection.hand_over()
    finally:
        connection.close()
        far.restore("b")
    assert len(list(far_ledger.folder().glob("*"))) == 1
    with opened(plan_of()):
        assert far.agents("b") == []
    assert list(far_ledger.folder().glob("*")) == []
