"""What ends a command has its own exit code: none reads as an answer of the study, and each says the cure."""

from __future__ import annotations

import errno
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests import plain

from virtlab.cli.main import PACKAGES, main

STUDY = """version: 1
name: codes
hosts: 2
topology: direct
roles: {probe: {workload: rtt, from: h1.g1, to: h2.g1, count: 5}}
"""


def ended(shell: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """A command line of a shell in a folder with a study; VIRTLAB is the command."""
    (folder / "study.yaml").write_text(STUDY)
    line = shell.replace("VIRTLAB", str(Path(sys.executable).with_name("virtlab")))
    environment = os.environ | plain.without_pictures(folder / "plain")
    return subprocess.run(
        ["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    ("number", "cure"),
    [
        (errno.EIO, "dmesg"),
        (errno.ESTALE, "mount it again"),
        (errno.EMFILE, "raise the limit with 'ulimit -n "),
        (errno.ENFILE, "fs.file-max"),
        (errno.ENOMEM, "more memory"),
        (errno.EAGAIN, "ulimit -u"),
        (errno.ENOSPC, "make room"),
    ],
)
def test_what_the_machine_refuses_is_told_with_its_cure(
    number: int, cure: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(**_: object) -> None:
        raise OSError(number, os.strerror(number), "/mnt/data")

    monkeypatch.setattr("virtlab.cli.main.app", refused)
    with pytest.raises(SystemExit) as code:
        main([])
    assert code.value.code == 3
    err = capsys.readouterr().err
    assert err.startswith("virtlab: /mnt/data: ")
    assert cure in err
    assert len(err.splitlines()) == 1


def test_a_panic_of_the_extension_module_is_a_defect_and_no_refuted_claim(tmp_path: Path) -> None:
    """A panic of Rust itself, in a process of its own, where a command calls the module."""
    program = (
        "import virtlab._native as native, virtlab.cli.main as cli;"
        " cli.app = lambda **_: native._panic_for_tests(); cli.main([])"
    )
    found = ended(f"{sys.executable} -c '{program}'", tmp_path)
    assert found.returncode == 70
    assert "this is a defect of virtlab" in found.stderr
    assert "panicked at crates/virtlab-py/src/lib.rs" in found.stderr


SMALL = "mount -t tmpfs -o size=96k none small && cp study.yaml small && cd small"
COMMAND = "VIRTLAB run study.yaml --backend simulator --no-report"
NAMESPACES = subprocess.run(["unshare", "-rm", "true"], capture_output=True, check=False).returncode == 0


@pytest.mark.skipif(not NAMESPACES, reason="no mount namespace here")
def test_a_file_system_that_is_full_is_told_with_its_cure(tmp_path: Path) -> None:
    (tmp_path / "small").mkdir()
    found = ended(f"unshare -rm bash -c '{SMALL}; {COMMAND}'", tmp_path)
    assert found.returncode == 3, found
    assert "Traceback" not in found.stderr
    last = found.stderr.splitlines()[-1]
    assert last.startswith("virtlab: ")
    assert "No space left on device" in last
    assert "make room" in last


def test_a_device_that_fails_is_no_mistake_of_the_file_on_it(tmp_path: Path) -> None:
    """The kernel gives EIO where a process reads memory that it does not have."""
    found = ended("VIRTLAB check /proc/self/mem", tmp_path)
    assert found.returncode == 3
    assert found.stderr.startswith(
        "virtlab: /proc/self/mem: Input/output error; the device fails: see 'dmesg'"
    )
    assert len(found.stderr.splitlines()) == 1


def test_a_shared_library_that_is_absent_is_named_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The dynamic loader itself says so: a module is linked against a library that is then gone."""
    library, module = tmp_path / "libgone++.so.6", tmp_path / "linked.so"
    (tmp_path / "empty.c").write_text("int nothing;")
    for made, more in ((library, ["-Wl,-soname,libgone++.so.6"]), (module, [str(library)])):
        source = [str(tmp_path / "empty.c"), "-Wl,--no-as-needed"]
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(made), *source, *more], check=True)
    library.unlink()

    def loaded(**_: object) -> None:
        spec = importlib.util.spec_from_file_location("linked", module)
        assert spec is not None
        importlib.util.module_from_spec(spec)

    monkeypatch.setattr("virtlab.cli.main.app", loaded)
    monkeypatch.setitem(PACKAGES, "libgone++.so.6", "libgone6")
    with pytest.raises(SystemExit) as code:
        main([])
    assert code.value.code == 3
    err = capsys.readouterr().err
    assert err.startswith("virtlab: this system has no libgone++.so.6")
    assert "on Debian the package libgone6" in err
    assert len(err.splitlines()) == 1


def test_memory_that_is_short_is_the_machines_affair(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def short(**_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("virtlab.cli.main.app", short)
    with pytest.raises(SystemExit) as code:
        main([])
    assert code.value.code == 3
    assert "more memory" in capsys.readouterr().err


@pytest.mark.parametrize("output", [">&-", ">/dev/full", ">/dev/full 2>/dev/full"])
def test_a_standard_output_that_takes_nothing_is_the_machines_affair(output: str, tmp_path: Path) -> None:
    found = ended(f"VIRTLAB check study.yaml {output}", tmp_path)
    assert found.returncode == 3
    assert "Traceback" not in found.stderr


@pytest.mark.parametrize("errors", ["2>&-", "2>/dev/full", "2>&1 >/dev/null | true"])
def test_an_error_output_that_takes_nothing_stops_no_run(errors: str, tmp_path: Path) -> None:
    found = ended(f"set -o pipefail; VIRTLAB run study.yaml --backend simulator {errors}", tmp_path)
    assert found.returncode == 0, found.stderr
    assert (tmp_path / "codes.results" / "report" / "report.html").exists()


def test_a_reader_that_ends_first_ends_the_command_as_it_ends_every_other(tmp_path: Path) -> None:
    """The output is larger than a pipe holds."""
    found = ended("VIRTLAB schema | true; exit ${PIPESTATUS[0]}", tmp_path)
    assert found.returncode == 141
    assert found.stderr == ""


def needed_by(words: str, limit: int, folder: Path) -> int:
    """How many open files a command asks for that may have `limit`; with as many it does what it was asked."""
    refused = ended(f"ulimit -n {limit}; {words}", folder)
    assert refused.returncode == 3, refused
    assert "Traceback" not in refused.stderr
    line = refused.stderr.splitlines()[-1]
    told = re.search(r"; raise the limit with 'ulimit -n (\d+)'", line)
    assert told, line
    needed = int(told[1])
    assert limit < needed < 1024
    allowed = ended(f"ulimit -n {needed}; {words}", folder)
    assert allowed.returncode in {0, 4}, allowed.stderr
    return needed


def test_a_limit_of_open_files_says_how_many_this_experiment_needs(tmp_path: Path) -> None:
    one = "VIRTLAB run study.yaml --backend simulator --no-report --fresh-name --jobs"
    few, many = needed_by(f"{one} 2", 16, tmp_path), needed_by(f"{one} 12", 64, tmp_path)
    assert few < 64 < many


def test_a_dataset_of_more_runs_than_files_may_be_open_says_how_many_it_needs(tmp_path: Path) -> None:
    (tmp_path / "more.yaml").write_text(STUDY.replace("codes", "more") + "repeat: 40\n")
    assert ended("VIRTLAB run more.yaml --backend simulator --no-report", tmp_path).returncode == 0
    reports = "VIRTLAB report more.results --figures none"
    needed_by(reports, 48, tmp_path)
    # A soft limit is nobody's will: it is raised as far as the task needs.
    assert ended(f"ulimit -Sn 48; {reports}", tmp_path).returncode in {0, 4}


@pytest.mark.parametrize("output", [">&-", ">/dev/full", ">/dev/full 2>/dev/full"])
def test_an_export_that_nobody_gets_is_no_success(output: str, tmp_path: Path) -> None:
    assert ended("VIRTLAB run study.yaml --backend simulator --no-report", tmp_path).returncode == 0
    found = ended(f"VIRTLAB export codes.results {output}", tmp_path)
    assert found.returncode == 3
    assert "Traceback" not in found.stderr
