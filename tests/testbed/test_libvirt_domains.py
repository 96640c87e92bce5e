"""The life of a libvirt domain, on libvirt's own test driver behind a daemon that runs as a plain process for this file."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import far_world as far_worlds
import libvirt_world
import pytest
import testbed_world as worlds

from virtlab.errors import GuestError
from virtlab.plan import Trial
from virtlab.testbed import Testbed, far_ledger
from virtlab.testbed.platforms.libvirt import domains
from virtlab.testbed.platforms.libvirt.domains import Domain, untested, virsh

pytestmark = pytest.mark.skipif(domains.missing() is not None, reason="virsh is missing (libvirt-clients)")


@pytest.fixture
def uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A connection whose domains live as long as somebody holds it, so one is kept open: those of `test:///default`."""
    if (why := libvirt_world.missing()) is not None:
        pytest.skip(why)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with tempfile.TemporaryDirectory(prefix="virtlab-") as folder:
        home, errors = Path(folder), tmp_path / "errors"
        (home / "s").mkdir()
        config = home / "libvirtd.conf"
        config.write_text(f'unix_sock_dir = "{home}/s"\nauth_unix_rw = "none"\n')
        options = ("--config", str(config), "--pid-file", str(home / "pid"))
        socket = home / "s" / "libvirt-sock"
        with libvirt_world.daemon(libvirt_world.as_a_user(home), socket, errors, *options):
            made = f"test+unix:///default?socket={socket}"
            argv = [domains.PROGRAM, "--connect", made]
            with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as held:
                assert held.stdin is not None
                assert held.stdout is not None
                held.stdin.write(b"list\n")
                held.stdin.flush()
                while b"running" not in (line := held.stdout.readline()):
                    assert line, errors.read_text()
                yield made
                held.kill()


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
