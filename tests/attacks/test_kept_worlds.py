"""A description of a kept world that is damaged stops no other kept world, and its own can be ended."""

from __future__ import annotations

import json
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from virtlab.cli.main import app
from virtlab.errors import ExperimentError, MachineError
from virtlab.testbed.up import world as kept

WHOLE = json.dumps(
    {
        "guests": {"a": "guest:a"},
        "addresses": {"a": ["10.0.0.1/24"]},
        "source": "x",
        "leaders": {},
        "groups": {},
    }
).encode()
DAMAGES = {
    "nothing": b"",
    "half of it": WHOLE[:40],
    "another kind": b"[1, 2]",
    "a number for guests": WHOLE.replace(b'{"a": "guest:a"}', b"5"),
    "a channel that is a text": WHOLE.replace(b'"leaders": {}', b'"leaders": {"a": ["x", 1]}'),
    "not a text": b"\xff\xfe\x00",
    "nested without end": b"[" * 100_000,
}


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as name:
        monkeypatch.setenv("XDG_RUNTIME_DIR", name)
        yield kept.folder()


def alive(folder: Path, name: str, description: bytes = WHOLE) -> socket.socket:
    """A door at which somebody listens, and a description beside it."""
    door = socket.socket(socket.AF_UNIX)
    door.bind(str(folder / f"{name}.sock"))
    door.listen(16)
    (folder / f"{name}.json").write_bytes(description)
    return door


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES.keys())
def test_a_damaged_description_stops_no_other_world(folder: Path, damage: bytes) -> None:
    with alive(folder, "broken", damage), alive(folder, "whole"):
        found = kept.worlds()
        assert sorted(found) == ["broken", "whole"]
        assert kept.find(None).name == "whole"
        assert kept.namespace_of(kept.find("whole"), "a") == "guest:a"
        (told,) = kept.damaged()
        assert "\n" not in str(told)
        assert str(told).startswith("world broken: its description cannot be read (")
        assert str(told).endswith("`virtlab down --name broken` ends it")
        with pytest.raises(MachineError, match="virtlab down --name broken"):
            kept.namespace_of(kept.find("broken"), "a")


def test_a_description_that_is_no_file_is_damage_too(folder: Path) -> None:
    with alive(folder, "link"), alive(folder, "folder"), alive(folder, "whole"):
        for name in ("link", "folder"):
            (folder / f"{name}.json").unlink()
        (folder / "link.json").symlink_to(folder / "whole.json")
        (folder / "folder.json").mkdir()
        assert [world.name for world in kept.worlds().values() if world.damage] == ["folder", "link"]
        assert kept.find(None).name == "whole"


def test_what_a_dead_world_left_is_swept_whatever_it_is(folder: Path) -> None:
    alive(folder, "dead", b"{").close()
    (folder / "folder.json").mkdir()
    assert kept.worlds() == {}
    assert not (folder / "dead.json").exists()
    with pytest.raises(ExperimentError, match="no kept world"):
        kept.find(None)


def test_the_damage_is_told_in_one_line_by_the_command(folder: Path) -> None:
    with alive(folder, "broken", b"{"):
        done = CliRunner().invoke(app, ["exec", "a", "--", "true"])
        assert isinstance(done.exception, MachineError)
        assert "virtlab down --name broken" in str(done.exception)
