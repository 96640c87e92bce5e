"""A real domain of `qemu:///session`: an ordinary user's libvirt daemon for this file, and QEMU under it."""

from __future__ import annotations

import shlex
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import libvirt_world
import pytest
import testbed_world as worlds

from virtlab.testbed import far_ledger
from virtlab.testbed.image import find
from virtlab.testbed.platforms.libvirt import domains
from virtlab.testbed.platforms.libvirt.domains import Domain, virsh

URI = "qemu:///session"
QEMU = shutil.which("qemu-system-x86_64")
KERNEL = find("cloud")
DOMAIN = """
<domain type='qemu'><name>probe</name><memory unit='MiB'>64</memory><vcpu>1</vcpu>
<os><type arch='x86_64' machine='pc'>hvm</type><kernel>{kernel}</kernel><cmdline>panic=0</cmdline></os>
<devices><emulator>{qemu}</emulator></devices></domain>
"""


def missing() -> str | None:
    """Why no such domain can be had here, or None."""
    if (why := domains.missing() or libvirt_world.missing()) is not None:
        return why
    if QEMU is None:
        return "qemu-system-x86_64 is missing"
    return "there is no cloud kernel: virtlab image build" if KERNEL is None else None


pytestmark = [
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
    pytest.mark.timeout(300),
]


@pytest.fixture
def defined(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The domain `probe`, shut off, behind a daemon that ends with the test."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    with tempfile.TemporaryDirectory(prefix="virtlab-") as folder:
        home = Path(folder)
        assert KERNEL is not None
        (home / "vmlinuz").write_bytes(KERNEL.image.read_bytes())
        (home / "domain.xml").write_text(DOMAIN.format(kernel=home / "vmlinuz", qemu=QEMU))
        user = libvirt_world.as_a_user(home)
        wrapper = tmp_path / "virsh"
        wrapper.write_text(f'#!/bin/sh\nexec {shlex.join([*user, domains.PROGRAM])} "$@"\n')
        wrapper.chmod(0o755)
        monkeypatch.setattr(domains, "PROGRAM", str(wrapper))
        with libvirt_world.daemon(user, home / "libvirt" / "libvirt-sock", tmp_path / "errors"):
            virsh("", URI, "define", str(home / "domain.xml"))
            yield
            virsh("", URI, "undefine", "--domain", "probe")


def machines() -> int:
    """Processes of QEMU that the daemon calls `probe`."""
    found = 0
    for entry in Path("/proc").iterdir():
        try:
            found += entry.name.isdigit() and b"guest=probe," in (entry / "cmdline").read_bytes()
        except OSError:
            continue
    return found


@pytest.mark.usefixtures("defined")
def test_a_real_domain_is_started_for_the_run_and_its_plug_is_pulled_where_it_does_not_listen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(domains, "SHUTDOWN_TIMEOUT_S", 1.0)  # nobody inside hears the power button
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
