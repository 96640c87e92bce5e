"""A disk that is full while real guests run: the campaign stops and says so, and nothing is left."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import testbed_world as worlds

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to mount a small disk in a mount namespace"),
    pytest.mark.skipif(worlds.missing() is not None, reason=str(worlds.missing())),
    pytest.mark.timeout(300),
]
# Some 37,000 packets a second, for a moment and for so long that what is kept of them has no room.
FILE = """
version: 1
name: crowded
factors: {duration: [50 ms, 3 s]}
hosts: 2
topology: line
link: {rate: 100 Mbit/s}
roles:
  load: {workload: udp_stream, from: h1.g1, to: h2.g1, size: 200 B ip_packet, rate: 60 Mbit/s, duration: "${duration}"}
repeat: 2
"""
RUNS = """
from pathlib import Path
from virtlab.cli.main import main
from virtlab.testbed import Testbed
filler, build = Path("disk/filler"), Testbed.open

def crowded(self, plan, observe):  # room for a reason, and for no samples; elsewhere there is room again
    filler.unlink(missing_ok=True)
    if plan.point["duration"] == "3 s":
        with filler.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                file.truncate(file.tell() - 64 * 1024)
    return build(self, plan, observe)

Testbed.open = crowded
main(["run", "crowded.yaml", "--no-report", "--dataset", "disk/d"])
"""
AFTER = """
import json
from virtlab.results import Dataset
print(json.dumps([
    [run.name, run.levels["duration"], run.status, list(run.reasons), sorted(map(str, run.streams()))]
    for run in Dataset.open("disk/d").runs()
]))
"""


def test_a_real_run_without_room_for_its_samples_stops_the_campaign(tmp_path: Path) -> None:
    (tmp_path / "crowded.yaml").write_text(FILE)
    (tmp_path / "disk").mkdir()
    script = 'mount -t tmpfs -o size=8m none disk && { "$1" -c "$2"; echo "ended $?"; "$1" -c "$3"; }'
    argv = ["unshare", "--mount", "sh", "-c", script, "-", sys.executable, RUNS, AFTER]
    before = worlds.own_processes()
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "ended 3" in done.stdout, done.stdout + done.stderr
    assert done.stderr.splitlines()[-1].startswith("virtlab: disk/d: no room for the run's samples"), (
        done.stderr
    )
    runs = json.loads(done.stdout.splitlines()[-1])
    short = [run for run in runs if run[1] == "50 ms"]
    long = [run for run in runs if run[1] == "3 s"]
    assert [status for _, _, status, _, _ in short if status in {"ok", "tainted"}], runs
    assert len(long) == 1, "nothing is tried again on a full disk"
    for name, _, status, reasons, streams in long:
        assert (status, streams) == ("failed", []), name
        (reason,) = reasons
        assert "no room for the run's samples" in reason
        assert reason.endswith("make room there")
    assert worlds.own_processes() <= before
