"""Which file is which: a mapping file, or the same said by flags.

```yaml
version: 1
experiment: study.yaml          # the file whose roles, factors and claims these results are of
source: ESXi 8.0 on two hosts   # what they were made on
runs:                           # each entry a run; entries with the same levels are repetitions
  - levels: {load: 30 kB}       # may be left out where the experiment has one design point
    roles: {probe: ping-1.txt}  # or {file: x.txt, tool: ping} where the tool cannot be recognised
    series: [esxtop-1.csv]      # or {file: esxtop-1.csv, host: h1} where there are several hosts
```
Paths are relative to the mapping file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from virtlab.documents import read_yaml
from virtlab.errors import ExperimentError
from virtlab.imported.readers import READERS

KEYS = frozenset({"version", "experiment", "source", "runs"})
RUN_KEYS = frozenset({"levels", "roles", "series"})


@dataclass(frozen=True, slots=True)
class ImportFile:
    """One output; `tool` None: it is recognised. `host`: which host's a series is, "" where there is one."""

    path: Path
    tool: str | None = None
    host: str = ""


@dataclass(frozen=True, slots=True)
class ImportRun:
    """What one run consists of; `where` names it in errors."""

    where: str
    levels: Mapping[str, str] = field(default_factory=dict)
    roles: Mapping[str, ImportFile] = field(default_factory=dict)
    series: tuple[ImportFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Sources:
    """All that is imported at once."""

    experiment: Path
    source: str
    runs: tuple[ImportRun, ...]


def read_mapping(path: Path) -> Sources:
    """A mapping file. ExperimentError with the key that is wrong."""
    root = read_yaml(path, cure="name a mapping file")
    where = str(path)
    if not isinstance(root, dict):
        raise ExperimentError(where, "is not a mapping", "see docs/reference/import.md")
    _keys(root, KEYS, where)
    if root.get("version") != 1:
        raise ExperimentError(f"{where}: version", f"is {root.get('version')!r}", "write 'version: 1'")
    for key in ("experiment", "source"):
        if not isinstance(root.get(key), str) or not root[key].strip():
            raise ExperimentError(f"{where}: {key}", "is missing", f"write '{key}: ...'")
    runs = root.get("runs")
    if not isinstance(runs, list) or not runs:
        raise ExperimentError(f"{where}: runs", "names no run", "write a list of runs")
    found = tuple(_run(f"{where}: runs[{at}]", one, path.parent) for at, one in enumerate(runs))
    return Sources(path.parent / root["experiment"], root["source"].strip(), found)


def _keys(value: Mapping[Any, Any], known: frozenset[str], where: str) -> None:
    for key in value:
        if key not in known:
            raise ExperimentError(
                f"{where}: {key}", "is not a key here", f"there are {', '.join(sorted(known))}"
            )


def _run(where: str, value: Any, folder: Path) -> ImportRun:
    if not isinstance(value, dict):
        raise ExperimentError(where, "is not a run", "write 'roles: {...}', and 'levels: {...}'")
    _keys(value, RUN_KEYS, where)
    levels: Any = value.get("levels") or {}
    roles: Any = value.get("roles") or {}
    series: Any = value.get("series") or []
    if not isinstance(levels, dict) or not isinstance(roles, dict) or not isinstance(series, list):
        raise ExperimentError(
            where, "levels and roles are mappings, series a list", "see docs/reference/import.md"
        )
    if not roles and not series:
        raise ExperimentError(where, "names no file", "write 'roles: {ROLE: FILE}'")
    return ImportRun(
        where,
        {str(name): _level(level) for name, level in levels.items()},
        dict(_files(where, roles, folder)),
        tuple(_file(f"{where}.series[{at}]", one, folder, series=True) for at, one in enumerate(series)),
    )


def _level(value: Any) -> str:
    """A level as the experiment file writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _files(where: str, roles: Mapping[Any, Any], folder: Path) -> Iterator[tuple[str, ImportFile]]:
    for name, value in roles.items():
        yield str(name), _file(f"{where}.roles.{name}", value, folder)


def _file(where: str, value: Any, folder: Path, *, series: bool = False) -> ImportFile:
    tool, host = None, ""
    if isinstance(value, dict):
        _keys(value, frozenset({"file", "tool", "host"} if series else {"file", "tool"}), where)
        tool, host, value = value.get("tool"), value.get("host", ""), value.get("file")
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ExperimentError(where, "names no file", "write a path, or {file: PATH, tool: TOOL}")
    if tool is not None and (not isinstance(tool, str) or tool not in READERS):
        raise ExperimentError(f"{where}.tool", f"'{tool}' is not a tool", f"there are {', '.join(READERS)}")
    if not isinstance(host, str):
        raise ExperimentError(f"{where}.host", f"{host!r} is not a valid name", "write 'host: NAME'")
    return ImportFile(folder / value, tool, host.strip())
