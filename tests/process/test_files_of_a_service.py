"""The shell that writes a service's files before it starts: what it is told to write, and nothing else."""

from __future__ import annotations

import subprocess
from pathlib import Path

from virtlab.plan import Guest, Service
from virtlab.testbed.services.service import services

GUEST = Guest.model_validate({"platform": "namespace", "host": "h", "vnics": {}})


def test_files_are_written_before_the_program_takes_the_place_of_the_shell(tmp_path: Path) -> None:
    texts = {"own.conf": "a 'quoted' $HOME `line`\n\n%s", "deep/er/b": ""}
    service = Service.model_validate(
        {"kind": "program", "on": ["a"], "argv": ["cat", "own.conf"], "files": texts}
    )
    found = services.of("program").invocation("db", service, GUEST)
    argv = [
        str(tmp_path / "new") if word == "/tmp/virtlab-db" else word for word in (*found.before, *found.argv)
    ]
    done = subprocess.run(argv, capture_output=True, text=True, check=True)
    assert done.stdout == texts["own.conf"]
    assert (tmp_path / "new" / "deep" / "er" / "b").read_text() == ""
