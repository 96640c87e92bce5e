"""The files of a dataset that are JSON, as types: each field has its type and its range, or nothing of the file is
used.

A file of a newer minor schema may have more fields; those are passed over here.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from virtlab.plan.backend import Status

MAX_BYTES = 64 << 20  # of any of them
Time = Annotated[int, Field(ge=-(2**63), lt=2**63)]
Count = Annotated[int, Field(ge=0, lt=2**63)]
Index = Annotated[int, Field(ge=0, lt=2**31)]


class _File(BaseModel):
    model_config = ConfigDict(frozen=True, extra="ignore")


class MarkFile(_File):
    """A mark of a run."""

    t_ns: Time
    bound_ns: Time = 0


class ObjectFile(_File):
    """An object of the world as it was built."""

    intended: dict[str, Any]
    applied: dict[str, Any]
    read_back: dict[str, Any]
    by: str


class RealisedFile(_File):
    """The world as it was built."""

    objects: dict[str, ObjectFile] = {}
    versions: dict[str, str] = {}


class RunFile(_File):
    """`run.json`."""

    schema_: str = Field(alias="schema")
    run: str
    point: Index
    levels: dict[str, str]
    repetition: Index
    attempt: Index
    seed: Count
    plan_identity: str
    backend: str
    link_realisation: str = "none"
    status: Status
    reasons: tuple[str, ...] = ()
    marks: dict[str, MarkFile]
    windows: dict[str, tuple[Time, Time]]
    clocks: dict[str, Any] = {}
    censored: tuple[str, ...] = ()
    blame: Literal["", "machine"] = ""
    started: str = ""
    timings: dict[str, Count] = {}
    conditions: dict[str, str] = {}
    rows: dict[str, Count] = {}
    overrides: dict[str, Any] = {}
    realised: RealisedFile = RealisedFile()


class ManifestFile(_File):
    """`manifest.json`."""

    model_config = ConfigDict(frozen=True, extra="allow")

    schema_: str = Field(alias="schema")
    name: str
    created: str
    backend: str
    seed: Count
    experiment_sha256: Annotated[str, Field(pattern="^[0-9a-f]{64}$")]
    machine: dict[str, Any] = {}
    conditions: dict[str, Any] = {}
    versions: dict[str, str] = {}
    fingerprint: dict[str, str] = {}
    anonymous: bool = False
    minor: Index = 0


def first_mistake(error: ValidationError) -> str:
    """The first mistake that was found, in one line, without what the file says there."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    return f"{place}: {first['msg']}".encode("unicode_escape").decode()[:200].removeprefix(": ")
