"""What the laboratory machine with Xen asks of this one, which its agent is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.testbed.test_xen import plan

from virtlab.cli.experiment.run import made_backend
from virtlab.errors import MachineError
from virtlab.testbed.image import xen
from virtlab.testbed.lab import XenLab


def test_without_the_image_the_cure_is_the_command_that_builds_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    with pytest.raises(MachineError, match="virtlab image build --kernel xen"):
        xen.xen_image()
    backend = made_backend("testbed", "ideal", "xen")
    assert isinstance(backend, XenLab)
    assert "virtlab image build --kernel xen" in {
        each.cure.partition("`")[2].strip("`") for each in backend.check(plan())
    }
    assert backend.capabilities().platforms["xen"] is not None
