"""A build from the source distribution on a system with musl ends with one line, before anything is compiled.

Python is told that it was built for musl by a table of `sysconfig` of its own; everything else is pip's and maturin's.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TABLE = "_sysconfigdata_musl"


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    """The source distribution, unpacked."""
    maturin = Path(sys.executable).with_name("maturin")
    if not maturin.exists() or shutil.which("cargo") is None:
        pytest.skip("maturin and cargo, which make the source distribution, are not here")
    environment = {**os.environ, "CARGO_NET_OFFLINE": "true"}
    subprocess.run([maturin, "sdist", "-o", tmp_path], cwd=ROOT, env=environment, check=True)
    (archive,) = tmp_path.glob("*.tar.gz")
    shutil.unpack_archive(archive, tmp_path / "sources")
    return next((tmp_path / "sources").iterdir())


def environment(tmp_path: Path, libc: str) -> dict[str, str]:
    """Of a Python that was built for this C library."""
    table = {name: value.replace("linux-gnu", f"linux-{libc}") if isinstance(value, str) else value
             for name, value in sysconfig.get_config_vars().items()}  # fmt: skip
    (tmp_path / f"{TABLE}.py").write_text(f"build_time_vars = {table!r}\n")
    return {**os.environ, "_PYTHON_SYSCONFIGDATA_NAME": TABLE, "PYTHONPATH": str(tmp_path)}


def test_pip_ends_with_one_line_where_there_is_musl(sources: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pip", "install", "--no-build-isolation", "--no-deps", "--no-index"]
    command += ["--target", tmp_path / "installed", sources]
    done = subprocess.run(
        command, env=environment(tmp_path, "musl"), cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    said = [line.strip() for line in done.stderr.splitlines() if "virtlab:" in line]
    assert len(said) == 1, done.stderr
    assert said[0].startswith("virtlab: Alpine and other systems with musl are not supported, since DuckDB")
    assert "[1 lines of output]" in done.stderr, "something was done before"
    assert not list(sources.glob("target/*"))


def test_where_there_is_glibc_maturin_is_asked(sources: Path, tmp_path: Path) -> None:
    ask = "import checked_maturin as b; print(b.get_requires_for_build_wheel(), b.build_wheel.__module__)"
    done = subprocess.run(
        [sys.executable, "-c", ask],
        env={**environment(tmp_path, "gnu"), "PYTHONPATH": f"{tmp_path}:{sources / 'tools' / 'backend'}"},
        cwd=sources,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip().endswith("maturin")
