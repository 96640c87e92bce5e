"""Licences of the crates, as cargo tells them, and what is told to those who get a wheel."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from tools import inside

ROOT = Path(__file__).parents[2]
PERMISSIVE = re.compile(
    r"\b(MIT|Apache-2\.0|BSD-[23]-Clause|ISC|Zlib|Unlicense|0BSD|Unicode-3\.0|CC0-1\.0|BSL-1\.0)\b"
)


pytestmark = pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is not here")


def test_every_crate_has_a_licence_that_lets_it_be_linked() -> None:
    command = ["cargo", "metadata", "--locked", "--offline", "--format-version", "1"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    crates = json.loads(done.stdout)["packages"]
    assert len(crates) > 30
    wrong = [
        f"{one['name']}: {one['license']}" for one in crates if not PERMISSIVE.search(one["license"] or "")
    ]
    assert wrong == []


def test_the_notice_is_that_of_the_locked_crates() -> None:
    assert (ROOT / "NOTICE").read_text() == inside.notice(), "write it again: python -m tools.inside"


def test_every_linked_crate_has_its_licence_and_the_notices_of_its_authors() -> None:
    found = inside.crates()
    names = {crate.name for crate in found}
    assert {"nix", "libc", "pyo3", "clap", "serde_json"} <= names
    assert (
        not {"proptest", "syn", "serde_derive", "pyo3-build-config"} & names
    )  # these build, and are not inside
    notice = (ROOT / "NOTICE").read_text()
    for crate in found:
        assert f"\n{crate.name} {crate.version}: {crate.licence}\n" in notice
        assert crate.notices(), crate.name
        assert all(text in notice for text in crate.notices())
    for library in ("Rust standard library", "GNU C Library", "libgcc"):
        assert library in notice


def test_texts_of_licences_that_the_notice_names_go_with_every_wheel() -> None:
    named = set(re.findall(r"\blicences/[\w.-]+\.txt\b", inside.SYSTEM))
    assert named == {f"licences/{path.name}" for path in (ROOT / "licences").iterdir()}
    assert len(named) == 3
    files = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license-files"]
    assert {str(path.relative_to(ROOT)) for each in files for path in ROOT.glob(each)} == {
        "LICENSE", "NOTICE", *named,
    }  # fmt: skip
    beginnings = {
        "LGPL-2.1.txt": "GNU LESSER GENERAL PUBLIC LICENSE Version 2.1",
        "GPL-3.0.txt": "GNU GENERAL PUBLIC LICENSE Version 3",
        "GCC-exception-3.1.txt": "GCC RUNTIME LIBRARY EXCEPTION Version 3.1",
    }
    for name, begin in beginnings.items():
        assert " ".join((ROOT / "licences" / name).read_text().split()).startswith(begin)


def test_the_bill_of_materials_names_every_crate_and_every_package_once() -> None:
    bill = inside.sbom()
    assert bill == inside.sbom()
    refs = [one["bom-ref"] for one in bill["components"]]
    assert len(set(refs)) == len(refs)
    assert bill["dependencies"][0]["dependsOn"] == refs
    packages = {one["name"] for one in bill["components"] if one["purl"].startswith("pkg:pypi/")}
    locked = re.findall(r"^([\w.-]+)==", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
    assert packages == set(locked) >= {"numpy", "duckdb"}
    linked = [one for one in bill["components"] if one["purl"].startswith("pkg:cargo/")]
    assert {one["name"] for one in linked} == {crate.name for crate in inside.crates()}
    assert all(re.fullmatch(r"[0-9a-f]{64}", one["hashes"][0]["content"]) for one in linked)
