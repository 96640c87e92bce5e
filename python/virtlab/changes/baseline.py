"""A baseline: the run-level values of a dataset that later ones are compared with, as one small file.

It holds numbers and facts, nothing of the experiment's text and no name of a machine, so that it can be published
with the code that it guards. Its schema has a major number: a file of another one is refused, never guessed at.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from virtlab.documents import read_text
from virtlab.errors import DatasetError, ExperimentError, MachineError
from virtlab.folders import put

SCHEMA = "virtlab.baseline/1"
LARGEST_BYTES = 16 << 20
AGAIN = "save it again with --save-baseline"


class _Part(BaseModel):
    """Newer minor versions may add keys."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


LARGEST = 1e30  # in base units: beyond any clock, counter or link; squares of values and of their ratios stay finite


def _measurable(value: float) -> float:
    if value != 0 and not 1 / LARGEST <= abs(value) <= LARGEST:
        raise ValueError(f"{value:g} is outside what can be measured")
    return value


Value = Annotated[float, AfterValidator(_measurable)]


class Measured(_Part):
    """The values of one setting: a number per good run. `links` is how links were realised, `share_of` what a guest's
    share of processors is of."""

    levels: dict[str, str]
    links: str
    values: list[Value]
    share_of: str = ""


class Quantity(_Part):
    """A statistic of a metric of a role, in its base unit. `goal` is that of the search that gave it."""

    path: str
    unit: str
    better: Literal["lower", "higher", "neither"]
    title: str = ""
    goal: str = ""
    measured: list[Measured]


@dataclass(frozen=True, slots=True)
class Setting:
    """A quantity at one setting, as comparisons and trends name it."""

    path: str
    title: str
    unit: str
    better: str
    levels: Mapping[str, str]
    links: str

    def direction(self, difference: float) -> Literal["better", "worse", "different"]:
        """What a change by this much means; quantities without a better direction are only different."""
        if self.better == "neither":
            return "different"
        return "better" if (difference < 0) == (self.better == "lower") else "worse"


def heading(quantity: Quantity, measured: Measured) -> tuple[str, str, str, str, Mapping[str, str], str]:
    """The fields of its `Setting`, in their order."""
    return quantity.path, quantity.title, quantity.unit, quantity.better, measured.levels, measured.links


class Baseline(_Part):
    """A dataset in short. `facts` are what may differ between machines and programs, by name."""

    schema_: str = Field(SCHEMA, alias="schema")
    name: str
    created: str
    backend: str
    experiment_sha256: str
    runs: int
    facts: dict[str, str]
    quantities: list[Quantity]

    def text(self) -> str:
        """The file's content: one line per setting, so that a repository shows what changed."""
        values = self.model_dump(mode="json", by_alias=True)
        quantities = values.pop("quantities")
        head = json.dumps(values, indent=1, ensure_ascii=False)[:-2]
        lines = [f'{head},\n "quantities": [']
        for number, each in enumerate(quantities):
            measured = each.pop("measured")
            opening = json.dumps(each, ensure_ascii=False)[:-1]
            rows = ",\n".join("   " + json.dumps(one, ensure_ascii=False) for one in measured)
            lines.append(
                f'  {opening}, "measured": [\n{rows}\n  ]}}{"," if number < len(quantities) - 1 else ""}'
            )
        return "\n".join([*lines, " ]", "}"]) + "\n"

    def only(self, paths: list[str]) -> Baseline:
        """The part of some quantities."""
        return self.model_copy(update={"quantities": [one for one in self.quantities if one.path in paths]})

    def save(self, path: Path) -> None:
        """Writes the file, whole or not at all."""
        try:
            put(path, self.text().encode())
        except OSError as error:
            raise MachineError(
                str(path), f"cannot be written ({error.strerror})", "name another file"
            ) from None

    @classmethod
    def load(cls, path: Path) -> Self:
        """DatasetError where the file cannot be read, is damaged, or is of another schema."""
        try:
            values: Any = json.loads(read_text(path, largest_bytes=LARGEST_BYTES))
        except ExperimentError as error:
            raise DatasetError(error.where, error.what, error.cure) from None
        except (ValueError, RecursionError):
            raise DatasetError(str(path), "is not a baseline: it is no JSON", AGAIN) from None
        schema = str(values.get("schema", "")) if isinstance(values, dict) else ""
        if schema != SCHEMA:
            what = (
                f"has schema '{schema[:80]}', this virtlab reads {SCHEMA}" if schema else "is not a baseline"
            )
            raise DatasetError(str(path), what, AGAIN)
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            raise DatasetError(str(path), f"is damaged ({place}: {first['msg']})", AGAIN) from None
