"""A section of the file against its type: every error of pydantic as a mistake with its cure."""

from __future__ import annotations

import os
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, TypeAdapter, ValidationError

from virtlab.catalogue.kinds import shown
from virtlab.experiment.read.findings import Findings, Steps
from virtlab.experiment.read.model import SECTIONS, Part
from virtlab.units import nearest

# A file is data: no plug-in of another package looks at it. It also saves looking for plug-ins at every start.
os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
P = TypeVar("P", bound=Part)
_ADAPTERS: dict[str, TypeAdapter[Any]] = {}


def validate_section(name: str, findings: Findings) -> Any:
    """The typed section of the findings' tree, or None when it is absent or wrong (its mistakes are added)."""
    node = findings.root.get(name)
    if node is None or node.value is None:
        return None
    return validated((name,), node.plain(), section_type(name), findings, adapter=name)


def section_type(name: str) -> Any:
    """What a section holds."""
    if name == "search":
        from virtlab.experiment.read.search_model import SearchSpec

        return SearchSpec
    return SECTIONS[name]


def validated(at: Steps, value: Any, kind: Any, findings: Findings, *, adapter: str) -> Any:
    """A value at `at` against a type; None when it is wrong."""
    if adapter not in _ADAPTERS:
        _ADAPTERS[adapter] = _adapter(kind)
    try:
        return _ADAPTERS[adapter].validate_python(value)
    except ValidationError as error:
        for problem in error.errors(include_url=False):
            _translate(at, problem, kind, findings)
        return None


def _adapter(kind: Any) -> TypeAdapter[Any]:
    """What reads a type. `host` and `hosts` are of one model: built first, it is built once."""
    for model in (kind, *get_args(kind)):
        for part in (model, *get_args(model)):
            for built in _models(part):
                built.model_rebuild()
    return TypeAdapter(kind)


def _translate(at: Steps, problem: Any, kind: Any, findings: Findings) -> None:
    steps: Steps = (*at, *(step for step in problem["loc"] if step != "[key]"))
    match problem["type"]:
        case "value_error":
            findings.add_text(steps, str(problem["ctx"]["error"]))
        case "extra_forbidden":
            known = _keys_at(kind, problem["loc"][:-1])
            cure = nearest(str(steps[-1]), known) or f"known here: {', '.join(known)}"
            findings.add(steps, f"unknown key '{shown(steps[-1])}'", cure, key=True)
        case "missing" if isinstance(steps[-1], int):
            findings.add(steps[:-1], "a list of the wrong length", "write exactly two, e.g. [h1, s1]")
        case "missing":
            findings.add(steps, f"'{steps[-1]}' is missing", "add it", key=True)
        case "model_type" | "dict_type" | "model_attributes_type":
            known = _keys_at(kind, problem["loc"])
            cure = f"write keys: {', '.join(known)}" if known else "write 'NAME: {...}'"
            findings.add(steps, f"'{shown(problem['input'])}' is not a mapping", cure)
        case "list_type" | "tuple_type":
            findings.add(steps, f"'{shown(problem['input'])}' is not a list", "write [first, second]")
        case "too_short" | "too_long":
            findings.add(steps, "a list of the wrong length", "write exactly two, e.g. [h1, s1]")
        case _:
            what = str(problem["msg"])
            findings.add(
                steps, f"'{shown(problem['input'])}': {what[:1].lower()}{what[1:]}", "see 'virtlab schema'"
            )


def _keys_at(kind: Any, loc: tuple[Any, ...]) -> list[str]:
    """Keys of the model that stands at a location below a type."""
    for model in _models(kind):
        if not loc:
            return list(model.model_fields)
        field = model.model_fields.get(str(loc[0]))
        if field is not None:
            return _keys_at(field.annotation, loc[1:])
    arguments = [part for part in get_args(kind) if part is not type(None)]
    for argument in arguments:
        rest = loc[1:] if loc and getattr(kind, "__origin__", None) is dict else loc
        keys = _keys_at(argument, rest)
        if keys:
            return keys
    return []


def _models(kind: Any) -> list[type[BaseModel]]:
    return [kind] if isinstance(kind, type) and issubclass(kind, BaseModel) else []


def merged(default: P | None, own: P) -> P:
    """`own`, with what it does not say taken from `default`."""
    if default is None:
        return own
    said = {name: getattr(own, name) for name in own.model_fields_set}
    return default.model_copy(update=said)
