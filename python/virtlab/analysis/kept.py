"""Values of a run, kept in its folder: `values.json` is derived, and may be deleted at any time.

Values follow from the samples, which never change once a run is committed, and from the code that sums them
up. The file names both: a digest of that code, and one of `run.json` with the sizes of the samples. When
either differs the values are taken anew. Where the folder cannot be written they are taken every time.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from virtlab import __version__
from virtlab.analysis.values import RunValue

if TYPE_CHECKING:
    from virtlab.results.record import RunRecord

FILE_NAME = "values.json"
SCHEMA = "virtlab.values/1"
SOURCES = ("analysis", "metrics", "plan", "results", "stats")  # rooms that a value passes through


def values_of(record: RunRecord) -> list[RunValue]:
    """Every value of a run, as `values_of_run` gives them; from its folder when they are there and still
    true.
    """
    basis = _basis(record)
    rows = _read(record, basis)
    if rows is not None:
        about = (record.name, record.point, dict(record.levels), record.repetition, record.link_realisation)
        return [RunValue(*about, *row) for row in rows]
    from virtlab.analysis.runs import values_of_run

    values = values_of_run(record)
    _write(record, basis, values)
    return values


@functools.cache
def code_identity() -> str:
    """Digest of the code that makes values of samples; differs between versions of virtlab."""
    digest = hashlib.sha256(__version__.encode())
    package = Path(__file__).parents[1]
    for room in SOURCES:
        for path in sorted((package / room).rglob("*.py")):
            digest.update(f"{path.relative_to(package)}\0".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _basis(record: RunRecord) -> dict[str, str]:
    """What the values of a run rest on."""
    digest = hashlib.sha256(record.text())
    with os.scandir(record.folder) as entries:
        plan = sorted(entry.stat().st_size for entry in entries if entry.name == "plan.json")
    samples = record.folder / "samples"
    sizes: list[tuple[str, int]] = []
    if samples.is_dir():
        with os.scandir(samples) as entries:
            sizes = sorted((entry.name, entry.stat().st_size) for entry in entries)
    digest.update(repr((plan, sizes)).encode())
    return {"schema": SCHEMA, "code": code_identity(), "samples": digest.hexdigest()}


def _read(record: RunRecord, basis: dict[str, str]) -> list[list[Any]] | None:
    """Rows as kept; None when there are none, or they rest on something else."""
    try:
        kept = json.loads((record.folder / FILE_NAME).read_bytes())
        rows: list[list[Any]] = kept["values"]
        told = {name: kept[name] for name in basis}
    except (OSError, ValueError, KeyError, TypeError):
        return None
    sound = told == basis and all(isinstance(row, list) and len(row) == 7 for row in rows)
    return rows if sound else None


def _write(record: RunRecord, basis: dict[str, str], values: list[RunValue]) -> None:
    """Keeps values by one rename. They can be had again, so nothing is flushed and no failure matters."""
    rows = [
        [one.role, one.metric, one.statistic, one.value, one.unit, one.samples, one.reason] for one in values
    ]
    aside = record.folder / f".{FILE_NAME}.partial-{os.getpid()}-{threading.get_ident()}"
    try:
        aside.write_text(json.dumps({**basis, "values": rows}, ensure_ascii=False), encoding="utf-8")
        aside.rename(record.folder / FILE_NAME)
    except OSError:
        aside.unlink(missing_ok=True)
