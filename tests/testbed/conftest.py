"""Tests in this folder import their helpers by name; those of existing hosts share how the hosts are made and reached,
those of probes two guests on a bridge."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import far_world
import probe_world


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
