"""Users whose ssh shares connections: our line is one of its own, whatever the shared one does, and none is begun by
us.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import far_world as far_worlds
import pytest
import testbed_world as worlds
from test_existing_hosts import opened, plan_of
from test_existing_hosts_cut import COUNT, await_none, happened, kill_client, one_of_each

from virtlab.plan import Trial

pytestmark = [
    pytest.mark.skipif(far_worlds.missing() is not None, reason=str(far_worlds.missing())),
    pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing())),
    pytest.mark.timeout(300),
    pytest.mark.usefixtures("reached"),
]


@pytest.fixture
def sharing(far: far_worlds.FarHosts, reached: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The user's configuration shares connections; the folder of their sockets."""
    folder = far.folder / "shared"
    folder.mkdir(exist_ok=True)
    text = (far.folder / "config").read_text()
    shared = f"  ControlMaster auto\n  ControlPath {folder}/%h\n  ControlPersist 120"
    assert "  ControlPath none" in text
    (folder / "config").write_text(text.replace("  ControlPath none", shared))
    (folder / "config").chmod(0o600)
    monkeypatch.setenv("VIRTLAB_SSH", far.command.replace(f"{far.folder}/config", f"{folder}/config"))
    yield folder
    (folder / "config").unlink()


def sockets(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.is_socket()]


@contextmanager
def shared_connection(folder: Path) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """A connection to host-b that the user holds open for others: its process, and its socket."""
    argv = [*os.environ["VIRTLAB_SSH"].split(), "-M", "-N", "-o", "ControlPersist=no", "host-b"]
    master = subprocess.Popen(argv, stdin=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 60
        path = folder / f"{far_worlds.NETWORK}2"  # made under another name, and then linked to its own
        while not path.is_socket() and time.monotonic() < deadline:
            time.sleep(0.05)
        assert path.is_socket()
        yield master, path
    finally:
        master.kill()
        master.wait()
        for path in sockets(folder):
            path.unlink()


def test_no_shared_connection_is_begun_that_would_outlive_the_run(
    far: far_worlds.FarHosts, sharing: Path
) -> None:
    before = far.processes("middle")
    with opened(plan_of()) as session:
        assert sockets(sharing) == []
        assert session.run(Trial("t0", 1), worlds.MemorySink()).status in {"ok", "tainted"}
    assert sockets(sharing) == []
    assert far.processes("middle") == before
    for name in far_worlds.NAMES:
        await_none(far, name)


def test_a_shared_connection_that_fell_silent_neither_holds_our_line_up_nor_keeps_it_from_being_mended(
    far: far_worlds.FarHosts, sharing: Path
) -> None:
    with shared_connection(sharing) as (master, _):
        master.send_signal(signal.SIGSTOP)
        with opened(plan_of(count=COUNT)) as session:
            sink = worlds.ActingSink(lambda: kill_client(session, far, "b"))
            outcome = session.run(Trial("t0", 1), sink)
        assert outcome.status in {"ok", "tainted"}, outcome.reasons
        assert (happened(sink, "cut"), happened(sink, "mended")) == (["b"], ["b"])
        assert one_of_each(sink, "rtt/1", COUNT)
        assert master.poll() is None, "it is the user's"
    for name in far_worlds.NAMES:
        await_none(far, name)


def test_who_can_log_in_only_through_a_shared_connection_says_so(
    far: far_worlds.FarHosts, sharing: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As one whose key is let in by nobody, but whose shared connection is up.
    with shared_connection(sharing) as (_, path):
        command = f"{os.environ['VIRTLAB_SSH']} -o ControlPath={path.parent}/%h -o IdentityFile={far.folder}/stranger"
        monkeypatch.setenv("VIRTLAB_SSH", command)
        from virtlab.testbed.platforms.ssh.connection import answers

        assert "Permission denied" in str(answers("stranger-a"))
        assert answers("host-b") is None
    for name in far_worlds.NAMES:
        await_none(far, name)
