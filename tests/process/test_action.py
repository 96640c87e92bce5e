"""The GitHub action, tried by running its steps as a runner does: inputs filled in, conditions kept, files for answers.

Every step runs in its own shell. Where a step builds, or asks root for something, `make` and `sudo` are programs of the
test: they write down what they were asked, and `make` puts on the PATH what `make install` would.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from tests import plain
from tests.required import CAPABILITIES

from virtlab.documents import yaml_values
from virtlab.experiment.templates import template

ACTION = Path(__file__).parents[2] / "action.yml"


def action() -> dict[str, Any]:
    values = yaml_values(ACTION.read_text())
    assert isinstance(values, dict)
    return values


def filled(text: str, inputs: dict[str, str]) -> str:
    """The text with its `${{ inputs.X }}` and the action's own folder filled in; no other expression is known here."""
    text = text.replace("${{ github.action_path }}", str(ACTION.parent))
    return re.sub(r"\$\{\{ inputs\.(\w+) \}\}", lambda match: inputs[match[1]], text)


def wanted(step: dict[str, Any], inputs: dict[str, str]) -> bool:
    """Whether the step's condition holds: none, or one comparison of an input with a text."""
    if "if" not in step:
        return True
    match = re.fullmatch(r"inputs\.(\w+) (==|!=) '(.*)'", str(step["if"]))
    assert match is not None, step["if"]
    return (inputs[match[1]] == match[3]) == (match[2] == "==")


def run(folder: Path, settings: dict[str, str] | None = None, **given: str) -> tuple[int, str]:
    """Runs the steps until one fails; its exit code, and the summary. `settings` are the job's, before those of a
    step.
    """
    values = action()
    inputs = {name: str(each.get("default", "")) for name, each in values["inputs"].items()} | given
    files = {name: folder / name for name in ("GITHUB_STEP_SUMMARY", "GITHUB_OUTPUT", "GITHUB_PATH")}
    environment = {
        **os.environ, **{name: str(file) for name, file in files.items()},
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    } | plain.without_pictures(folder / "plain") | (settings or {})  # fmt: skip
    code = 0
    for step in values["runs"]["steps"]:
        assert step["shell"] == "bash"
        if code == 0 and wanted(step, inputs):
            own = {name: filled(text, inputs) for name, text in step.get("env", {}).items()}
            assert not any("${{" in text for text in own.values())
            own |= {name: text for name, text in (settings or {}).items() if name in own}
            code = subprocess.run(
                ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
                cwd=folder, env=environment | own, capture_output=True, check=False, timeout=200,
            ).returncode  # fmt: skip
            added = files["GITHUB_PATH"].read_text().splitlines() if files["GITHUB_PATH"].exists() else []
            environment["PATH"] = os.pathsep.join([*reversed(added), environment["PATH"]])
    summary = files["GITHUB_STEP_SUMMARY"]
    return code, summary.read_text() if summary.exists() else ""


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


@pytest.fixture
def runner(folder: Path) -> dict[str, str]:
    """A machine without virtlab, on which the kernel refuses user namespaces, and whose `make` and `sudo` are
    recorded.
    """
    home, programs = folder / "home", folder / "programs"
    programs.mkdir()
    virtlab = Path(sys.executable).with_name("virtlab")
    for name, then in (
        ("make", f'mkdir -p "$HOME/.local/bin" && ln -s {virtlab} "$HOME/.local/bin/virtlab"'),
        ("sudo", 'case "$*" in "sysctl -w kernel.apparmor_restrict_unprivileged_userns=0") echo 0 >"$RESTRICTION" ;; esac'),
    ):  # fmt: skip
        (programs / name).write_text(f'#!/bin/sh\necho "{name} $*" >>{folder}/asked\n{then}\n')
        (programs / name).chmod(0o755)
    (folder / "restriction").write_text("1\n")
    return {
        "HOME": str(home),
        "PATH": f"{programs}{os.pathsep}/usr/sbin:/usr/bin:/sbin:/bin",
        "RESTRICTION": str(folder / "restriction"),
    }


GUARD = """\
version: 1
name: guard
hosts: 2
topology: {shape: line, switches: 1}
link: {rate: 100 Mbit/s}
roles:
  probe: {workload: rtt, from: h1.g1, to: h2.g1, count: 10, interval: 10 ms}
timing: {warmup: 100 ms}
repeat: 3
claims: ["probe.rtt.median <= 100 ms"]
"""


@pytest.mark.xdist_group("machine")  # it takes the lock of the testbed
def test_it_builds_virtlab_lifts_the_restriction_and_runs_real_packets(
    folder: Path, runner: dict[str, str]
) -> None:
    if (why := CAPABILITIES["world"].why()) is not None:
        pytest.skip(why)
    (folder / "guard.yaml").write_text(GUARD)
    code, summary = run(folder, runner, file="guard.yaml")
    assert code in {0, 4}  # a busy machine leaves the claim undecided
    assert (folder / "asked").read_text().splitlines() == [
        f"make -C {ACTION.parent} install",
        "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0",
    ]
    assert (folder / "GITHUB_PATH").read_text().split() == [str(folder / "home" / ".local" / "bin")]
    assert summary.count("### ") == 1
    manifest = json.loads((folder / "virtlab-results" / "run.results" / "manifest.json").read_text())
    assert manifest["backend"] == "testbed"


def test_a_simulation_asks_root_for_nothing(folder: Path, runner: dict[str, str]) -> None:
    code, _ = run(folder, runner, file="net.yaml", backend="simulator")
    assert code == 0
    assert (folder / "asked").read_text().splitlines() == [f"make -C {ACTION.parent} install"]


def test_a_kernel_that_restricts_nothing_is_left_alone(folder: Path, runner: dict[str, str]) -> None:
    (folder / "restriction").write_text("0\n")
    run(folder, runner, file="none.yaml")
    assert "sudo" not in (folder / "asked").read_text()
    (folder / "restriction").unlink()
    run(folder, runner, file="none.yaml", install="false")
    assert "sudo" not in (folder / "asked").read_text()


def test_a_build_that_fails_ends_it(folder: Path, runner: dict[str, str]) -> None:
    (folder / "programs" / "make").write_text("#!/bin/sh\nexit 2\n")
    code, _ = run(folder, runner, file="net.yaml", backend="simulator")
    assert code == 2
    assert not (folder / "virtlab-results").exists()


def test_a_refuted_claim_ends_it(folder: Path) -> None:
    code, summary = run(folder, file="wrong.yaml", backend="simulator", install="false", baseline="none.json")
    assert code == 1
    assert "refuted" in summary


def test_no_input_reaches_a_shell_as_code() -> None:
    """What a workflow fills in goes through variables: a file's name in the text of a script would be run."""
    for step in action()["runs"]["steps"]:
        assert "${{" not in step["run"]
