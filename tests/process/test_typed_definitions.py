"""What a type checker says of experiments that are built in Python."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
RIGHT = """
from typing import Any

import virtlab as vl

vl.define(
    "echoes", hosts=2, topology={"shape": "line", "switches": "${switches}"}, factors={"switches": [1, 2]},
    link={"rate": "10 Mbit/s", "queue": {"kind": "codel"}}, repeat={"minimum": 3, "time": "20 s"},
    roles={
        "probe": {"workload": "rtt", "from": "h1.g1", "to": "h2.g1", "size": "64 B ip_packet", "interval": "10 ms"},
        "load": {"workload": "udp_stream", "from": "h1.g1", "to": "h2.g1", "size": "1472 B payload", "as": "load"},
    },
    claims=["probe.rtt.mean <= 1 ms", {"text": "load.loss.ratio <= 1 %", "title": "Little is lost"}],
).write("echoes.yaml")
put_together: dict[str, Any] = {}
vl.define("other", **put_together)
"""
WRONG = {
    'vl.define("a", hosts=2, roles={}, lnik={"rate": "1 Mbit/s"})': "lnik",
    'vl.define("a", hosts=2, roles={}, link={"rat": "1 Mbit/s"})': '"link"',
    'vl.define("a", roles={})': '"hosts"',
    'vl.define("a", hosts=2, roles={"p": {"workload": "rtt", "form": "h1.g1"}})': "RttRole",
    'vl.define("a", hosts=2, roles={}, repeat={"minimum": None})': '"repeat"',
}


def test_a_type_checker_knows_the_keys_of_every_section(tmp_path: Path) -> None:
    lines = ["import virtlab as vl", *WRONG]
    (tmp_path / "right.py").write_text(RIGHT)
    (tmp_path / "wrong.py").write_text("\n".join(lines) + "\n")
    command = [sys.executable, "-m", "mypy", "--strict", f"--cache-dir={tmp_path / 'cache'}"]
    done = subprocess.run(
        [*command, tmp_path / "right.py", tmp_path / "wrong.py"],
        cwd=ROOT / "python", capture_output=True, text=True, check=False,
    )  # fmt: skip
    errors = re.findall(r"^(.*)\.py:(\d+): error: (.*)$", done.stdout, re.MULTILINE)
    assert [Path(file).name for file, _, _ in errors] == ["wrong"] * len(WRONG), done.stdout + done.stderr
    for number, (line, named) in enumerate(WRONG.items(), start=2):
        (said,) = [what for _, at, what in errors if int(at) == number]
        assert named in said, (line, said)
