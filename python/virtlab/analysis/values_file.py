"""Values of a run, kept in its folder: `values.json` is derived, and may be deleted at any time.

Values follow from the samples, which never change once a run is committed, and from the code that sums them up. The
file names both: a digest of that code, and one of `run.json` with the sizes and times of the samples. If either
differs, or somebody else wrote the file, the values are computed again: it is sealed with a key that each user has
in a file of his own (HMAC, RFC 2104), and a dataset that was received has no seal of his. Where the folder or the
key cannot be written they are taken every time.
"""

from __future__ import annotations

import functools
import hashlib
import hmac
import json
import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from virtlab import __version__
from virtlab.analysis.declared import declared_by
from virtlab.analysis.runs import values_of_run
from virtlab.analysis.values import RunValue
from virtlab.errors import VirtlabError
from virtlab.folders import Folder, read_bounded
from virtlab.metrics import METRICS
from virtlab.results.record import RunRecord

FILE_NAME = "values.json"
KEY_NAME, KEY_BYTES = "values.key", 32
MAX_BYTES = 64 << 20
SCHEMA = "virtlab.values/3"
END = b"}"
SOURCES = ("analysis", "metrics", "plan", "results", "stats")  # rooms that a value passes through


def values_of(record: RunRecord) -> list[RunValue]:
    """Every value of a run, as `values_of_run` gives them; from its folder when they are there and still
    true.
    """
    basis = _basis(record)
    rows = _read(record, basis)
    if rows is not None:
        about = (record.name, record.point, dict(record.levels), record.repetition, record.link_realisation)
        kept = [RunValue(*about, *row) for row in rows]
        # A file's own metrics are never called as one of virtlab's, so the Plan need not be read for those.
        if all(one.metric in METRICS for one in kept):
            return kept
        declared = declared_by(record)
        return [
            replace(one, declared=declared[one.role].get(one.metric)) if one.role in declared else one
            for one in kept
        ]
    values = values_of_run(record)
    _write(record, basis, values)
    return values


@functools.cache
def code_identity() -> str:
    """Digest of the code that makes values of samples; differs between versions of virtlab."""
    digest = hashlib.sha256(__version__.encode())
    package = str(Path(__file__).parents[1])
    for room in SOURCES:
        for path in sorted(_python_files(f"{package}/{room}")):
            digest.update(f"{path.removeprefix(package)}\0".encode())
            digest.update(Path(path).read_bytes())
    return digest.hexdigest()


def _python_files(folder: str) -> Iterator[str]:
    """Python files below a folder. `Path.rglob` costs more than all the hashing."""
    for below, _, names in os.walk(folder):
        yield from (f"{below}/{name}" for name in names if name.endswith(".py"))


def _basis(record: RunRecord) -> dict[str, str]:
    """What the values of a run rest on. No copy or transfer of a file can set the time of its last change."""
    digest = hashlib.sha256(record.file_digest)
    files: list[tuple[str, int, int]] = []
    run = str(record.folder)
    for folder in (run, f"{run}/samples", f"{run}/artefacts"):
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
            there = ((entry.name, entry.stat(follow_symlinks=False)) for entry in entries)
            files += sorted(
                (name, one.st_size, one.st_ctime_ns)
                for name, one in there
                if stat.S_ISREG(one.st_mode) and name != FILE_NAME
            )
    digest.update(repr(files).encode())
    return {"schema": SCHEMA, "code": code_identity(), "samples": digest.hexdigest()}


def _read(record: RunRecord, basis: dict[str, str]) -> list[list[Any]] | None:
    """Rows as kept; None if they are missing, rest on something else, or were written by somebody else.

    Nothing of the file is parsed before the seal shows that this user wrote it.
    """
    key = _key()
    if key is None:
        return None
    try:
        kept = read_bounded(record.folder / FILE_NAME, MAX_BYTES)
    except OSError:
        return None
    rows = kept[len(_head(basis, "0" * 64)) : -len(END)]
    if not hmac.compare_digest(kept, _file(key, basis, rows)):
        return None
    values: list[list[Any]] = json.loads(rows)
    return values


def _write(record: RunRecord, basis: dict[str, str], values: list[RunValue]) -> None:
    """Keeps values by one rename. They can be had again, so nothing is flushed and no failure matters."""
    key = _key()
    if key is None:
        return
    rows = json.dumps(
        [
            [one.role, one.metric, one.statistic, one.value, one.unit, one.samples, one.reason]
            for one in values
        ]
    )
    with (
        suppress(OSError, VirtlabError),
        Folder.open(record.folder.parents[1], "runs", record.name) as folder,
    ):
        folder.write(FILE_NAME, _file(key, basis, rows.encode()))


def _file(key: bytes, basis: dict[str, str], rows: bytes) -> bytes:
    """The whole file: what the rows rest on, the seal of that and of the rows, and last the rows' own text."""
    seal = hmac.digest(key, json.dumps(basis).encode() + rows, "sha256").hex()
    return _head(basis, seal) + rows + END


def _head(basis: dict[str, str], seal: str) -> bytes:
    """The beginning of the file, before the rows."""
    return json.dumps({**basis, "seal": seal}).removesuffix("}").encode() + b', "values": '


@functools.cache
def _key() -> bytes | None:
    """The user's own key, made at its first use; None if there is no place for it."""
    cache = os.environ.get("XDG_CACHE_HOME")
    try:
        place = (Path(cache) if cache else Path.home() / ".cache") / "virtlab"
        with Folder.open(place, make=True) as folder:
            return folder.secret(KEY_NAME, KEY_BYTES)
    except (OSError, RuntimeError, VirtlabError):
        return None
