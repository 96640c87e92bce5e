"""Licences of the crates, as cargo tells them."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PERMISSIVE = re.compile(
    r"\b(MIT|Apache-2\.0|BSD-[23]-Clause|ISC|Zlib|Unlicense|0BSD|Unicode-3\.0|CC0-1\.0|BSL-1\.0)\b"
)


@pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is not here")
def test_every_crate_has_a_licence_that_lets_it_be_linked() -> None:
    command = ["cargo", "metadata", "--locked", "--offline", "--format-version", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    crates = json.loads(done.stdout)["packages"]
    assert len(crates) > 30
    wrong = [
        f"{one['name']}: {one['license']}" for one in crates if not PERMISSIVE.search(one["license"] or "")
    ]
    assert wrong == []
