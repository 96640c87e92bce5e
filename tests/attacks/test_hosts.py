"""A host that somebody else runs is let in to nothing of this machine, whatever ssh's configuration lends."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

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
