"""The life of a libvirt domain, on libvirt's own test driver behind a daemon that runs as a plain process for this
file.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import far_world as far_worlds
import libvirt_world
import pytest
import testbed_world as worlds

from virtlab.errors import GuestError
from virtlab.plan import Trial
from virtlab.testbed import Testbed
from virtlab.testbed.leader import far_ledger
from virtlab.testbed.platforms.libvirt import domains
from virtlab.testbed.platforms.libvirt.domains import Domain, untested, virsh

pytestmark = pytest.mark.skipif(domains.missing() is not None, reason="virsh is missing (libvirt-clients)")


@pytest.fixture
def uri(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with libvirt_world.test_driver(tmp_path, monkeypatch) as made:
        yield made


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


def test_a_domain_that_its_user_started_again_after_a_death_is_his_and_left_running(uri: str) -> None:
    virsh("", uri, "destroy", "--domain", "test")
    dead = Domain("guests.a", uri, "test")
    dead.start(worlds.Patient())
    assert dead._entry is not None
    dead._entry.close(gone=False)
    for word in ("destroy", "start"):
        virsh("", uri, word, "--domain", "test")
    heir = Domain("guests.a", uri, "test")
    heir.start(worlds.Patient())
    assert not heir.ours, "it was used as it was found"
    heir.stop()
    assert heir.state() == "running"
    assert list(far_ledger.folder().glob("*")) == [], "there is nothing left to clear"


def test_a_domain_that_its_user_started_again_during_a_run_is_his_and_left_running(uri: str) -> None:
    virsh("", uri, "destroy", "--domain", "test")
    domain = Domain("guests.a", uri, "test")
    domain.start(worlds.Patient())
    for word in ("destroy", "start"):
        virsh("", uri, word, "--domain", "test")
    domain.stop()
    assert domain.state() == "running"
    assert list(far_ledger.folder().glob("*")) == []


def test_where_what_was_started_cannot_be_marked_it_is_stopped_and_the_cure_is_told(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    virsh("", uri, "destroy", "--domain", "test")
    real = shutil.which(domains.PROGRAM)
    refuses = f'case " $* " in *" --set "*) echo "error: not supported by driver" >&2; exit 1;; esac; exec {real} "$@"'
    libvirt_world.wrap(tmp_path, monkeypatch, refuses)
    with pytest.raises(GuestError, match=r"does not mark what was started.*not supported") as error:
        Domain("guests.a", uri, "test").start(worlds.Patient())
    assert "start it yourself before the run" in error.value.cure
    assert Domain("guests.a", uri, "test").state() == "shut off"
    assert list(far_ledger.folder().glob("*")) == []


def test_a_start_that_takes_too_long_is_given_up_and_what_it_starts_later_is_stopped(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    virsh("", uri, "destroy", "--domain", "test")
    wait, real = tmp_path / "wait", shutil.which(domains.PROGRAM)
    wait.touch()
    slow = f'case " $* " in *" start "*) while [ -e {wait} ]; do sleep 0.05; done;; esac; exec {real} "$@"'
    libvirt_world.wrap(tmp_path, monkeypatch, slow)
    monkeypatch.setattr(domains, "COMMAND_TIMEOUT_S", 0.2)
    monkeypatch.setattr(domains, "STARTER_END_S", 0.2)
    domain = Domain("guests.a", uri, "test")
    with pytest.raises(GuestError, match=r"did not answer 'start' within 0\.2 s") as error:
        domain.start(worlds.Patient())
    assert "virsh list" in error.value.cure
    far_ledger.sweep(domains.KIND, uri, domain._stop_left)
    assert len(list(far_ledger.folder().glob("*"))) == 1, "it is still being started"
    wait.unlink()
    assert domain._starter is not None
    domain._starter.wait(60)
    assert domain.state() == "running"
    libvirt_world.sweep(uri)
    assert domain.state() == "shut off"


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


def test_other_hypervisors_are_marked_untested() -> None:
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
    plan = libvirt_world.plan_over_ssh(libvirt_world.named(tmp_path, monkeypatch, uri), count=10)
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


@pytest.mark.skipif(far_worlds.missing() is not None, reason=str(far_worlds.missing()))
@pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))
def test_a_service_in_a_domain_is_ready_restarted_and_gone_with_the_run(
    uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    virsh("", uri, "destroy", "--domain", "test")
    script = "echo up as $(id -u); setsid sleep 876543 & exec sleep 876543"
    web = {"kind": "program", "on": ["a"], "argv": ["sh", "-c", script], "ready": {"line": "up as"}}
    again = {"id": "again", "do": "call", "service": "web", "op": "restart"}
    plan = libvirt_world.plan_over_ssh(libvirt_world.named(tmp_path, monkeypatch, uri), count=1)
    world = plan.world.model_dump(mode="json", exclude_none=True, by_alias=True)
    limits = {"run_ns": 60_000_000_000}
    plan = worlds.plan({**world, "services": {"web": web}}, timeline=[again], limits=limits)
    (tmp_path / "far").mkdir()
    with far_worlds.far_hosts(tmp_path / "far") as far:
        monkeypatch.setenv("VIRTLAB_SSH", far.command)
        with Testbed().open(plan, worlds.Patient()) as session:
            sink = worlds.MemorySink()
            outcome = session.run(Trial("t0", 1), sink)
            assert outcome.status in {"ok", "tainted"}, outcome.reasons
            assert sink.artefacts["service-web-a.log"].count(b"up as 0\n") == 2, "it was started again"
            assert "again.done" in {event.what for event in sink.events}
            run = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in far.processes(far_worlds.NAMES[0])]
            assert sum(b"876543" in words for words in run) >= 2, "its own, and what it started"
        assert far.ended()
    assert list(far_ledger.folder().glob("*")) == []
