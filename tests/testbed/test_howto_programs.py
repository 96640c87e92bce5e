"""The how-to about programs under test: its study runs as it stands, and its server serves."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest
import testbed_world as worlds

from virtlab.cli.main import main

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "test-a-program.md"
LINES_MAX = 25
PROGRAMS = ("redis-server", "redis-benchmark")
lacking = [name for name in PROGRAMS if shutil.which(name) is None]
pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))


def study() -> str:
    found = re.search(
        r"<!-- file: redis.yaml -->\n```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL
    )
    assert found is not None
    return found[1]


def test_the_study_is_short() -> None:
    assert len(study().splitlines()) <= LINES_MAX


@pytest.mark.skipif(
    bool(lacking), reason=f"no {' and no '.join(lacking)}: apt install redis-server redis-tools"
)
@pytest.mark.timeout(300)
def test_the_study_loads_the_server_that_it_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    Path("redis.yaml").write_text(study().replace("repeat: 3", "repeat: 1"))
    with pytest.raises(SystemExit) as ended:
        main(["run", "redis.yaml", "--allow-exec", "--no-report"])
    assert ended.value.code in {
        0,
        1,
        4,
    }  # of one run of each point, on a machine that does other work, no verdict
    runs = [json.loads(path.read_text()) for path in Path("redis.results/runs").glob("*/run.json")]
    assert {run["status"] for run in runs} <= {"ok", "tainted"}, runs
    for run in runs:
        kept = Path("redis.results/runs") / run["run"] / "artefacts"
        assert b"Ready to accept connections" in (kept / "service-store-h2.g1.log").read_bytes()
        assert b'"SET",' in (kept / "clients.out").read_bytes()
