"""A real domain of `qemu:///session`: an ordinary user's libvirt daemon for this file, and QEMU under it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import libvirt_world
import pytest
import testbed_world as worlds
from libvirt_world import machines

from virtlab.errors import GuestError
from virtlab.testbed.leader import far_ledger
from virtlab.testbed.platforms.libvirt import domains
from virtlab.testbed.platforms.libvirt.domains import Domain, virsh

URI = libvirt_world.SESSION
pytestmark = [
    pytest.mark.skipif(
        libvirt_world.session_missing() is not None, reason=str(libvirt_world.session_missing())
    ),
    pytest.mark.timeout(300),
]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A user's folder; he has the domain `probe`, shut off. Nobody inside it hears the power button."""
    monkeypatch.setattr(domains, "SHUTDOWN_TIMEOUT_S", 1.0)
    with libvirt_world.session(tmp_path, monkeypatch) as made:
        yield made


@pytest.mark.usefixtures("home")
def test_a_real_domain_is_started_for_the_run_and_its_plug_is_pulled_where_it_does_not_listen() -> None:
    domain = Domain("guests.a", URI, "probe")
    domain.start(worlds.Patient())
    assert domain.state() == "running"
    assert machines() == 1
    assert (domain.facts()["hypervisor_tested"], domain.facts()["domain_started_for_the_run"]) == (True, True)
    assert len(list(far_ledger.folder().glob("*"))) == 1
    domain.stop()
    assert domain.state() == "shut off"
    assert machines() == 0
    assert list(far_ledger.folder().glob("*")) == []


@pytest.mark.usefixtures("home")
def test_a_real_domain_that_its_user_started_again_after_a_death_is_left_running() -> None:
    dead = Domain("guests.a", URI, "probe")
    dead.start(worlds.Patient())
    assert dead._entry is not None
    dead._entry.close(gone=False)
    for word in ("destroy", "start"):
        virsh("", URI, word, "--domain", "probe")
    heir = Domain("guests.a", URI, "probe")
    heir.start(worlds.Patient())
    heir.stop()
    assert (heir.state(), machines()) == ("running", 1)
    assert list(far_ledger.folder().glob("*")) == []
    virsh("", URI, "destroy", "--domain", "probe")


@pytest.mark.usefixtures("home")
def test_a_domain_that_a_dead_owner_started_is_stopped_even_where_it_was_paused_since() -> None:
    dead = Domain("guests.a", URI, "probe")
    dead.start(worlds.Patient())
    assert dead._entry is not None
    dead._entry.close(gone=False)
    virsh("", URI, "suspend", "--domain", "probe")
    libvirt_world.sweep(URI)
    assert (dead.state(), machines()) == ("shut off", 0)


def test_a_start_that_libvirt_refuses_is_told_in_its_words_and_leaves_nothing_noted(home: Path) -> None:
    libvirt_world.define(home, "broken", home / "no-such-kernel")
    with pytest.raises(GuestError, match=r"guests\.a: libvirt at qemu:///session: start: .*'broken'"):
        Domain("guests.a", URI, "broken").start(worlds.Patient())
    assert list(far_ledger.folder().glob("*")) == []
    virsh("", URI, "undefine", "--domain", "broken")
