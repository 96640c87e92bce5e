"""The simulator, reports and `rt` where there is no agent and Python has nothing that only Unix has.

They run from the source distribution, whose extension module is the one that was built here, in processes whose every
Python lacks the modules `fcntl`, `resource`, `pwd`, `grp`, `termios` and the function `os.fork`.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from virtlab.experiment.templates import template

ROOT = Path(__file__).parents[2]
WITHOUT = """\
import os, sys
LACKING = {"fcntl", "resource", "pwd", "grp", "termios"}
class Lacking:
    def find_spec(self, name, path=None, target=None):
        if name in LACKING:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
for name in LACKING:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Lacking())
del os.fork
"""


@pytest.fixture(scope="module")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the source distribution as `python/`, and what takes the modules away beside it."""
    maturin = Path(sys.executable).with_name("maturin")
    if not maturin.exists() or shutil.which("cargo") is None:
        pytest.skip("maturin and cargo, which make the source distribution, are not here")
    folder = tmp_path_factory.mktemp("elsewhere")
    environment = {**os.environ, "CARGO_NET_OFFLINE": "true"}
    subprocess.run([maturin, "sdist", "-o", folder], cwd=ROOT, env=environment, check=True)
    (archive,) = folder.glob("*.tar.gz")
    shutil.unpack_archive(archive, folder)
    unpacked = next(path for path in folder.iterdir() if path.is_dir())
    (unpacked / "python").rename(folder / "python")
    assert not (folder / "python" / "virtlab" / "_bin").exists()
    for module in (ROOT / "python" / "virtlab").glob("_native*.so"):
        shutil.copy(module, folder / "python" / "virtlab")
    (folder / "python" / "sitecustomize.py").write_text(WITHOUT)
    return folder


def run(elsewhere: Path, *command: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    """Python there, in the folder."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(elsewhere / "python"),
        "VIRTLAB_NO_AGENT": "1",
        "COLUMNS": "120",
    }
    done = subprocess.run(
        [sys.executable, *command],
        cwd=elsewhere,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code, done.stdout + done.stderr
    return done


def virtlab(elsewhere: Path, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    return run(elsewhere, "-c", "from virtlab.cli.main import main; main()", *arguments, code=code)


def test_nothing_of_unix_is_there_and_virtlab_is_that_of_the_source_distribution(elsewhere: Path) -> None:
    asked = "import os, virtlab; print(virtlab.__file__, hasattr(os, 'fork'))"
    assert run(elsewhere, "-c", asked).stdout.split() == [
        str(elsewhere / "python/virtlab/__init__.py"),
        "False",
    ]
    assert "No module named 'fcntl'" in run(elsewhere, "-c", "import fcntl", code=1).stderr


def test_experiments_are_simulated_reported_exported_and_compared(elsewhere: Path) -> None:
    demo = json.loads(virtlab(elsewhere, "demo", "--directory", "demo", "--json").stdout)
    assert [one["verdict"] for one in demo["answers"]["simulator"]["verdicts"]] == ["holds"] * 3
    file = "demo/experiment.yaml"
    virtlab(elsewhere, "check", file)
    virtlab(elsewhere, "run", file, "--backend", "simulator", "--jobs", "2", "--dataset", "b.results")
    page = elsewhere / "b.results" / "report" / "report.html"
    page.unlink()
    virtlab(elsewhere, "report", "b.results")
    assert page.stat().st_size > 100_000
    virtlab(elsewhere, "export", "b.results", "--output", "values.parquet")
    virtlab(elsewhere, "compare", "demo/simulator.results", "b.results")
    virtlab(elsewhere, "predict", file)
    asked = "import virtlab as vl; print(len(vl.open('b.results').verdicts))"
    assert run(elsewhere, "-c", asked).stdout == "3\n"


def test_deadlines_are_analysed(elsewhere: Path) -> None:
    checks = json.loads(virtlab(elsewhere, "rt", "check-published", "--sets", "10", "--json").stdout)[
        "checks"
    ]
    assert len(checks) > 10


HERE = "run it on Linux"
INSTEAD = {
    "doctor": HERE, "platforms": HERE, "image list": HERE, "down": HERE, "exec a -- true": HERE, "shell a": HERE,
    "up demo.yaml": "simulate the file with 'virtlab run --backend simulator'",
    "run demo.yaml": "use --backend simulator",
    "demo --real --directory real": "leave --real out",
    "plan demo.yaml --point 0": "leave --point out",
    "calibrate --quick --output measured.json": "copy the profile that --output writes",
    "rt run tasks.csv --period 7ms --budget 4ms": "'virtlab rt analyze' answers the same question",
    "rt overhead": "state what it measures to 'virtlab rt analyze --overhead'",
}  # fmt: skip


@pytest.mark.parametrize("command", INSTEAD)
def test_a_command_of_the_testbed_says_in_one_line_what_it_needs(elsewhere: Path, command: str) -> None:
    """And what to do instead, which is something that this command or this system can do."""
    (elsewhere / "demo.yaml").write_text(template("demo", "demo"))
    (elsewhere / "tasks.csv").write_text("name,period,wcet\na,8 ms,1 ms\n")
    said = virtlab(elsewhere, *command.split(), code=3).stderr.splitlines()
    assert said[-1].startswith("virtlab: ")
    what, _, cure = said[-1].partition("; ")
    assert "testbeds need Linux, and this system has no " in what
    assert INSTEAD[command] in cure
    assert ("--backend" in cure) == command.startswith(("run", "up"))
    assert not any("Traceback" in line for line in said)


def test_what_is_told_to_do_instead_works(elsewhere: Path) -> None:
    (elsewhere / "demo.yaml").write_text(template("demo", "demo"))
    (elsewhere / "tasks.csv").write_text("name,period,wcet\na,8 ms,1 ms\n")
    given = ("--period", "7ms", "--budget", "4ms", "--overhead", "100us")
    virtlab(elsewhere, "rt", "analyze", "tasks.csv", *given)
    virtlab(elsewhere, "plan", "demo.yaml")


def test_a_dataset_has_one_writer_and_a_killed_one_leaves_no_lock(elsewhere: Path) -> None:
    asked = (
        "import sys; from pathlib import Path; from virtlab.results.lock import FileLock, Holder\n"
        "lock = FileLock(Path('lock')); print(lock.acquire(Holder(7, 'a test')), lock.holder(), flush=True)\n"
        "sys.stdin.read() if 'wait' in sys.argv else lock.release()"
    )
    environment = {**os.environ, "PYTHONPATH": str(elsewhere / "python")}
    with subprocess.Popen(
        [sys.executable, "-c", asked, "wait"], cwd=elsewhere, env=environment, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as first:  # fmt: skip
        assert first.stdout is not None
        assert first.stdout.readline() == "True process 7 (a test)\n"
        assert run(elsewhere, "-c", asked).stdout == "False process 7 (a test)\n"
        first.kill()
    assert run(elsewhere, "-c", asked).stdout.startswith("True ")


def test_without_an_agent_a_testbed_is_refused_in_one_line(tmp_path: Path) -> None:
    """On Linux, with everything but the agent."""
    (tmp_path / "demo.yaml").write_text(template("demo", "demo"))
    environment = {**os.environ, "VIRTLAB_NO_AGENT": "1"}
    done = subprocess.run(
        [Path(sys.executable).with_name("virtlab"), "up", "demo.yaml"],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 3
    assert "VIRTLAB_NO_AGENT says that there is no agent" in done.stderr
    assert "Traceback" not in done.stderr
