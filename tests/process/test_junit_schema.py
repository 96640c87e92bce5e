"""JUnit XML by two schemas: the one of Jenkins, and the one of Ant's reports.

`make platforms` takes the first from the sources of pytest, which are locked by a hash. On demand,
$VIRTLAB_TEST_JUNIT_XSD names a file `JUnit.xsd` of the second (windyroad/JUnit-Schema on GitHub). Neither is kept here.
What is tested without them is in `tests/unit/report/test_exchange.py`.
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
JENKINS = Path(sys.prefix) / "junit-10.xsd"
ANT = os.environ.get("VIRTLAB_TEST_JUNIT_XSD", "")


def missing() -> str | None:
    """Why the schema of Jenkins cannot be asked here, or None."""
    if shutil.which("xmllint") is None:
        return "no xmllint: apt install libxml2-utils"
    return None if JENKINS.is_file() else "no schema of JUnit XML: make platforms"


def schemas() -> list[Path]:
    return [JENKINS, *([Path(ANT)] if ANT else [])]


def valid(file: Path, schema: Path) -> bool:
    command = ["xmllint", "--noout", "--nonet", "--schema", schema, file]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(missing() is not None, reason=missing() or "")
def test_what_every_command_writes_as_junit_is_valid_by_the_schema(tmp_path: Path) -> None:
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
            (["report", "demo.results", "--figures", "none"], 0),
            (["compare", "demo.results", "other.results"], 0),
        ]
    ):
        file = tmp_path / f"{number}.xml"
        done = subprocess.run(
            [VIRTLAB, *command, "--junit", file], cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stdout + done.stderr
        broken = file.with_suffix(".broken")
        broken.write_text(file.read_text().replace(" hostname=", " host="))
        for schema in schemas():
            assert valid(file, schema), (command, schema)
            assert not valid(broken, schema)
