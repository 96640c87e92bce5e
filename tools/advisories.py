"""Compares the lock files with a database of advisories: `python -m tools.advisories FOLDER`.

The folder holds advisories in OSV form (https://ossf.github.io/osv-schema), a file each, JSON or YAML: a clone of
RustSec's advisory database on its branch `osv`, or of PyPA's. Nothing is fetched. The exit code is 1 when a locked
version is affected.
"""

from __future__ import annotations

import json
import re
import sys
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from packaging.version import InvalidVersion, Version

ROOT = Path(__file__).resolve().parents[1]
PIN = re.compile(r"^([A-Za-z0-9][\w.-]*)==([^\s\\]+)", re.MULTILINE)


def locked(root: Path = ROOT) -> dict[tuple[str, str], set[str]]:
    """(ecosystem, name) -> the versions in the lock files."""
    found: dict[tuple[str, str], set[str]] = {}
    for lock in (root / "Cargo.lock", root / "fuzz" / "Cargo.lock"):
        for crate in tomllib.loads(lock.read_text())["package"]:
            if "source" in crate:
                found.setdefault(("crates.io", crate["name"]), set()).add(crate["version"])
    for file in sorted(root.glob("requirements*.lock")):
        for name, version in PIN.findall(file.read_text()):
            found.setdefault(("PyPI", normal(name)), set()).add(version)
    return found


def normal(name: str) -> str:
    """A package's name as the index compares it.

    >>> normal("Ruamel.YAML")
    'ruamel-yaml'
    """
    return re.sub(r"[-_.]+", "-", name).lower()


def advisories(folder: Path) -> Iterator[dict[str, Any]]:
    """Every advisory of a folder, below it too."""
    for path in sorted(folder.rglob("*")):
        if path.suffix == ".json":
            yield json.loads(path.read_text())
        elif path.suffix in {".yaml", ".yml"} and path.name != ".pre-commit-config.yaml":
            from ruamel.yaml import YAML

            values = YAML(typ="safe", pure=True).load(path.read_text())
            if isinstance(values, dict) and "affected" in values:
                yield values


def affected(advisory: Mapping[str, Any], pins: Mapping[tuple[str, str], set[str]]) -> Iterator[str]:
    """A line per locked version that an advisory is about."""
    if advisory.get("withdrawn"):
        return
    for each in advisory.get("affected", ()):
        package = each.get("package", {})
        ecosystem, name = str(package.get("ecosystem", "")), str(package.get("name", ""))
        for version in sorted(pins.get((ecosystem, normal(name) if ecosystem == "PyPI" else name), ())):
            listed = version in (each.get("versions") or ())
            if listed or any(inside(version, one.get("events", ())) for one in each.get("ranges") or ()):
                yield f"{name} {version}: {advisory.get('id')} {advisory.get('summary', '')}".rstrip()


def inside(version: str, events: list[Mapping[str, str]]) -> bool:
    """Whether a version is in a range, as OSV defines it: events in order, the last one that is not later decides.

    >>> inside("1.2.0", [{"introduced": "0"}, {"fixed": "1.2.0"}]), inside("1.1", [{"introduced": "0"}, {"fixed": "1.2"}])
    (False, True)
    """
    within = False
    for event in events:
        for kind, at in event.items():
            if kind == "introduced" and (at == "0" or _number(version) >= _number(at)):
                within = True
            elif (kind == "fixed" and _number(version) >= _number(at)) or (
                kind == "last_affected" and _number(version) > _number(at)
            ):
                within = False
    return within


def _number(version: str) -> Version:
    """A version to compare; of a crate's pre-release (1.0.0-rc.1), the part before it."""
    try:
        return Version(version)
    except InvalidVersion:
        return Version(re.split(r"[-+]", version)[0])


def main() -> int:
    """Prints what is affected, and how much was looked at."""
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        print("name the folder of a database: python -m tools.advisories FOLDER", file=sys.stderr)
        return 2
    pins, count, found = locked(), 0, []
    for advisory in advisories(Path(sys.argv[1])):
        count += 1
        found += affected(advisory, pins)
    for line in found:
        print(line)
    print(
        f"{count} advisories, {sum(map(len, pins.values()))} locked versions, {len(found)} affected",
        file=sys.stderr,
    )
    if not count:
        print("the folder holds no advisory in OSV form", file=sys.stderr)
        return 2
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
