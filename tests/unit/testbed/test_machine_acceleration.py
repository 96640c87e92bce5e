"""What decides whether a virtual machine runs on the hardware."""

from __future__ import annotations

from pathlib import Path

import pytest

from virtlab.errors import MachineError
from virtlab.testbed.platforms.qemu import acceleration


@pytest.mark.parametrize("name", acceleration.ACCELERATORS)
def test_an_accelerator_that_is_named_needs_no_trial(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(acceleration.FORCED, name)
    assert acceleration.accelerator(Path("/no/kernel")) == name


def test_an_accelerator_that_is_none_is_told_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(acceleration.FORCED, "hvf")
    with pytest.raises(MachineError, match="'hvf' is not an accelerator; write kvm or tcg") as error:
        acceleration.accelerator(Path("/no/kernel"))
    assert error.value.where == "$VIRTLAB_ACCELERATOR"
