"""Disks of namespaces and containers: a folder in memory of a size, which all that runs in one guest shares."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import container_world as containers
import pytest
import testbed_world as worlds
from test_testbed_privileges import ROOT, as_nobody

from virtlab.plan import Outcome, Realised, Trial
from virtlab.testbed import Testbed
from virtlab.testbed.build.disks import FOLDER

pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))

SIZE_BYTES = 4 << 20
NAME = "virtlab-test-full"
FILL = f"dd if=/dev/zero of={FOLDER}/{NAME} bs=4096 2>&1; wc -c <{FOLDER}/{NAME}"
PLATFORMS = [
    "namespace",
    pytest.param(
        "container",
        marks=pytest.mark.skipif(containers.missing() is not None, reason=str(containers.missing())),
    ),
]


def shell(name: str, guest: str, script: str, after: str = "") -> dict[str, Any]:
    action = {"id": name, "do": "exec", "guest": guest, "argv": ["sh", "-c", script]}
    return action | ({"after": {"event": f"{after}.done"}} if after else {})


def played(
    platform: str, *timeline: dict[str, Any], services: dict[str, Any] | None = None
) -> tuple[Outcome, worlds.MemorySink, Realised]:
    """Of two guests that each have a disk."""
    world = worlds.one_host(2)
    for guest in world["guests"].values():
        guest |= {"platform": platform, "disk": {"size_bytes": SIZE_BYTES}}
    plan = worlds.plan({**world, "services": services or {}}, timeline=list(timeline))
    assert Testbed().check(plan) == []
    with Testbed().open(plan, worlds.Patient()) as session:
        sink = worlds.MemorySink()
        return session.run(Trial("t0", 1), sink), sink, session.realised


def filled(platform: str) -> None:
    outcome, sink, realised = played(
        platform,
        shell("fill", "g1", FILL),
        shell("see", "g1", f"wc -c <{FOLDER}/{NAME}", "fill"),
        shell("other", "g2", f"ls -A {FOLDER}", "see"),
        shell("room", "g1", f"rm {FOLDER}/{NAME}; {FILL}", "other"),
    )
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    for action in ("fill", "room"):
        said = sink.artefacts[f"{action}.out"].decode()
        assert "No space left on device" in said
        assert said.split()[-1] == str(SIZE_BYTES)
    assert sink.artefacts["see.out"].decode().split() == [str(SIZE_BYTES)], (
        "all processes of a guest share it"
    )
    assert not sink.artefacts.get("other.out"), "every guest has its own"
    assert not Path(FOLDER, NAME).exists(), "nothing of it is on this machine"
    disk = realised.objects["guests.g1"].read_back["disk"]
    assert disk == {"folder": FOLDER, "file_system": "tmpfs", "size_bytes": SIZE_BYTES}


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_full_disk_is_no_space_to_a_command_and_room_again_once_files_are_gone(platform: str) -> None:
    filled(platform)


@ROOT
@pytest.mark.parametrize("platform", PLATFORMS)
def test_an_ordinary_users_guests_have_the_same(platform: str) -> None:
    filled(platform)  # loads what the interpreter has where only root reads
    assert as_nobody(lambda: filled(platform)) == ""


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_service_meets_the_same_end_and_leaves_its_files_to_its_guest(platform: str) -> None:
    full = {
        "kind": "program", "on": ["g1"], "argv": ["sh", "-c", f"{FILL}; echo full; sleep 1000"],
        "ready": {"line": "full"},
    }  # fmt: skip
    outcome, sink, _ = played(
        platform, shell("see", "g1", f"wc -c <{FOLDER}/{NAME}"), services={"full": full}
    )
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert b"No space left on device" in sink.artefacts["service-full-g1.log"]
    assert sink.artefacts["see.out"].decode().split() == [str(SIZE_BYTES)]


def test_a_command_still_changes_nothing_else_of_the_machine() -> None:
    script = f"touch /usr/{NAME}; touch /tmp/{NAME} && touch {FOLDER}/{NAME} && stat -f -c %T {FOLDER}"
    outcome, sink, _ = played("namespace", shell("try", "g1", script))
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert sink.artefacts["try.out"] == b"tmpfs\n"
    assert not any(Path(place, NAME).exists() for place in ("/usr", "/tmp", FOLDER))


@pytest.mark.skipif(
    containers.missing() is not None or os.geteuid() != 0, reason="user namespaces of containers are root's"
)
def test_a_container_with_users_of_its_own_writes_to_its_disk() -> None:
    world = containers.beside_a_namespace(user_namespace="own", disk={"size_bytes": SIZE_BYTES})
    plan = worlds.plan(world, timeline=[shell("fill", "g1", FILL)])
    with Testbed().open(plan, worlds.Patient()) as session:
        sink = worlds.MemorySink()
        outcome = session.run(Trial("t0", 1), sink)
    assert outcome.status in {"ok", "tainted"}, outcome.reasons
    assert sink.artefacts["fill.out"].decode().split()[-1] == str(SIZE_BYTES)
