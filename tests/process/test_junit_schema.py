"""JUnit XML by the schema of Ant's reports, on demand: $VIRTLAB_TEST_JUNIT_XSD names the file `JUnit.xsd`.

The schema is somebody else's (windyroad/JUnit-Schema on GitHub) and is not kept here. What is always tested is in
`tests/unit/report/test_exchange.py`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from virtlab.experiment.templates import template

VIRTLAB = Path(sys.executable).with_name("virtlab")
SCHEMA = os.environ.get("VIRTLAB_TEST_JUNIT_XSD", "")


def valid(file: Path) -> bool:
    command = ["xmllint", "--noout", "--nonet", "--schema", SCHEMA, str(file)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not SCHEMA, reason="on demand: VIRTLAB_TEST_JUNIT_XSD=JUnit.xsd")
def test_what_every_command_writes_as_junit_is_valid_by_the_schema(tmp_path: Path) -> None:
    assert shutil.which("xmllint"), "install libxml2-utils"
    text = template("demo", "demo")
    (tmp_path / "demo.yaml").write_text(text.replace("equivalent within 5 %", "1 < 2"))
    (tmp_path / "bad.yaml").write_text(text.replace("hosts: 2", "hosts: <&>"))
    simulated = ["run", "demo.yaml", "--backend", "simulator", "--no-report", "--jobs", "1"]
    for number, (command, code) in enumerate(
        [
            (["check", "demo.yaml"], 0),
            (["check", "bad.yaml"], 2),
            (simulated, 1),
            ([*simulated, "--dataset", "other.results"], 1),
            (["report", "demo.results"], 0),
            (["compare", "demo.results", "other.results"], 0),
        ]
    ):
        file = tmp_path / f"{number}.xml"
        done = subprocess.run(
            [VIRTLAB, *command, "--junit", file], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stdout + done.stderr
        assert valid(file), command
        broken = file.with_suffix(".broken")
        broken.write_text(file.read_text().replace(" hostname=", " host="))
        assert not valid(broken)
