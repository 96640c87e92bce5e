"""What the lock files may hold: licences, sources, what stays out, crates in two versions; and private parts of
others.
"""

from __future__ import annotations

import importlib.metadata
import json
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.specifiers import SpecifierSet
from tools.advisories import advisories, affected, locked, main, normal
from tools.bounds import direct, lowest

ROOT = Path(__file__).parents[3]
PERMISSIVE = re.compile(
    r"MIT|BSD|Apache|ISC|Zlib|PSF|Python-2\.0|Python Software Foundation|Unlicense|0BSD|MPL-2\.0|Mozilla|CC0|"
    r"Public domain|LGPL-2\.0-or-later|LGPLv2\+"  # qemu.qmp: a library that is imported, not changed
)
BANNED = {
    "pandas",
    "polars",
    "pyarrow",
    "matplotlib",
    "plotly",
    "requests",
    "distributed",
    "dask",
    "vl-convert-python",
}  # of the core
OF_A_TEST_ALONE = {"pingouin"}  # GPL-3.0: a test on demand imports it, and nothing of it is passed on
TWICE = {"syn"}  # crates that are locked in two versions
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LOCKS = sorted(path.name for path in ROOT.glob("requirements*.lock"))
CRATE_LOCKS = ("Cargo.lock", "fuzz/Cargo.lock")
LICENCES = tomllib.loads((Path(__file__).with_name("licences.toml")).read_text())


def crates(file: str) -> list[dict[str, Any]]:
    return [one for one in tomllib.loads((ROOT / file).read_text())["package"] if "source" in one]


CRATES = crates("Cargo.lock")


def pins(file: str) -> dict[str, str]:
    return dict(re.findall(r"^([A-Za-z0-9][\w.-]*)==([^\s\\]+)", (ROOT / file).read_text(), re.MULTILINE))


def test_every_locked_package_has_hashes_and_comes_from_the_index() -> None:
    assert len(LOCKS) == 6
    for file in LOCKS:
        text = (ROOT / file).read_text().replace("\\\n", " ")
        lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
        assert len(lines) == len(pins(file))
        for line in lines:
            assert re.match(r"[\w.-]+==\S+\s+--hash=sha256:", line), line
            assert "://" not in line, line


def test_packages_that_two_lock_files_share_are_locked_in_one_version() -> None:
    versions: dict[str, set[str]] = {}
    for file in LOCKS:
        for name, version in pins(file).items():
            versions.setdefault(name.lower(), set()).add(version)
    assert {name: found for name, found in versions.items() if len(found) > 1} == {}


def test_the_core_is_free_of_what_is_banned() -> None:
    assert set(pins("requirements.lock")) & BANNED == set()


def stated(name: str, version: str) -> str | None:
    """What the metadata of an installed package say of its licence; None where that version is not installed."""
    try:
        meta = importlib.metadata.metadata(name)
    except importlib.metadata.PackageNotFoundError:
        return None
    if meta["Version"] != version:
        return None
    told = [str(meta.get("License-Expression") or ""), str(meta.get("License") or "")[:200]]
    told += [each for each in meta.get_all("Classifier") or [] if each.startswith("License")]
    return "; ".join(each for each in told if each)


def test_every_locked_package_installs_on_the_oldest_python_that_the_project_takes() -> None:
    """As far as packages that are installed tell. Debian 12 has Python 3.11.2."""
    oldest = PROJECT["project"]["requires-python"].removeprefix(">=") + ".0"
    wrong = []
    for name, version in {pin for file in LOCKS for pin in pins(file).items()}:
        try:
            meta = importlib.metadata.metadata(name)
        except importlib.metadata.PackageNotFoundError:
            continue
        takes = meta.get("Requires-Python") or ""
        if meta["Version"] == version and not SpecifierSet(takes).contains(oldest):
            wrong.append(f"{name} {version} needs Python {takes}")
    assert wrong == []


@pytest.mark.slow
def test_every_locked_package_has_a_licence_that_lets_it_be_used() -> None:
    """Of an installed package its own metadata tell; of any other, the table of licences that is kept here."""
    wrong = []
    for name, version in {pin for file in LOCKS for pin in pins(file).items()}:
        told = stated(name, version) or LICENCES["packages"].get(f"{name.lower()} {version}")
        if told is None:
            wrong.append(f"{name} {version} is not installed, and licences.toml does not have it")
        elif (not PERMISSIVE.search(told)) != (name in OF_A_TEST_ALONE):
            wrong.append(f"{name} {version}: {told}")
    assert wrong == []


def test_the_table_of_licences_is_that_of_the_lock_files_and_agrees_with_what_is_installed() -> None:
    always = {**pins("requirements.lock"), **pins("requirements-dev.lock")}
    locked = {f"{name.lower()} {version}" for file in LOCKS for name, version in pins(file).items()}
    wanted = locked - {f"{name.lower()} {version}" for name, version in always.items()}
    assert set(LICENCES["packages"]) == wanted
    for pin, licence in LICENCES["packages"].items():
        if told := stated(*pin.split()):
            family = re.split(r"[- ]", licence)[0].removesuffix("2.0")
            assert re.search(family, told.replace("Python Software Foundation", "PSF"), re.IGNORECASE), pin
    programs = {crate["name"] for crate in CRATES}
    assert set(LICENCES["crates"]) == {
        f"{one['name']} {one['version']}" for one in crates("fuzz/Cargo.lock") if one["name"] not in programs
    }
    assert all(PERMISSIVE.search(licence) for licence in LICENCES["crates"].values())


