"""The GitHub action, tried by running its steps as a runner does: inputs filled in, conditions kept, files for answers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from virtlab.documents import yaml_values
from virtlab.experiment.templates import template

ACTION = Path(__file__).parents[2] / "action.yml"


def action() -> dict[str, Any]:
    values = yaml_values(ACTION.read_text())
    assert isinstance(values, dict)
    return values


def filled(text: str, inputs: dict[str, str]) -> str:
    """The text with its `${{ inputs.X }}` filled in; no other expression is known here."""
    return re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda match: inputs[match[1]], text)


def wanted(step: dict[str, Any], inputs: dict[str, str]) -> bool:
    """Whether the step's condition holds: none, or one comparison of an input with a text."""
    if "if" not in step:
        return True
    match = re.fullmatch(r"inputs\.(\w+) (==|!=) '(.*)'", str(step["if"]))
    assert match is not None, step["if"]
    return (inputs[match[1]] == match[3]) == (match[2] == "==")


def run(folder: Path, **given: str) -> tuple[int, str]:
    """Runs the steps until one fails; its exit code, and the summary."""
    values = action()
    inputs = {name: str(each.get("default", "")) for name, each in values["inputs"].items()} | given
    files = {name: folder / name for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT", "GITHUB_PATH")}
    environment = {
        **os.environ, **{name: str(file) for name, file in files.items()},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    }  # fmt: skip
    code = 0
    for step in values["runs"]["steps"]:
        assert step["shell"] == "bash"
        if code == 0 and wanted(step, inputs):
            own = {name: filled(text, inputs) for name, text in step.get("env", {}).items()}
            assert not any("${{" in text for text in own.values())
            code = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                cwd=folder, env=environment | own, capture_output=True, check=False, timeout=200,
            ).returncode  # fmt: skip
    return code, files["GITHUB_STEP_SUMMARY"].read_text()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "net.yaml").write_text(template("demo", "demo"))
    (tmp_path / "slow.yaml").write_text(template("demo", "demo").replace("10 Mbit/s", "9 Mbit/s"))
    (tmp_path / "wrong.yaml").write_text(template("demo", "demo").replace("within 2441.6 us", "within 1 us"))
    return tmp_path


def test_claims_and_baseline_decide(folder: Path) -> None:
    code, summary = run(folder, file="net.yaml", backend="simulator", install="false", output="first")
    assert code == 0
    assert summary.count("### ") == 1
    assert "dataset=first/run.results" in (folder / "GITHUB_OUTPUT").read_text()
    code, summary = run(
        folder,
        file="slow.yaml",
        backend="simulator",
        install="false",
        baseline="first/run.results",
        output="second",
    )
    assert code == 1
    assert summary.count("### ") == 3
    assert "❌ worse" in summary
    assert int(ElementTree.parse(folder / "second" / "compare.xml").getroot()[0].attrib["failures"]) > 0


def test_a_refuted_claim_ends_it(folder: Path) -> None:
    code, summary = run(folder, file="wrong.yaml", backend="simulator", install="false", baseline="none.json")
    assert code == 1
    assert "refuted" in summary


def test_no_input_reaches_a_shell_as_code() -> None:
    """What a workflow fills in goes through variables: a file's name in the text of a script would be run."""
    for step in action()["runs"]["steps"]:
        assert "${{" not in step["run"]
