"""Going on where it was: the dataset must be of the same experiment, backend and machine, and plan the same
runs.

Comments and white space of the file may change; anything else would mix two experiments in one dataset, so it
is refused with what changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from virtlab.documents import yaml_values
from virtlab.errors import DatasetError
from virtlab.plan.backend import Capabilities
from virtlab.plan.model import Plan
from virtlab.results import Dataset, provenance

CURE = "name a new dataset (--dataset or --fresh-name), or put the file back as it was"
SAME_MACHINE = ("architecture", "cpu", "cpus", "kernel")
SAME_LABORATORY = ("kernel_package", "accelerator")  # of a backend that brings a kernel of its own
_SHOWN = 5


def _plain(text: str) -> Any:
    return yaml_values(text)


def differences(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """Where two parsed files differ, one `path: old -> new` each.

    >>> list(differences({"a": {"b": 1}, "c": [1]}, {"a": {"b": 2}, "c": [1, 3], "d": 4}))
    ['a.b: 1 -> 2', 'c[1]: absent -> 3', 'd: absent -> 4']
    """
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in [*old, *(key for key in new if key not in old)]:
            below = f"{path}.{key}" if path else str(key)
            if key not in new:
                yield f"{below}: {_short(old[key])} -> absent"
            elif key not in old:
                yield f"{below}: absent -> {_short(new[key])}"
            else:
                yield from differences(old[key], new[key], below)
    elif isinstance(old, list) and isinstance(new, list):
        for index in range(max(len(old), len(new))):
            below = f"{path}[{index}]"
            if index >= len(new):
                yield f"{below}: {_short(old[index])} -> absent"
            elif index >= len(old):
                yield f"{below}: absent -> {_short(new[index])}"
            else:
                yield from differences(old[index], new[index], below)
    elif old != new or type(old) is not type(new):
        yield f"{path or 'the file'}: {_short(old)} -> {_short(new)}"


def _short(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def open_dataset(
    path: Path, text: str, *, name: str, seed: int, backend: Capabilities, anonymise: bool = False
) -> Dataset:
    """The experiment's dataset, open for writing: a new one, or the one that is there if it is the same
    experiment's.

    DatasetError with what differs and the cure when it is not.
    """
    if not Dataset.is_one(path):
        return Dataset.create(
            path,
            text,
            name=name,
            seed=seed,
            backend=backend.backend,
            fingerprint=backend.fingerprint,
            anonymise=anonymise,
        )
    dataset = Dataset.open(path, writing=True)
    try:
        _same_file(dataset, text)
        _same_place(dataset, backend)
    except BaseException:
        dataset.close()
        raise
    return dataset


def _same_file(dataset: Dataset, text: str) -> None:
    before = dataset.experiment_text
    if before == text:
        return
    changed = list(differences(_plain(before), _plain(text)))
    if changed:
        shown = "; ".join(changed[:_SHOWN])
        more = f"; and {len(changed) - _SHOWN} more" if len(changed) > _SHOWN else ""
        raise DatasetError(
            str(dataset.path), f"belongs to the experiment as it was before it changed ({shown}{more})", CURE
        )


def _same_place(dataset: Dataset, backend: Capabilities) -> None:
    was = dataset.manifest
    if was.backend != backend.backend:
        raise DatasetError(
            str(dataset.path), f"was made by backend '{was.backend}', not '{backend.backend}'", CURE
        )
    profiles = was.fingerprint.get("profile"), backend.fingerprint.get("profile")
    if profiles[0] != profiles[1]:
        reason = f"was simulated with profile '{profiles[0]}', not '{profiles[1]}': they are not pooled"
        raise DatasetError(str(dataset.path), reason, CURE)
    if backend.parallel_sessions > 1:
        return  # virtual time: the machine does not matter
    here = provenance.machine(anonymous=was.anonymous)
    moved = [
        f"{fact} {was.machine[fact]} -> {here.get(fact)}"
        for fact in SAME_MACHINE
        if fact in was.machine and was.machine[fact] != here.get(fact)
    ]
    moved += [
        f"{fact} {was.fingerprint[fact]} -> {backend.fingerprint.get(fact)}"
        for fact in SAME_LABORATORY
        if fact in was.fingerprint and was.fingerprint[fact] != backend.fingerprint.get(fact)
    ]
    if moved:
        raise DatasetError(
            str(dataset.path),
            f"was measured on another machine ({'; '.join(moved)})",
            "name a new dataset (--dataset or --fresh-name): results of two machines are not pooled",
        )


def check_identities(dataset: Dataset, plan_of: Callable[[int, int], Plan]) -> None:
    """Every finished run has the Plan that this virtlab would make. DatasetError when one has not."""
    for record in dataset.runs():
        plan = plan_of(record.point, record.repetition)
        if plan.identity() != record.plan_identity:
            raise DatasetError(
                f"{dataset.path}/runs/{record.name}",
                f"was planned differently (by virtlab {record.conditions.get('virtlab', 'unknown')}): "
                f"its Plan is {record.plan_identity[:12]}, now it would be {plan.identity()[:12]}",
                "name a new dataset (--dataset or --fresh-name), or resume with the version of virtlab that began it",
            )
