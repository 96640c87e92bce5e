"""`manifest.json`: what a dataset is, and what it was measured on.

The schema's major number is in its name, the minor one beside it. A newer minor adds fields, so this program
reads it, and writes only datasets whose minor it knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from virtlab.errors import DatasetError
from virtlab.folders import read_bounded
from virtlab.results.typed import MAX_BYTES, ManifestFile, first_mistake

SCHEMA = "virtlab.dataset/1"
MINOR = 0


@dataclass(frozen=True)
class Manifest:
    """What `manifest.json` holds. `extra` keeps fields of a newer minor version as they are."""

    name: str
    created: str
    backend: str
    seed: int
    experiment_sha256: str
    machine: Mapping[str, Any] = field(default_factory=dict)
    conditions: Mapping[str, Any] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    fingerprint: Mapping[str, str] = field(default_factory=dict)
    anonymous: bool = False
    minor: int = MINOR
    extra: Mapping[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """The file's content."""
        return {
            "schema": SCHEMA,
            "minor": self.minor,
            "name": self.name,
            "created": self.created,
            "backend": self.backend,
            "seed": self.seed,
            "experiment_sha256": self.experiment_sha256,
            "anonymous": self.anonymous,
            "machine": dict(self.machine),
            "conditions": dict(self.conditions),
            "versions": dict(self.versions),
            "fingerprint": dict(self.fingerprint),
            **self.extra,
        }

    @classmethod
    def load(cls, path: Path) -> Manifest:
        """DatasetError when it is missing, broken, or of another major schema."""
        try:
            file = ManifestFile.model_validate_json(read_bounded(path, MAX_BYTES))
        except FileNotFoundError as error:
            raise DatasetError(
                str(path.parent), "is not a dataset: it has no manifest.json", "name another folder"
            ) from error
        except (OSError, ValidationError) as error:
            what = first_mistake(error) if isinstance(error, ValidationError) else error.strerror
            raise DatasetError(
                str(path), f"is damaged ({what})", "restore it from a copy, or name a new dataset"
            ) from error
        if file.schema_ != SCHEMA:
            raise DatasetError(
                str(path),
                f"has schema '{file.schema_[:80]}', this virtlab reads {SCHEMA}",
                "install the virtlab that wrote it, or a newer one",
            )
        known = {name: getattr(file, name) for name in ManifestFile.model_fields if name != "schema_"}
        return cls(**known, extra=file.model_extra or {})
