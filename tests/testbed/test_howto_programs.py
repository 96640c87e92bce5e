"""The how-to about programs under test: its studies run as they stand, on both arms, and their servers serve."""

from __future__ import annotations

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
import testbed_world as worlds

from virtlab.cli.main import main

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "test-a-program.md"
LINES_MAX = 25
FOUND_HERE = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@dataclass(frozen=True)
class Study:
    """A study of the page, what it needs, and what a run of it leaves."""

    name: str
    programs: tuple[str, ...]
    packages: str
    served: tuple[str, bytes]  # an artefact and a text in it
    asked: bytes  # in the client's output


STUDIES = (
    Study(
        "redis",
        ("redis-server", "redis-benchmark"),
        "redis-server redis-tools",
        ("service-store-h2.g1.log", b"Ready to accept connections"),
        b'"SET",',
    ),
    Study(
        "postgresql",
        ("pgbench",),
        "postgresql",
        ("service-store-h2.g1.log", b"ready to accept connections"),
        b"tps = ",
    ),
    Study(
        "nginx", ("nginx", "wrk"), "nginx-light wrk", ("clients.out", b"8080/index.html"), b"Requests/sec:"
    ),
)
pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))


def text_of(study: Study) -> str:
    found = re.search(
        rf"<!-- file: {study.name}.yaml -->\n```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL
    )
    assert found is not None
    return found[1]


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_the_study_is_short(study: Study) -> None:
    assert len(text_of(study).splitlines()) <= LINES_MAX


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
def test_the_simulator_plays_the_study_too(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No program is needed for it; what the server costs is declared, so that its claim holds whatever runs beside."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    Path("study.yaml").write_text(text_of(study))
    with pytest.raises(SystemExit) as ended:
        main(["run", "study.yaml", "--backend", "simulator", "--no-report"])
    assert ended.value.code == 0


@pytest.mark.parametrize("study", STUDIES, ids=lambda study: study.name)
@pytest.mark.timeout(300)
def test_the_study_loads_the_server_that_it_starts(
    study: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for program in study.programs:
        if shutil.which(program, path=FOUND_HERE) is None:
            pytest.skip(f"no {program}: apt install {study.packages}")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", FOUND_HERE)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    text = re.sub("^repeat: .*\n", "", text_of(study), flags=re.MULTILINE) + "repeat: 1\n"
    Path("study.yaml").write_text(text)
    with pytest.raises(SystemExit) as ended:
        main(["run", "study.yaml", "--allow-exec", "--no-report"])
    # Of one run of each point, on a machine that does other work, there is no verdict.
    assert ended.value.code in {0, 1, 4}
    runs = [json.loads(path.read_text()) for path in Path(f"{study.name}.results/runs").glob("*/run.json")]
    assert runs
    assert {run["status"] for run in runs} <= {"ok", "tainted"}, runs
    artefact, served = study.served
    for run in runs:
        kept = Path(f"{study.name}.results/runs") / run["run"] / "artefacts"
        assert served in (kept / artefact).read_bytes()
        assert study.asked in (kept / "clients.out").read_bytes()
