"""The sections of an experiment file as types of Python: `python -m tools.sections` writes
python/virtlab/api/sections.py.

They are made of the schema of experiment files, which is made of the types of the sections and of the catalogue. Where
a value may be the level of a factor (`"${load}"`) it may be any text: `define` says what a text has to be, and a type
checker says which keys there are, which have to be there, and what may not be a text.
"""

from __future__ import annotations

import keyword
import textwrap
from pathlib import Path
from typing import Any

from virtlab.experiment.schema import json_schema

PLACE = Path(__file__).resolve().parents[1] / "python" / "virtlab" / "api" / "sections.py"
HEAD = '''\
"""The sections of an experiment file, for type checkers. Written by `python -m tools.sections`, from the file's schema."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, Required, TypedDict

'''
PLAIN = {
    "string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None",
    "object": "Mapping[str, Any]", "array": "Sequence[Any]",
}  # fmt: skip
GIVEN = {"version", "name"}  # what `define` says itself
WHOLE = "Sections"
ONE_OF = {
    "roles": "role", "services": "service", "claims": "claim", "timeline": "action", "windows": "window", "factors": "range",
    "hosts": "host", "switches": "switch", "routers": "router", "links": "link",
}  # fmt: skip
KINDS = ("workload", "kind", "do")  # keys that tell which of several forms one is


class Types:
    """Declarations of TypedDicts, each after those that it needs."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self._definitions = schema["$defs"]
        self._names: dict[str, list[str]] = {}  # of definitions that were written
        self._forms: dict[str, dict[str, str]] = {}  # name -> its keys and what each holds
        self.lines: list[str] = []

    def of(self, schema: dict[str, Any], name: str) -> str:
        """The type of what a schema accepts; `name` is for what has to be declared."""
        parts = list(dict.fromkeys(self._parts(schema, name)))
        return "Any" if "Any" in parts else " | ".join(parts)

    def _parts(self, schema: dict[str, Any], name: str) -> list[str]:
        """Its alternatives."""
        if "$ref" in schema:
            return self._definition(schema["$ref"].rpartition("/")[2])
        if "anyOf" in schema:
            return [part for each in schema["anyOf"] for part in self._parts(each, name)]
        if "const" in schema:
            return [f"Literal[{_quoted(schema['const'])}]"]
        if "enum" in schema:
            return [f"Literal[{', '.join(map(_quoted, schema['enum']))}]"]
        kind = schema.get("type")
        if isinstance(kind, list):
            return [PLAIN[one] for one in kind]
        if kind == "array":
            return [f"Sequence[{self.of(schema.get('items', {'type': 'string'}), name)}]"]
        if kind == "object" and "properties" in schema:
            return [self._declared(schema, name)]
        if kind == "object":
            return [f"Mapping[str, {self._values(schema, name)}]"]
        return [PLAIN.get(str(kind), "Any")]

    def _values(self, schema: dict[str, Any], name: str) -> str:
        below = list(schema.get("patternProperties", {}).values())
        if isinstance(schema.get("additionalProperties"), dict):
            below.append(schema["additionalProperties"])
        return self.of({"anyOf": below}, name) if below else "Any"

    def _definition(self, key: str) -> list[str]:
        if key == "reference":
            return ["str"]
        if key not in self._names:
            self._names[key] = ["Any"]  # of one that holds itself
            self._names[key] = self._parts(self._definitions[key], _title(key.removesuffix("Spec")))
        return self._names[key]

    def _declared(self, schema: dict[str, Any], name: str) -> str:
        """The name of the TypedDict of an object with fixed keys."""
        for key in KINDS:
            form = schema["properties"].get(key, {})
            if "const" in form:
                name = "".join(part.capitalize() for part in form["const"].split("_")) + name
        required = set(schema.get("required", ()))
        fields = {}
        above = "" if name == WHOLE else name
        for key, value in schema["properties"].items():
            one = ONE_OF.get(key, key) if name == WHOLE else key
            kind = self.of(value, above + "".join(part.capitalize() for part in one.split("_")))
            fields[key] = f"Required[{kind}]" if key in required else kind
        return self._written(name, fields, schema.get("description", ""))

    def _written(self, name: str, fields: dict[str, str], told: str) -> str:
        number, plain = 1, name
        while self._forms.get(name, fields) != fields:  # another form of the same kind
            number += 1
            name = f"{plain}{number}"
        if name in self._forms:
            return name
        self._forms[name] = fields
        if any(keyword.iskeyword(key) or not key.isidentifier() for key in fields):
            body = [f"    {{  # {told}" if told else "    {"]
            body += [f"        {_quoted(key)}: {_quoted(kind)}," for key, kind in fields.items()]
            lines = [
                f"{name} = TypedDict(",
                f"    {_quoted(name)},",
                *body,
                "    },",
                "    total=False,",
                ")",
            ]
        else:
            doc = "\n    ".join(textwrap.wrap(f'"""{told or "Keys of a section."}"""', 100))
            body = [f"    {key}: {kind}" for key, kind in fields.items()]
            lines = [f"class {name}(TypedDict, total=False):", f"    {doc}", "", *body]
        self.lines += ["", "\n".join(lines), ""]
        return name


def _title(word: str) -> str:
    return word[:1].upper() + word[1:]


def _quoted(value: object) -> str:
    return "None" if value is None else '"' + str(value).replace('"', '\\"') + '"'


def sections() -> str:
    """The file."""
    schema = json_schema()
    types = Types(schema)
    properties = {key: value for key, value in schema["properties"].items() if key not in GIVEN}
    whole = {
        "type": "object", "properties": properties, "required": [key for key in schema["required"] if key not in GIVEN],
        "description": "What an experiment file holds beside its version and its name.",
    }  # fmt: skip
    types.of(whole, WHOLE)
    return HEAD + "\n".join(types.lines).rstrip("\n") + "\n"


if __name__ == "__main__":
    PLACE.write_text(sections(), encoding="utf-8")