def test_fuzzing_is_locked_as_the_programs_are() -> None:
    """A dependency that a crate gained is in both lock files, and what both lock is of one version and content."""
    lock = tomllib.loads((ROOT / "fuzz" / "Cargo.lock").read_text())["package"]
    sums = {
        crate["name"]: (crate["version"], crate["checksum"]) for crate in CRATES if crate["name"] not in TWICE
    }
    for one in lock:
        if one["name"] in sums:
            assert (one["version"], one["checksum"]) == sums[one["name"]], one["name"]
        if "source" not in one:
            folder = "fuzz" if one["name"] == "virtlab-fuzz" else f"crates/{one['name']}"
            wanted = tomllib.loads((ROOT / folder / "Cargo.toml").read_text())["dependencies"]
            assert {name.split()[0] for name in one.get("dependencies", ())} == set(wanted), (
                f"{one['name']}: cd fuzz && cargo metadata --format-version 1 >/dev/null"
            )


@pytest.mark.parametrize("file", CRATE_LOCKS)
def test_every_crate_comes_from_the_registry_with_its_checksum(file: str) -> None:
    assert {crate["source"] for crate in crates(file)} == {
        "registry+https://github.com/rust-lang/crates.io-index"
    }
    assert all(re.fullmatch(r"[0-9a-f]{64}", crate["checksum"]) for crate in crates(file))


@pytest.mark.parametrize("file", CRATE_LOCKS)
def test_a_crate_is_locked_in_one_version(file: str) -> None:
    names = [crate["name"] for crate in crates(file)]
    assert {name for name in names if names.count(name) > 1} == TWICE


@pytest.mark.slow
def test_private_parts_of_a_library_are_bounded_from_above() -> None:
    declared = {re.split(r"[<>=]", one)[0]: one for one in direct(PROJECT["project"])}
    for name, sign in (
        ("typer", "__mro__"),
        ("vl-convert-python", "VEGA_LITE ="),
        ("pydantic", "pydantic.plugin._loader"),
    ):
        uses = any(sign in path.read_text() for path in (ROOT / "python").rglob("*.py"))
        assert uses == ("<" in declared[name]), name


@pytest.mark.slow
def test_no_file_loads_scipys_statistics() -> None:
    found = [
        path
        for path in (ROOT / "python").rglob("*.py")
        if re.search(r"scipy[. ](import )?stats", path.read_text())
    ]
    assert found == []


def test_every_direct_dependency_has_a_lower_bound_that_its_lock_meets() -> None:
    for one in direct(PROJECT["project"]):
        assert re.fullmatch(r"[\w.-]+==[\d.]+\.\*", lowest(one))


@pytest.mark.slow
def test_an_advisory_of_a_locked_version_is_found_and_any_other_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    numpy, libc = (
        pins("requirements.lock")["numpy"],
        next(c["version"] for c in CRATES if c["name"] == "libc"),
    )

    def write(name: str, ecosystem: str, package: str, events: list[dict[str, str]], **more: object) -> None:
        one = {
            "package": {"ecosystem": ecosystem, "name": package},
            "ranges": [{"type": "SEMVER", "events": events}],
        }
        (tmp_path / f"{name}.json").write_text(
            json.dumps({"id": name, "summary": "is bad", "affected": [one], **more})
        )

    monkeypatch.setattr("sys.argv", ["advisories", str(tmp_path)])
    assert main() == 2  # an empty folder is no database
    write("A-1", "PyPI", "NumPy", [{"introduced": "0"}, {"fixed": "1.0"}])
    write("A-2", "crates.io", "libc", [{"introduced": "0"}], withdrawn="2020-01-01T00:00:00Z")
    write("A-3", "PyPI", "libc", [{"introduced": "0"}])
    assert main() == 0
    write("A-4", "crates.io", "libc", [{"introduced": "0"}, {"last_affected": libc}])
    yaml = f"id: A-5\naffected:\n- package: {{ecosystem: PyPI, name: numpy}}\n  versions: ['{numpy}']\n"
    (tmp_path / "A-5.yaml").write_text(yaml)
    capsys.readouterr()
    assert main() == 1
    assert capsys.readouterr().out.splitlines() == [f"libc {libc}: A-4 is bad", f"numpy {numpy}: A-5"]
    assert [line for each in advisories(tmp_path) for line in affected(each, locked())]


@pytest.mark.slow
def test_advisories_are_looked_for_in_every_lock_file() -> None:
    found = locked()
    for file in LOCKS:
        assert all(version in found["PyPI", normal(name)] for name, version in pins(file).items()), file
    for file in CRATE_LOCKS:
        assert all(one["version"] in found["crates.io", one["name"]] for one in crates(file)), file
