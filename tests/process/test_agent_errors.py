"""An agent that cannot do its work says why in one line, whatever its environment asks for."""

from __future__ import annotations

import os
import subprocess

import pytest

from virtlab.testbed.leader.process import agent_path


@pytest.mark.parametrize("backtrace", ["0", "1", "full"])
def test_an_error_is_one_line_also_where_backtraces_are_requested(backtrace: str) -> None:
    argv = [str(agent_path()), "inside", "--control-fd", "77"]
    environment = {**os.environ, "RUST_BACKTRACE": backtrace, "RUST_LIB_BACKTRACE": backtrace}
    done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1, (
        "a shipped agent has no tables for unwinding, and libgcc aborts what needs them"
    )
    assert done.stderr.splitlines() == [
        "virtlab-agent: descriptor 77 is not open; this program is started by virtlab, not by hand"
    ]
