"""Attacks by the `hypervisor` of a file: URIs of libvirt by which it runs programs, and settings that others could
write.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.unit.testbed.test_testbed_refusals import HERE

from virtlab.cli.main import main
from virtlab.errors import ExperimentError, MachineError
from virtlab.experiment import FileMistakesError, load
from virtlab.planner import plan_run
from virtlab.testbed.platforms.libvirt.connections import uri_of
from virtlab.testbed.platforms.ssh.platform import existing_refusals

ATTACK = "qemu+ext:///system?command=/tmp/evil"
FILE = """
version: 1
name: domains
host: {{platform: libvirt}}
hosts:
  h1: {{address: root@guest1, domain: guest1, hypervisor: "{uri}"}}
  h2: {{address: root@guest2, domain: guest2}}
roles:
  probe: {{workload: tcp_rr, from: h1.g1, to: h2.g1, request: 1 B, response: 1 B, duration: 1 s}}
"""


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's settings file, not yet there."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "virtlab").mkdir()
    return tmp_path / "virtlab" / "settings.toml"


def file_with(place: Path, uri: str) -> Path:
    file = place / "domains.yaml"
    file.write_text(FILE.format(uri=uri))
    return file


@pytest.mark.parametrize(
    "uri",
    [
        ATTACK,
        "qemu:///system?socket=/tmp/evil",
        "qemu+ssh://root@elsewhere/system",
        "test:////srv/secret.xml",
        "qemu:///embed?root=/tmp",
        "qemu:///system\\nqemu:///session",
    ],
)
def test_a_file_cannot_name_a_connection_that_does_more_than_connect(uri: str, tmp_path: Path) -> None:
    with pytest.raises(FileMistakesError, match="can run programs"):
        load(file_with(tmp_path, uri))


@pytest.mark.parametrize(
    "uri", ["qemu:///system", "qemu+unix:///session", "xen:///system", "test:///default"]
)
def test_local_daemons_are_named_by_their_uri(uri: str, tmp_path: Path) -> None:
    load(file_with(tmp_path, uri))
    assert uri_of("guests.a", uri) == uri


def test_a_plan_from_elsewhere_cannot_either(settings: Path, tmp_path: Path) -> None:
    with pytest.raises(MachineError, match="not a local daemon's URI"):
        uri_of("guests.a", ATTACK)
    experiment = load(file_with(tmp_path, "qemu:///system"))
    plan = plan_run(experiment, experiment.points()[0], 0)
    host = plan.world.hosts["h1"].model_copy(update={"hypervisor": ATTACK})
    changed: dict[str, Any] = {"hosts": {**plan.world.hosts, "h1": host}}
    plan = plan.model_copy(update={"world": plan.world.model_copy(update=changed)})
    found = list(existing_refusals("guests.h1.g1", "h1.g1", plan, HERE))
    assert "guests.h1.g1.hypervisor" in [refusal.path for refusal in found]


def test_a_name_is_a_connection_of_the_users_own_settings_and_is_shown(
    settings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = file_with(tmp_path, "rack")
    with pytest.raises(MachineError, match="no name of"):
        uri_of("guests.a", "rack")
    settings.write_text('[hypervisors]\nrack = "qemu+ssh://root@rack/system"\n')
    assert uri_of("guests.a", "rack") == "qemu+ssh://root@rack/system"
    with pytest.raises(SystemExit) as ended:
        main(["check", str(file)])
    assert ended.value.code in {0, None}
    said = capsys.readouterr().out
    assert "domain guest1 of rack (qemu+ssh://root@rack/system)" in said
    assert "domain guest2 of qemu:///system" in said


@pytest.mark.parametrize("mode", [0o620, 0o602, 0o666])
def test_settings_that_others_can_write_trust_nothing(mode: int, settings: Path) -> None:
    settings.write_text(f'[hypervisors]\nrack = "{ATTACK}"\n')
    settings.chmod(mode)
    with pytest.raises(ExperimentError, match="others than its user can write it"):
        uri_of("guests.a", "rack")


@pytest.mark.parametrize(
    "text", ['hypervisors = "x"', "[hypervisors]\na = 1", 'allow_exec = "x"', 'allow_exec = ["x"]']
)
def test_wrong_trust_is_told_with_its_cure(text: str, settings: Path) -> None:
    settings.write_text(text)
    with pytest.raises(ExperimentError, match="of the wrong kind"):
        uri_of("guests.a", "rack")
