"""The script that a disk image carries runs in every shell."""

from __future__ import annotations

import io
import shutil
import subprocess
import tarfile

import pytest
from tests.unit.testbed.test_testbed_disk import agent_missing

from virtlab.testbed.image import carried


@pytest.mark.skipif(agent_missing() is not None, reason=str(agent_missing()))
@pytest.mark.parametrize("shell", ["sh", "dash", "bash"])
def test_its_script_is_understood_by_every_shell(shell: str) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is missing")
    with tarfile.open(fileobj=io.BytesIO(carried.archive())) as tar:
        script = tar.extractfile(carried.STARTER)
        assert script is not None
        done = subprocess.run([program, "-n"], input=script.read(), capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
