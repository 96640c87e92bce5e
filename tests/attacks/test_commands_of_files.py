"""A file of a stranger runs nothing among this machine's files unless whoever runs it says so, having been shown
what.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from virtlab.cli.guest_commands import executed, refuse_unless_allowed
from virtlab.cli.main import main
from virtlab.errors import ExperimentError
from virtlab.experiment import load

FILE = """
version: 1
name: steal
host: {{platform: {platform}}}
hosts: 2
topology: {{shape: line, switches: 1}}
link: {{rate: 100 Mbit/s}}
repeat: 1
factors:
  what: [/etc/shadow, /etc/passwd]
roles:
  probe: {{workload: rtt, from: h1.g1, to: h2.g1, size: 100 B ip_packet, interval: 1 ms, count: 2}}
timeline:
  - {{id: steal, do: exec, guest: h1.g1, argv: [cat, "${{what}}"]}}
  - {{id: measure, do: run, role: probe, after: {{any: [steal.done, steal.failed]}}}}
"""


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's settings file, not yet there; the current folder is an empty one."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "config" / "virtlab").mkdir(parents=True)
    return tmp_path / "config" / "virtlab" / "settings.toml"


def file_on(platform: str) -> Path:
    file = Path("steal.yaml")
    file.write_text(FILE.format(platform=platform))
    return file


def virtlab(*words: str | Path) -> int:
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return int(ended.value.code or 0)


@pytest.mark.parametrize("platform", ["namespace", "native"])
def test_commands_among_this_machines_files_are_refused_before_anything_is_built(
    platform: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = file_on(platform)
    assert virtlab("run", file) == 2
    said = capsys.readouterr().err.splitlines()
    assert said[:2] == [f"executes {platform} h1.g1: cat /etc/{name}" for name in ("shadow", "passwd")]
    assert "--allow-exec" in said[2]
    assert len(said) == 3
    assert not Path("steal.results").exists()


@pytest.mark.slow
def test_commands_are_listed_at_every_level_before_they_run(capsys: pytest.CaptureFixture[str]) -> None:
    file = file_on("namespace")
    for command in ("check", "plan"):
        assert virtlab(command, file) == 0
        said = capsys.readouterr().out
        for name in ("shadow", "passwd"):
            assert f"namespace h1.g1: cat /etc/{name} (sees this machine's files: needs --allow-exec)" in said
        assert hashlib.sha256(file.read_bytes()).hexdigest() in said
        assert virtlab(command, file, "--json") == 0
        commands = json.loads(capsys.readouterr().out)["commands"]
        assert [each["argv"] for each in commands] == [["cat", "/etc/shadow"], ["cat", "/etc/passwd"]]


@pytest.mark.slow
def test_a_file_is_allowed_by_its_digest_until_it_changes(settings: Path) -> None:
    file = file_on("namespace")
    settings.write_text(f'allow_exec = ["{hashlib.sha256(file.read_bytes()).hexdigest()}"]\n')
    refuse_unless_allowed(load(file), None, allowed=False)
    file.write_text(file.read_text().replace("/etc/passwd", "/etc/hostname"))
    with pytest.raises(ExperimentError, match="would run among this machine's files"):
        refuse_unless_allowed(load(file), None, allowed=False)


def test_a_digest_in_settings_that_others_can_write_allows_nothing(settings: Path) -> None:
    file = file_on("namespace")
    settings.write_text(f'allow_exec = ["{hashlib.sha256(file.read_bytes()).hexdigest()}"]\n')
    settings.chmod(0o666)
    with pytest.raises(ExperimentError, match="others than its user can write it"):
        refuse_unless_allowed(load(file), None, allowed=False)


def test_guests_with_files_of_their_own_need_no_leave() -> None:
    experiment = load(file_on("container"))
    assert [each.shares_files for each in executed(experiment)] == [False, False]
    refuse_unless_allowed(experiment, None, allowed=False)


@pytest.mark.slow
def test_the_simulator_runs_no_commands_so_it_needs_no_leave() -> None:
    assert virtlab("run", file_on("namespace"), "--backend", "simulator", "--no-report", "--jobs", "1") in {
        0,
        4,
    }
    assert Path("steal.results").exists()


SERVICE = """
version: 1
name: steal
hosts: 2
host: {{platform: {platform}}}
topology: {{shape: line, switches: 1}}
services:
  thief: {{kind: program, on: h1.g1, argv: [cat, /etc/shadow], ready: {{argv: [cat, /etc/passwd]}}}}
roles:
  probe: {{workload: rtt, from: h1.g1, to: h2.g1, size: 100 B ip_packet, interval: 1 ms, count: 2}}
"""


@pytest.mark.slow
def test_commands_of_services_are_listed_and_refused_as_those_of_a_timeline(
    capsys: pytest.CaptureFixture[str],
) -> None:
    file = Path("steal.yaml")
    file.write_text(SERVICE.format(platform="namespace"))
    assert virtlab("check", file) == 0
    said = capsys.readouterr().out
    for name in ("shadow", "passwd"):
        assert f"namespace h1.g1: cat /etc/{name} (sees this machine's files: needs --allow-exec)" in said
    assert virtlab("check", file, "--json") == 0
    commands = json.loads(capsys.readouterr().out)["commands"]
    assert [(each["service"], each["argv"][1]) for each in commands] == [
        ("thief", "/etc/shadow"),
        ("thief", "/etc/passwd"),
    ]
    for words in (("run", file), ("up", file)):
        assert virtlab(*words) == 2
        assert "services.thief: would run among this machine's files" in capsys.readouterr().err
    assert not Path("steal.results").exists()


def test_a_kept_world_asks_for_leave_for_services_alone() -> None:
    refuse_unless_allowed(load(file_on("namespace")), None, allowed=False, plays=False)


POLLS = """
version: 1
name: steal
hosts: 2
topology: {shape: line, switches: 1}
roles:
  sorter:
    workload: program
    from: h1.g1
    to: h2.g1
    argv: [sort, words]
    metrics:
      depth: {regex: '(?P<depth>[0-9]+)', file: /etc/shadow, every: 10 ms, unit: count, better: lower}
      width: {json: $, http: "http://{to}:80/a'b", unit: count, better: lower}
"""


@pytest.mark.slow
def test_what_is_read_beside_a_harmless_program_is_listed_with_it(capsys: pytest.CaptureFixture[str]) -> None:
    file = Path("steal.yaml")
    file.write_text(POLLS)
    assert virtlab("check", file) == 0
    reads = """(and reads /etc/shadow, 'http://{to}:80/a'"'"'b')"""
    assert f"namespace h1.g1: sort words {reads} (sees this machine's files" in capsys.readouterr().out
    assert virtlab("check", file, "--json") == 0
    (command,) = json.loads(capsys.readouterr().out)["commands"]
    assert command["polls"] == ["/etc/shadow", "http://{to}:80/a'b"]
