"""`.ci/run` says how long each part took, and which was over its limit, whatever `make` is."""

import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_part_over_its_limit_is_told_and_fails_nothing(tmp_path: Path) -> None:
    text = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    script = tmp_path / "ci" / "run"
    script.parent.mkdir()
    script.write_text(re.sub(r"^part \d+ demo$", "part 0 demo", text, flags=re.MULTILINE), encoding="utf-8")
    make = tmp_path / "make"
    make.write_text('#!/bin/sh\ncase "$*" in demo) sleep 1.1 ;; esac\n', encoding="utf-8")
    make.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", str(script)], env=environment, capture_output=True, text=True, check=True)
    lines = [re.sub(r"\d+ s", "N s", line) for line in done.stdout.splitlines()]
    assert lines[0] == "ci: make setup took 0 min N s; 0 min N s in all"
    assert lines[2] == "ci: make demo took 0 min N s, over its limit of 0 min; 0 min N s in all"
    assert lines[-1] == "ci: make unit took 0 min N s; 0 min N s in all"
