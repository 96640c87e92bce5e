"""The life of a libvirt domain, on libvirt's own test driver behind a daemon that runs as a plain process for this file."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import far_world as far_worlds
import pytest
import testbed_world as worlds

from virtlab.errors import GuestError
from virtlab.plan import Trial
from virtlab.testbed import Testbed, far_ledger
from virtlab.testbed.platforms.libvirt import domains
from virtlab.testbed.platforms.libvirt.domains import Domain, untested, virsh

pytestmark = pytest.mark.skipif(domains.missing() is not None, reason="virsh is missing (libvirt-clients)")
DAEMON = shutil.which("libvirtd") or "/usr/sbin/libvirtd"
NOBODY = 65_534


@pytest.fixture
def uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A connection whose domains live as long as somebody holds it: those of `test:///default`.

    The daemon is an ordinary user's, so that it looks after nothing of this machine; one connection is kept open.
    """
    for program in (DAEMON, "setpriv"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is missing (libvirt-daemon, util-linux)")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with tempfile.TemporaryDirectory(prefix="virtlab-") as folder, (tmp_path / "errors").open("wb") as errors:
        sockets = Path(folder) / "s"
        sockets.mkdir()
        config = Path(folder) / "libvirtd.conf"
        config.write_text(f'unix_sock_dir = "{sockets}"\nauth_unix_rw = "none"\n')
        user = []
        if os.geteuid() == 0:
            user = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
            for place in (Path(folder), sockets):
                os.chown(place, NOBODY, NOBODY)
        home = {**os.environ, "HOME": folder, "XDG_RUNTIME_DIR": folder}
        home |= {"XDG_CONFIG_HOME": f"{folder}/configuration", "XDG_CACHE_HOME": f"{folder}/cache"}
        argv = [*user, DAEMON, "--config", str(config), "--pid-file", f"{folder}/pid", "--timeout", "120"]
        daemon = subprocess.Popen(argv, stderr=errors, stdout=errors, env=home)
        try:
            made = f"test+unix:///default?socket={_socket(sockets, daemon)}"
            argv = [domains.PROGRAM, "--connect", made]
            with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as held:
                assert held.stdin is not None
                assert held.stdout is not None
                held.stdin.write(b"list\n")
                held.stdin.flush()
                while b"running" not in (line := held.stdout.readline()):
                    assert line, (tmp_path / "errors").read_text()
                yield made
                held.kill()
        finally:
            daemon.terminate()
            try:
                daemon.wait(10)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()


def _socket(folder: Path, daemon: subprocess.Popen[bytes]) -> Path:
    """Where the daemon answers."""
    found = folder / "libvirt-sock"
    deadline = time.monotonic() + 20
    while not found.exists():
        if daemon.poll() is not None or time.monotonic() > deadline:
            pytest.skip("libvirtd does not run here as an ordinary user")
        time.sleep(0.1)
    return found


def test_a_domain_that_runs_is_used_and_left_running(uri: str) -> None:
    domain = Domain("guests.a", uri, "test")
    domain.start(worlds.Patient())
    assert domain.state() == "running"
    assert not domain.ours
    domain.stop()
    assert domain.state() == "running"
    assert list(far_ledger.folder().glob("*")) == []


def test_a_domain_that_is_off_is_started_for_the_run_and_stopped_after_it(uri: str) -> None:
    virsh("", uri, "destroy", "--domain", "test")
    domain = Domain("guests.a", uri, "test")
    domain.start(worlds.Patient())
    assert domain.state() == "running"
    assert len(list(far_ledger.folder().glob("*"))) == 1
    assert domain.facts()["domain_started_for_the_run"] is True
    domain.stop()
    assert domain.state() == "shut off"
    assert list(far_ledger.folder().glob("*")) == []


def test_a_domain_that_a_dead_owner_started_is_stopped_at_the_next_start(uri: str) -> None:
    virsh("", uri, "destroy", "--domain", "test")
    dead = Domain("guests.a", uri, "test")
    dead.start(worlds.Patient())
    assert dead._entry is not None
    dead._entry.close(gone=False)  # as the death of its process would
    heir = Domain("guests.a", uri, "test")
    heir.start(worlds.Patient())
    assert heir.ours, "it was stopped first, so the heir started it"
    heir.stop()
    assert list(far_ledger.folder().glob("*")) == []


def test_a_paused_domain_is_not_ours_to_wake(uri: str) -> None:
    virsh("", uri, "suspend", "--domain", "test")
    with pytest.raises(GuestError, match=r"guests\.a: domain test is paused"):
        Domain("guests.a", uri, "test").start(worlds.Patient())


def test_a_domain_that_is_not_there_and_a_daemon_that_is_not_there_are_told_with_libvirts_words() -> None:
    with pytest.raises(GuestError, match=r"guests\.a: libvirt at test:///default: domstate: .*nobody"):
        Domain("guests.a", "test:///default", "nobody").state()
    with pytest.raises(GuestError, match=r"libvirt at nowhere:///x: domstate: "):
        Domain("guests.a", "nowhere:///x", "test").state()


def test_the_test_driver_alone_answers_without_a_daemon() -> None:
    assert Domain("guests.a", "test:///default", "test").state() == "running"


def test_other_hypervisors_pass_through_marked_untested() -> None:
    assert [untested(each) for each in ("qemu:///session", "xen:///system", "esx://far/")] == [
        False,
        True,
        True,
    ]


@pytest.mark.skipif(far_worlds.missing() is not None, reason=str(far_worlds.missing()))
@pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))
def test_a_run_starts_its_domain_measures_over_ssh_and_stops_it(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test driver boots nothing: what ssh reaches is played by an sshd in namespaces."""
    virsh("", uri, "destroy", "--domain", "test")
    vnic = {"network": "own", "mac": "", "offloads": "default"}
    guests = {
        "a": {"platform": "libvirt", "host": "h1", "vnics": {"eth0": vnic}},
        "b": {"platform": "ssh", "host": "h2", "vnics": {"eth0": vnic}},
    }
    hosts = {
        "h1": {"at": "ssh", "address": "host-a", "domain": "test", "hypervisor": uri},
        "h2": {"at": "ssh", "address": "host-b"},
    }
    plan = worlds.echo_plan({"hosts": hosts, "guests": guests}, source="a", target="b", count=10)
    (tmp_path / "far").mkdir()
    with far_worlds.far_hosts(tmp_path / "far") as far:
        monkeypatch.setenv("VIRTLAB_SSH", far.command)
        with Testbed().open(plan, worlds.Patient()) as session:
            assert Domain("", uri, "test").state() == "running"
            sink = worlds.MemorySink()
            outcome = session.run(Trial("t0", 1), sink)
            assert outcome.status in {"ok", "tainted"}, outcome.reasons
            assert sink.rows("probe", "rtt/1") == 10
            applied = session.realised.objects["guests.a"].applied
            assert (applied["domain"], applied["domain_started_for_the_run"]) == ("test", True)
        assert Domain("", uri, "test").state() == "shut off"
    assert list(far_ledger.folder().glob("*")) == []
