"""A host that somebody else runs is let in to nothing of this machine, whatever ssh's configuration lends."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from virtlab.errors import GuestError, MachineError
from virtlab.testbed.image.elf import loaded_part
from virtlab.testbed.leader.process import agent_path
from virtlab.testbed.platforms.ssh import connection

LENDS = """
ForwardAgent yes
ForwardX11 yes
ForwardX11Trusted yes
Tunnel point-to-point
PermitLocalCommand yes
LocalCommand touch {ran}
RemoteForward 9999 127.0.0.1:22
LocalForward 9998 127.0.0.1:22
DynamicForward 9997
"""


@pytest.mark.skipif(shutil.which("ssh") is None, reason="ssh is missing (openssh-client)")
@pytest.mark.process
def test_nothing_of_this_machine_is_lent_to_a_host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    configuration, asked, script = tmp_path / "configuration", tmp_path / "asked", tmp_path / "ssh"
    configuration.write_text(LENDS.format(ran=tmp_path / "ran"))
    script.write_text(
        f'#!/bin/sh\nexec ssh -F "{configuration}" -G "$@" >"{asked}"\n'
    )  # what ssh would go by
    script.chmod(0o755)
    monkeypatch.setenv(connection.COMMAND, str(script))
    assert connection.answers("lab-a") is None
    options = dict(line.split(" ", 1) for line in asked.read_text().splitlines() if " " in line)
    refused = ("forwardagent", "forwardx11", "permitlocalcommand", "tunnel", "controlmaster")
    assert {name: options[name] for name in refused} == dict.fromkeys(refused, "no") | {
        "tunnel": "false", "controlmaster": "false",
    }  # fmt: skip
    assert options["clearallforwardings"] == "yes"
    assert not (tmp_path / "ran").exists()


TAKES_PART = """#!/bin/sh
echo "virtlab-host Linux $(uname -m) 0 - /tmp/none"
head -c {most} >/dev/null
sleep 0.3
exit 255
"""


@pytest.mark.process
def test_ssh_that_ends_with_some_of_the_agent_unread_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "ssh"
    script.write_text(TAKES_PART.format(most=len(loaded_part(agent_path().read_bytes())) - 1000))
    script.chmod(0o755)
    monkeypatch.setenv(connection.COMMAND, str(script))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    host = connection.Connection("guests.a", "lab-a")
    try:
        host.introduce()
        with pytest.raises(MachineError, match="lab-a cannot be reached by ssh: code 255"):
            host.hand_over()
    finally:
        host.close()


@pytest.mark.process
@pytest.mark.parametrize("user", ["abc", "-1", "9" * 5000, "٣", "1.5"])
def test_a_host_that_says_what_is_no_user_is_named_in_one_line(
    user: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "ssh"
    script.write_text(f'#!/bin/sh\necho "virtlab-host Linux $(uname -m) {user} - /tmp/none"\nsleep 1\n')
    script.chmod(0o755)
    monkeypatch.setenv(connection.COMMAND, str(script))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    host = connection.Connection("guests.a", "lab-a")
    try:
        with pytest.raises(GuestError, match=r"guests\.a: lab-a answered 'Linux") as caught:
            host.introduce()
        assert len(str(caught.value)) < 400
    finally:
        host.close()
