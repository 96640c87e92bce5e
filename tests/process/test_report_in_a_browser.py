"""The page of a report in a real browser."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.report.report_specimen import write_dataset
from tests.unit.report.test_report_page import OURS

from virtlab.report import write_report


@pytest.mark.skipif(shutil.which("chromium") is None, reason="no chromium on this machine")
@pytest.mark.parametrize("pictures", [True, False])
def test_a_browser_draws_the_plots_and_runs_no_foreign_script(
    pictures: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not pictures:
        monkeypatch.setitem(sys.modules, "vl_convert", None)
    page = write_report(write_dataset(tmp_path / "specimen.results", hostile=True))
    command = [
        "chromium", "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", "--no-first-run", f"--user-data-dir={tmp_path}",
        "--virtual-time-budget=15000", "--enable-logging=stderr", "--window-size=1300,3000", "--dump-dom",
        page.absolute().as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode != 0:
        pytest.skip(f"chromium does not run here: {done.stderr[-200:]}")
    console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
    assert console == []
    assert len(re.findall(r'<div class="[^"]*vega-embed', done.stdout)) >= 2
    assert done.stdout.count("<script") == OURS
