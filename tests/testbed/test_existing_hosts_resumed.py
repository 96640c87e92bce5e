"""A host that is rebooted in mid-campaign uses up no attempt: the campaign stops and says so, and the command
resumes.
"""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from pathlib import Path

import far_world as far_worlds
import pytest
import testbed_world as worlds

from virtlab.campaign.loop.schedule import ATTEMPTS
from virtlab.cli.main import main

pytestmark = [
    pytest.mark.skipif(far_worlds.missing() is not None, reason=str(far_worlds.missing())),
    pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing())),
    pytest.mark.timeout(300),
]
FILE = """
version: 1
name: far
hosts:
  h1: {platform: ssh, address: host-a}
  h2: {platform: ssh, address: host-b}
repeat: 4
roles:
  probe: {workload: rtt, from: h1.g1, to: h2.g1, size: 100 B ip_packet, interval: 5 ms, count: 200}
"""
RUNS = 4


def statuses() -> dict[str, tuple[int, str]]:
    """Repetition and status of each kept run, by its name."""
    kept = [json.loads(path.read_text()) for path in sorted(Path("far.results/runs").glob("*/run.json"))]
    return {run["run"]: (run["repetition"], run["status"]) for run in kept}


def repetitions(runs: dict[str, tuple[int, str]], status: str) -> set[int]:
    return {repetition for repetition, found in runs.values() if found == status}


def campaign() -> int:
    with pytest.raises(SystemExit) as ended:
        main(["run", "far.yaml", "--no-report"])
    return int(str(ended.value.code))


def test_a_host_that_is_rebooted_in_mid_campaign_costs_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    Path("far.yaml").write_text(FILE)
    (tmp_path / "keys").mkdir()
    with far_worlds.far_hosts(tmp_path / "keys") as mortal:
        monkeypatch.setenv("VIRTLAB_SSH", mortal.command)
        over = threading.Event()

        def reboot() -> None:
            while not list(Path("far.results/runs").glob("*/run.json")) and not over.wait(0.02):
                pass
            time.sleep(0.5)
            mortal.cut("b")

        cutter = threading.Thread(target=reboot)
        cutter.start()
        code = campaign()
        over.set()
        cutter.join()
        said = capsys.readouterr().err
        assert code == 3, said
        assert "host-b" in said
        assert "the same command resumes" in said
        before = statuses()
        good = repetitions(before, "ok")
        assert len(good) < RUNS
        assert any(status != "failed" for _, status in before.values()), (
            "the host was there for the first run"
        )
        far_worlds.restart(mortal, "b")
        assert campaign() in {0, 4}, capsys.readouterr().err  # on a busy machine good runs may be too few
        after = statuses()
        assert before.items() <= after.items(), "what was finished stays as it was"
        rest = {name: run for name, run in after.items() if name not in before}
        assert not good & {repetition for repetition, _ in rest.values()}, "a good run is not repeated"
        assert not repetitions(rest, "failed")
        whole = Counter(repetition for repetition, status in after.values() if status != "failed")
        for repetition in range(RUNS):
            ok = repetition in good | repetitions(rest, "ok")
            assert ok or whole[repetition] >= ATTEMPTS, "no attempt was used up"
