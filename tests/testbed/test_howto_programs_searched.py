"""The how-to about programs under test: a search finds the rate of a server that a token bucket limits."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pytest
import testbed_world as worlds

from virtlab.analysis.searches.searched import trials_of
from virtlab.cli.main import main
from virtlab.results import Dataset

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "test-a-program.md"
FOUND_HERE = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
RATE_PER_S = 200
pytestmark = pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing()))


@pytest.mark.timeout(300)
def test_the_rate_of_a_limited_server_is_found_within_a_twentieth(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if shutil.which("nginx", path=FOUND_HERE) is None:
        pytest.skip("no nginx: apt install nginx-light")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", FOUND_HERE)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    found = re.search(
        r"<!-- file: limited.yaml -->\n```yaml\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL
    )
    assert found is not None
    Path("limited.yaml").write_text(found[1] + "repeat: 1\n")
    with pytest.raises(SystemExit):
        main(["run", "limited.yaml", "--allow-exec", "--no-report"])
    answers = [
        held[2][0]["value"]
        for run in Dataset.open(Path("limited.results")).runs()
        if (held := trials_of(run))
    ]
    assert answers
    assert answers[-1] == pytest.approx(RATE_PER_S, rel=0.05)
