"""A stranger's file makes files in its guests' own places, and elsewhere only with the leave of its user."""

from __future__ import annotations

from pathlib import Path

import pytest

from virtlab.cli.guest_commands import executed, lines, refuse_unless_allowed
from virtlab.errors import ExperimentError
from virtlab.experiment import load_text

FILE = """
version: 1
name: t
factors: {{where: [/var/tmp, {directory}]}}
hosts: {{h1: {{platform: {platform}, {guests}}}, h2: {{joins: s1, guests: {{g1: {{}}}}}}}}
topology: {{shape: star, switches: 1}}
link: {{rate: 1 Gbit/s}}
roles: {{load: {{workload: files, from: h1.g1, directory: "${{where}}", operations: create}}}}
"""
DISK = "guests: {g1: {disk: {size: 1 MiB}}}"
BARE = "guests: {g1: {}}"


@pytest.fixture(autouse=True)
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No settings that allow anything."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))


@pytest.mark.parametrize(
    ("platform", "guests", "directory", "asked"),
    [
        ("namespace", DISK, "/var/tmp/below", []),
        ("namespace", DISK, "/home", ["/home"]),
        ("namespace", DISK, "/var/tmpx", ["/var/tmpx"]),
        ("namespace", BARE, "/home", ["/var/tmp", "/home"]),
        ("namespace", f"disk: {{size: 1 MiB}}, {BARE}", "/home", ["/home"]),
        ("native", "joins: s1", "/home", ["/var/tmp", "/home"]),
        ("container", BARE, "/home", []),
        ("qemu", BARE, "/home", []),
    ],
)
def test_a_role_in_a_directory_of_the_machine_needs_leave(
    platform: str, guests: str, directory: str, asked: list[str]
) -> None:
    experiment = load_text(FILE.format(platform=platform, guests=guests, directory=directory))
    assert [each.directory for each in executed(experiment)] == asked
    refuse_unless_allowed(experiment, None, allowed=True)
    if not asked:
        refuse_unless_allowed(experiment, None, allowed=False)
        return
    said = f"{platform} h1.g1: makes and removes files in a folder of {asked[0]}"
    assert lines(experiment)[0] == f"{said} (sees this machine's files: needs --allow-exec)"
    with pytest.raises(ExperimentError, match="would run among this machine's files") as raised:
        refuse_unless_allowed(experiment, None, allowed=False)
    assert raised.value.where == "roles.load"
    assert "--allow-exec" in raised.value.cure


REAL = """
version: 1
name: t
hosts: {{h1: {{guests: {{client: {{disk: {{size: 16 MiB}}}}, n1: {{disk: {{size: 64 MiB}}}}}}}}}}
services: {{depot: {{kind: {kind}, on: h1.n1, copies: 1, {others}: h1.client}}}}
roles: {{load: {role}}}
"""
OBJECTS = "{workload: objects, from: h1.client, to: depot, operations: create}"
FILES = "{workload: files, from: h1.client, directory: /var/tmp/depot, operations: create}"


@pytest.mark.parametrize(
    ("kind", "others", "role", "programs"),
    [
        (
            "swift",
            "proxies",
            OBJECTS,
            ["swift-account-server", "swift-container-server", "swift-object-server"],
        ),
        ("gluster", "clients", FILES, ["glusterd"]),
    ],
)
def test_programs_of_this_machine_that_a_store_consists_of_need_leave(
    kind: str, others: str, role: str, programs: list[str]
) -> None:
    experiment = load_text(REAL.format(kind=kind, others=others, role=role))
    assert [each.argv for each in executed(experiment)] == [(program,) for program in programs]
    with pytest.raises(ExperimentError, match="would run among this machine's files") as raised:
        refuse_unless_allowed(experiment, None, allowed=False, plays=False)
    assert raised.value.where == "services.depot"
