"""A full disk: the run is marked failed with one clear reason, the campaign stops, and the same command resumes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from virtlab.results import Dataset

PROGRAM = """
import json, sys
from pathlib import Path
sys.path[:0] = [sys.argv[1], str(Path(sys.argv[1]).parents[1])]
from test_campaign_runs import campaign, opened, ClosedForm
from virtlab.errors import MachineError
from virtlab.results import Dataset
place, filler = Path("disk"), Path("disk/filler")
told = {}

class Fills(ClosedForm):
    plays = 0
    def open(self, plan, observe):
        type(self).plays += 1
        if type(self).plays == 3:  # room for a reason, and for no samples
            free = int(sys.argv[2])
            block = b"x" * 4096
            with filler.open("wb", buffering=0) as file:
                try:
                    while True:
                        file.write(block)
                except OSError:
                    pass
                size = file.tell()
                file.truncate(max(0, size - free))
        elif type(self).plays == 4:
            filler.unlink(missing_ok=True)
        session = super().open(plan, observe)
        run = session.run
        def large(trial, sink):
            sink.artefact("large", [b"x" * 4096] * 50)
            return run(trial, sink)
        session.run = large
        return session

backend = Fills()
try:
    with opened(place / "d", backend) as dataset:
        ending = campaign(dataset, backend, repetitions=2).run()
        told["why"], told["failure"] = ending.why, ending.failure
except MachineError as error:
    told["error"] = str(error)
told["runs"] = {
    record.name: [record.status, list(record.reasons), sorted(stream.file_name for stream in record.streams())]
    for record in Dataset.open(place / "d").runs()
}
told["partial"] = [path.name for path in (place / "d").glob("runs/.partial-*")]
filler.unlink(missing_ok=True)
with opened(place / "d", ClosedForm()) as dataset:
    told["after"] = campaign(dataset, ClosedForm(), repetitions=2).run().made
    told["good"] = sum(record.status == "ok" for record in dataset.runs())
print(json.dumps(told))
"""


def on_a_small_disk(folder: Path, free_bytes: int) -> dict[str, object]:
    """Runs of a campaign whose disk, of a mount namespace of its own, is filled up to so many bytes before the third
    run.
    """
    if shutil.which("unshare") is None:
        pytest.skip("unshare is missing (util-linux)")
    (folder / "disk").mkdir()
    argv = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"]), "sh", "-c"]
    script = 'mount -t tmpfs -o size=8m none disk && exec "$@"'
    if subprocess.run([*argv, script, "-", "true"], cwd=folder, capture_output=True, check=False).returncode:
        pytest.skip("no file system can be mounted here")
    words = [sys.executable, "-c", PROGRAM, str(Path(__file__).parent), str(free_bytes)]
    done = subprocess.run(
        [*argv, script, "-", *words], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    told: dict[str, object] = json.loads(done.stdout)
    return told


def test_a_run_without_room_for_its_samples_stops_the_campaign_and_uses_up_no_attempt(tmp_path: Path) -> None:
    told = on_a_small_disk(tmp_path, 100 * 1024)
    runs = told["runs"]
    assert isinstance(runs, dict)
    assert "error" not in told
    failed = [name for name, (status, _, _) in runs.items() if status == "failed"]
    assert len(failed) == 1
    (reason,) = runs[failed[0]][1]
    assert "no room for the run's samples (No space left on device); make room there" in reason
    assert runs[failed[0]][2] == []
    assert (told["why"], told["failure"]) == ("machine failure", reason)
    assert sum(status == "ok" for status, _, _ in runs.values()) == 2
    assert (told["partial"], told["after"], told["good"]) == ([], 6, 8)


def test_a_disk_without_room_for_the_reason_is_one_error_and_the_same_command_goes_on(tmp_path: Path) -> None:
    told = on_a_small_disk(tmp_path, 0)
    runs = told["runs"]
    assert isinstance(runs, dict)
    assert "the disk is full: not even the reason of p" in str(told["error"])
    assert str(told["error"]).endswith("make room there; the same command resumes")
    assert [status for status, _, _ in runs.values()] == ["ok", "ok"], "what was finished is there"
    assert (told["partial"], told["after"], told["good"]) == ([], 6, 8)


def test_a_disk_without_room_for_a_dataset_is_one_line_that_names_the_place(tmp_path: Path) -> None:
    (tmp_path / "limited.yaml").write_text(LIMITED)
    (tmp_path / "disk").mkdir()
    code = "import sys; from virtlab.cli.main import main; main(sys.argv[1:])"
    words = ["run", "limited.yaml", "--backend", "simulator", "--dataset", "disk/d"]
    argv = ["unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"]), "sh", "-c"]
    if subprocess.run(
        [*argv, "mount -t tmpfs none disk"], cwd=tmp_path, capture_output=True, check=False
    ).returncode:
        pytest.skip("no file system can be mounted here")
    for inodes in (1, 100):  # none for its folder, none for its files
        script = f'mount -t tmpfs -o size=4k,nr_inodes={inodes} none disk && exec "$@"'
        command = [*argv, script, "-", sys.executable, "-c", code, *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 3, done.stderr
        (line,) = done.stderr.splitlines()
        assert line.startswith("virtlab: disk/d")
        assert line.endswith("No space left on device; make room; the same command resumes")


LIMITED = """
version: 1
name: limited
hosts: 2
topology: line
roles:
  probe: {workload: rtt, from: h1.g1, to: h2.g1, interval: 1 ms, count: "${count}", arrivals: poisson}
factors: {count: [10, 5000]}
repeat: 2
limits: {disk: 20 kB}
"""


def test_a_run_that_would_keep_more_than_its_file_allows_failed_and_the_rest_is_kept(tmp_path: Path) -> None:
    (tmp_path / "limited.yaml").write_text(LIMITED)
    words = ["run", "limited.yaml", "--backend", "simulator", "--no-report"]
    code = "import sys; from virtlab.cli.main import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", code, *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 4, done.stderr
    runs = Dataset.open(tmp_path / "limited.results").runs()
    assert {(run.levels["count"], run.status) for run in runs} == {("10", "ok"), ("5000", "failed")}
    for run in runs:
        if run.status == "failed":
            (reason,) = run.reasons
            assert reason.startswith("limits.disk: the run would keep ")
            assert reason.endswith("and the file allows 20000 B; allow more, or keep less with 'collect'")
            assert run.streams() == []
