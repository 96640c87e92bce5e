"""Tests in this folder import their helpers by name; those of existing hosts share how the hosts are made and reached,
those of probes two guests on a bridge, those inside the laboratory machine the machine."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import far_world
import probe_world

from virtlab.testbed.lab import LabVm

_laboratory = LabVm()
_files_inside: set[Path] = set()  # whose tests need it


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[far_world.FarHosts]:
    """Two existing hosts."""
    with far_world.far_hosts(tmp_path_factory.mktemp("far")) as made:
        yield made


@pytest.fixture
def reached(far: far_world.FarHosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are what virtlab reaches, and what it notes of them is this test's own."""
    monkeypatch.setenv("VIRTLAB_SSH", far.command)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.fixture(scope="module")
def world() -> Iterator[probe_world.World]:
    """Two guests on a bridge."""
    with probe_world.two_guests() as made:
        yield made


@pytest.fixture(scope="module")
def ends(world: probe_world.World) -> tuple[probe_world.Probe, probe_world.Probe]:
    """A probe in each of them."""
    return world.probe(world.a), world.probe(world.b)


@pytest.fixture(scope="session")
def lab() -> LabVm:
    """The laboratory machine, for all tests that leave it alive: it boots once for all their files in a row."""
    return _laboratory


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Finds the files that need it."""
    _files_inside.update(item.path for item in items if "lab" in getattr(item, "fixturenames", ()))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """It ends before the tests of another file, which may count machines; whoever needs it next has it boot again."""
    if item.path not in _files_inside:
        _laboratory.close()


def pytest_sessionfinish() -> None:
    """It ends with the last test."""
    _laboratory.close()
